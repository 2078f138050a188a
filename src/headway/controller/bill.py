"""The bill of what runs: brings open ledger entries up to now, so that a cost is seen before the run ends."""

from __future__ import annotations

from headway.controller.loop import Loop
from headway.rules import billing


class Bill(Loop):
    name = "bill"
    topics: frozenset[str] = frozenset()
    interval = 15.0

    def step(self) -> set[str]:
        with self.desk.services.store.read() as tx:
            if not tx.ledger.opened():
                return set()
        with self.desk.apply() as tx:
            now = self.desk.now()
            for entry in tx.ledger.opened():
                seconds = max(entry.seconds, billing.seconds(entry.started_at, now))
                tx.ledger.change(entry.attempt_id, seconds=seconds, amount=billing.amount(seconds, entry.price_hour))
        return set()
