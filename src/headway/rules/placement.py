"""Which waiting run goes where: pure, from what waits, what lives and what the nodes have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.rules.records import Attempt, Node, Run
from headway.rules.units import render_size

#: CPUs are counted in fractions; sums of them are compared with this much slack
_SLACK = 1e-9


@dataclass
class Room:
    """What is free on one node."""

    node: Node
    cpus: float
    memory_bytes: int
    #: index -> kind of each free accelerator
    accelerators: dict[int, str] = field(default_factory=dict)

    def matching(self, kind: str | None) -> list[int]:
        return sorted(i for i, k in self.accelerators.items() if kind is None or k == kind)

    def holds(self, run: Run) -> bool:
        return (
            run.cpus <= self.cpus + _SLACK
            and run.memory_bytes <= self.memory_bytes
            and run.accelerators <= len(self.matching(run.accelerator_kind))
        )

    def take(self, cpus: float, memory_bytes: int, accelerators: Iterable[int]) -> None:
        self.cpus -= cpus
        self.memory_bytes -= memory_bytes
        for index in accelerators:
            self.accelerators.pop(index, None)


@dataclass(frozen=True)
class Placement:
    run: Run
    node: Node
    accelerators: list[int]


@dataclass(frozen=True)
class Decision:
    placements: list[Placement]
    #: run id -> one sentence why it waits
    waits: dict[int, str]


def rooms(nodes: Sequence[Node], live: Iterable[tuple[Run, Mapping[str, Any]]]) -> list[Room]:
    """What is free. live: each living run with each of its places ({"node", "accelerators"})."""
    found = {
        n.name: Room(n, n.cpus, n.memory_bytes, {int(a["index"]): str(a.get("kind", "")) for a in n.accelerators})
        for n in nodes
    }
    for run, place in live:
        if (room := found.get(str(place["node"]))) is not None:
            room.take(run.cpus, run.memory_bytes, place.get("accelerators") or [])
    return list(found.values())


def places(run: Run, attempt: Attempt) -> list[tuple[Run, Mapping[str, Any]]]:
    return [(run, place) for place in attempt.placement]


def decide(queued: Sequence[Run], free: Sequence[Room]) -> Decision:
    """Places what fits, in the order given (priority, then first come).

    A run that does not fit keeps what it could use of the node that comes nearest to holding it, so that later, smaller
    runs never starve it. `free` is used up by this.
    """
    placements: list[Placement] = []
    waits: dict[int, str] = {}
    for run in queued:
        fitting = [room for room in free if room.holds(run)]
        if fitting:
            # the fullest node that holds it, fewest accelerators left over first: whole nodes stay free
            room = min(fitting, key=lambda r: (len(r.accelerators), r.cpus, r.node.name))
            chosen = room.matching(run.accelerator_kind)[: run.accelerators]
            room.take(run.cpus, run.memory_bytes, chosen)
            placements.append(Placement(run, room.node, chosen))
            continue
        waits[run.id] = f"waits for {_asked(run)}"
        if nearest := [r for r in free if _could_hold(r.node, run)]:
            room = max(nearest, key=lambda r: (len(r.matching(run.accelerator_kind)), r.cpus))
            kept = room.matching(run.accelerator_kind)[: run.accelerators]
            room.take(min(run.cpus, max(room.cpus, 0.0)), min(run.memory_bytes, max(room.memory_bytes, 0)), kept)
    return Decision(placements, waits)


def _could_hold(node: Node, run: Run) -> bool:
    devices = sum(1 for a in node.accelerators if run.accelerator_kind in (None, a.get("kind")))
    return run.cpus <= node.cpus and run.memory_bytes <= node.memory_bytes and run.accelerators <= devices


def _asked(run: Run) -> str:
    words = [f"{run.cpus:g} CPU{'s' if run.cpus != 1 else ''}", render_size(run.memory_bytes)]
    if run.accelerators:
        words.append(f"{run.accelerators} x {run.accelerator_kind or 'accelerator'}")
    return ", ".join(words)
