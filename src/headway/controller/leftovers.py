"""What died on its way in: pushes of datasets that nobody goes on with, and the room that was kept for them."""

from __future__ import annotations

from headway.controller.loop import Loop
from headway.services import dead_pushes, quota


class Leftovers(Loop):
    name = "leftovers"
    topics: frozenset[str] = frozenset()
    interval = 3600.0

    def step(self) -> set[str]:
        dead_pushes.sweep(self.desk.services)
        quota.write_all(self.desk.services)
        return set()
