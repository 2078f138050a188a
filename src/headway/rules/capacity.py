"""Whether the nodes could ever hold what is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headway.errors import RefusedError
from headway.rules.records import Node, Spec
from headway.rules.units import render_size


def require_room(asked: Spec, nodes: Sequence[Node], *, count: int = 1, least: Mapping[str, Any] | None = None) -> None:
    """Raises RefusedError (too_large) when the nodes, were they empty, could not hold `asked` on `count` of them.

    least: the lower ends of what was asked as a range (as `Run.least`); only those have to fit. With no node known
    nothing is refused: the engine may not have told them yet.
    """
    lower = dict(least or {})
    count = max(1, int(lower.pop("nodes", count)))
    part = replace(asked, **{k: v for k, v in lower.items() if k in ("cpus", "memory_bytes", "accelerators")})
    able = [node for node in nodes if _fits(part, node)]
    if not nodes or len(able) >= count:
        return
    if not able:
        what = _too_large_for_one(part, nodes)
    else:
        there = "is 1" if len(nodes) == 1 else f"are {len(nodes)}"
        if len(able) == len(nodes):
            what = f"asked {count} nodes; there {there}"
        else:
            verb = "has" if len(able) == 1 else "have"
            what = f"asked {count} nodes with {_words(part)} each; {len(able)} of {len(nodes)} {verb} that much"
        raise RefusedError(
            f"{what}.",
            f"Ask for {_nodes(len(able))} with more processes each, write a range such as --nodes 1..{count}, or add "
            "nodes; `headway node ls` lists them.",
            code="too_large",
        )
    raise RefusedError(f"{what}.", "Ask for less, or add a node; `headway node ls` lists them.", code="too_large")


def _too_large_for_one(asked: Spec, nodes: Sequence[Node]) -> str:
    gpus = max(_accelerators(n, asked.accelerator_kind) for n in nodes)
    cpus = max(n.cpus for n in nodes)
    memory = max(n.memory_bytes for n in nodes)
    if asked.accelerators > gpus:
        of_kind = f" {asked.accelerator_kind}" if asked.accelerator_kind else ""
        return f"asked {asked.accelerators}{of_kind} GPUs; the largest node has {gpus}"
    if asked.cpus > cpus:
        return f"asked {asked.cpus:g} CPUs; the largest node has {cpus:g}"
    if asked.memory_bytes > memory:
        return f"asked {render_size(asked.memory_bytes)} of memory; the largest node has {render_size(memory)}"
    return f"no single node has {_words(asked)}"


def _words(asked: Spec) -> str:
    return f"{asked.cpus:g} CPUs, {render_size(asked.memory_bytes)} and {asked.accelerators} GPUs"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _fits(asked: Spec, node: Node) -> bool:
    return (
        asked.cpus <= node.cpus
        and asked.memory_bytes <= node.memory_bytes
        and asked.accelerators <= _accelerators(node, asked.accelerator_kind)
    )


def _accelerators(node: Node, kind: str | None) -> int:
    return sum(1 for a in node.accelerators if kind is None or a.get("kind") == kind)
