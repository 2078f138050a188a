"""Whether any node could ever hold what is asked."""

from __future__ import annotations

from collections.abc import Sequence

from headway.errors import RefusedError
from headway.rules.records import Node, Spec
from headway.rules.units import render_size


def require_room(asked: Spec, nodes: Sequence[Node]) -> None:
    """Raises RefusedError (too_large) when no node, were it empty, has room for `asked`.

    With no node known nothing is refused: the engine may not have told them yet.
    """
    if not nodes or any(_fits(asked, node) for node in nodes):
        return
    gpus = max(_accelerators(n, asked.accelerator_kind) for n in nodes)
    cpus = max(n.cpus for n in nodes)
    memory = max(n.memory_bytes for n in nodes)
    if asked.accelerators > gpus:
        of_kind = f" {asked.accelerator_kind}" if asked.accelerator_kind else ""
        what = f"asked {asked.accelerators}{of_kind} GPUs; the largest node has {gpus}"
    elif asked.cpus > cpus:
        what = f"asked {asked.cpus:g} CPUs; the largest node has {cpus:g}"
    elif asked.memory_bytes > memory:
        what = f"asked {render_size(asked.memory_bytes)} of memory; the largest node has {render_size(memory)}"
    else:
        what = (
            f"no single node has {asked.cpus:g} CPUs, {render_size(asked.memory_bytes)} and {asked.accelerators} GPUs"
        )
    raise RefusedError(f"{what}.", "Ask for less, or add a node; `headway node ls` lists them.", code="too_large")


def _fits(asked: Spec, node: Node) -> bool:
    return (
        asked.cpus <= node.cpus
        and asked.memory_bytes <= node.memory_bytes
        and asked.accelerators <= _accelerators(node, asked.accelerator_kind)
    )


def _accelerators(node: Node, kind: str | None) -> int:
    return sum(1 for a in node.accelerators if kind is None or a.get("kind") == kind)
