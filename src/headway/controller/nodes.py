"""Nodes: what the engine has now, in the record."""

from __future__ import annotations

from dataclasses import replace

from headway.controller.loop import Loop


class Nodes(Loop):
    name = "nodes"
    topics: frozenset[str] = frozenset()
    interval = 60.0

    def step(self) -> set[str]:
        now = self.desk.now()
        found = self.desk.engine.nodes(now)
        with self.desk.apply() as tx:
            before = [n for n in tx.runs.nodes() if n.engine == self.desk.engine.name]
            tx.runs.put_nodes(self.desk.engine.name, found)
        same = [replace(n, seen_at=now) for n in before] == sorted(found, key=lambda n: n.name)
        return set() if same else {"run", "states"}
