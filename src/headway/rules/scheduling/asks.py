"""What a run asks of its nodes, and which of them it may be given."""

from __future__ import annotations

from headway.rules.records import Run
from headway.rules.scheduling.rooms import Cluster, Need


def least_nodes(run: Run) -> int:
    return max(1, int(run.least.get("nodes", run.nodes)))


def least_need(run: Run) -> Need:
    """What each node must give at least."""
    least = run.least
    if not least:
        return full_need(run)
    return Need(
        float(least.get("cpus", run.cpus)),
        int(least.get("memory_bytes", run.memory_bytes)),
        int(least.get("accelerators", run.accelerators)),
        run.accelerator_kind,
    )


def full_need(run: Run) -> Need:
    return Need(run.cpus, run.memory_bytes, run.accelerators, run.accelerator_kind)


def shunned(run: Run, cluster: Cluster) -> frozenset[str]:
    """Nodes that it is kept from: those to avoid, unless the others could never hold it."""
    if not run.avoid:
        return frozenset()
    able = cluster.able(least_need(run))
    others = sum(1 for name in able if name not in run.avoid)
    return frozenset(run.avoid) if others >= least_nodes(run) else frozenset()
