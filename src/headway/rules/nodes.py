"""What becomes of the known nodes when the engine tells what it has now."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from headway.rules.records import Node
from headway.rules.states import NodeState

#: seconds after which a node that the engine does not have any more, and on which nothing lives, is forgotten
FORGET_SECONDS = 3600.0
GONE = "The engine does not have it any more."


def merge(known: Sequence[Node], found: Sequence[Node], occupied: Collection[str], now: float) -> list[Node]:
    """The nodes as they are to be in the record. occupied: names of nodes on which attempts live.

    A node that was drained stays so, also when it is gone and comes back. One that is gone is lost, with the time it
    was seen last; one that is lost and comes back is up.
    """
    before = {node.name: node for node in known}
    here = {node.name for node in found}
    merged = []
    for node in found:
        state = before[node.name].state if node.name in before else NodeState.UP
        reason = before[node.name].reason if state is NodeState.DRAINED else ""
        merged.append(
            replace(node, state=NodeState.DRAINED if state is NodeState.DRAINED else NodeState.UP, reason=reason)
        )
    for node in known:
        if node.name in here:
            continue
        if node.state is NodeState.DRAINED:
            merged.append(node)
        elif node.name in occupied or now - node.seen_at < FORGET_SECONDS:
            merged.append(replace(node, state=NodeState.LOST, reason=GONE))
    return sorted(merged, key=lambda node: node.name)
