"""Nodes: what the engine has now, in the record."""

from __future__ import annotations

import logging
from dataclasses import replace

from headway.controller.loop import Loop
from headway.rules import nodes as rules
from headway.rules.states import NodeState

_log = logging.getLogger(__name__)


class Nodes(Loop):
    name = "nodes"
    topics: frozenset[str] = frozenset({"nodes"})
    interval = 60.0

    def step(self) -> set[str]:
        now = self.desk.now()
        found = self.desk.engine.nodes(now)
        with self.desk.apply() as tx:
            before = [n for n in tx.runs.nodes() if n.engine == self.desk.engine.name]
            occupied = {str(place["node"]) for a in tx.runs.live_attempts() for place in a.placement}
            merged = rules.merge(before, found, occupied, now)
            tx.runs.put_nodes(self.desk.engine.name, merged)
            states = {n.name: n.state for n in before}
            for node in merged:
                if states.get(node.name, node.state) is not node.state:
                    tx.runs.change_node(node.name, state=node.state, reason=node.reason)
                    if node.state is NodeState.LOST:
                        _log.warning("node %s is lost: %s", node.name, node.reason)
        same = [replace(n, seen_at=0.0) for n in before] == [replace(n, seen_at=0.0) for n in merged]
        return set() if same else {"run", "states"}
