"""What a project may occupy at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from headway.rules.records import Project, Run
from headway.rules.scheduling.asks import least_need, least_nodes
from headway.rules.scheduling.rooms import SLACK, Cluster, Need, Used

NAMES = ("runs", "accelerators", "nodes", "cpus", "memory_bytes")


@dataclass(frozen=True)
class Bound:
    """The limit that a run does not keep."""

    name: str
    limit: float
    used: float
    asked: float

    @property
    def never(self) -> bool:
        """Whether it alone is more than the limit."""
        return self.asked > self.limit + SLACK


@dataclass
class Promised:
    """What a project's waiting runs were promised in this pass; first: who was first."""

    cpus: float = 0.0
    memory_bytes: int = 0
    accelerators: int = 0
    runs: int = 0
    nodes: int = 0
    runs_of: list[Run] = field(default_factory=list)

    def add(self, run: Run, need: Need, nodes: int) -> None:
        self.cpus += need.cpus * nodes
        self.memory_bytes += need.memory_bytes * nodes
        self.accelerators += need.accelerators * nodes
        self.nodes += nodes
        self.runs += 1
        self.runs_of.append(run)


def limited(project: Project | None) -> Iterator[tuple[str, float]]:
    """The project's limits that are set: name, most."""
    if project is not None and project.limits:
        for name in NAMES:
            if project.limits.get(name) is not None:
                yield name, float(project.limits[name])


def bound(run: Run, project: Project | None, cluster: Cluster, promised: Promised | None = None) -> Bound | None:
    """The limit that keeps the least of what the run asks for from being placed; None: none does."""
    used = cluster.used.get(run.project_id) or Used()
    for name, limit in limited(project):
        asked = asks(run, name)
        more = float(getattr(promised, name)) if promised is not None else 0.0
        if name == "nodes" and not more and asked <= len(used.nodes) <= limit + SLACK:
            continue  # it may share those that the project has
        if asked and used.amount(name) + more + asked > limit + SLACK:
            return Bound(name, limit, used.amount(name), asked)
    return None


def asks(run: Run, name: str) -> float:
    """The least of what the limit counts that the run asks for."""
    if name == "runs":
        return 1.0
    nodes = least_nodes(run)
    return float(nodes) if name == "nodes" else float(getattr(least_need(run), name)) * nodes


def allowed(need: Need, project: Project | None, cluster: Cluster, promised: Promised | None = None) -> int:
    """How many nodes of that need the limits leave room for."""
    most = math.inf
    if project is None or not project.limits:
        return 1 << 30
    used = cluster.used.get(project.id) or Used()
    for name, limit in limited(project):
        left = limit - used.amount(name) - (float(getattr(promised, name)) if promised is not None else 0.0)
        if name == "runs":
            most = min(most, math.inf if left >= 1 else 0)
        elif name == "nodes":
            most = min(most, max(left, len(used.nodes)))
        elif each := float(getattr(need, name)):
            most = min(most, math.floor((left + SLACK) / each))
    return 1 << 30 if most == math.inf else max(int(most), 0)


def only_nodes(nodes: int, project: Project | None, cluster: Cluster) -> frozenset[str] | None:
    """The nodes that a run may share when its project may not have as many more; None: any."""
    if project is None or project.limits.get("nodes") is None:
        return None
    used = cluster.used.get(project.id) or Used()
    left = float(project.limits["nodes"]) - len(used.nodes)
    return frozenset(used.nodes) if nodes > left else None
