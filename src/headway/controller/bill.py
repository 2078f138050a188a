"""The bill of what runs: brings open ledger entries up to now, so that a cost is seen before the run ends."""

from __future__ import annotations

from headway.controller.loop import Desk, Loop
from headway.rules import billing, prices
from headway.rules.records import Attempt, Run
from headway.rules.states import Billing
from headway.store.base import Transaction


class Bill(Loop):
    name = "bill"
    topics: frozenset[str] = frozenset()
    interval = 15.0

    def step(self) -> set[str]:
        with self.desk.services.store.read() as tx:
            if not tx.ledger.opened():
                return set()
        history = self.desk.services.prices.history  # a feed that is asked for the first time may take a moment
        history()
        with self.desk.apply() as tx:
            now = self.desk.now()
            for entry in tx.ledger.opened():
                # a clock that went back takes nothing off a bill
                until = max(now, entry.started_at + entry.seconds)
                tx.ledger.change(entry.attempt_id, **billing.upto(entry, until, history))
        return set()


def open_entry(desk: Desk, tx: Transaction, run: Run, attempt: Attempt, at: float) -> None:
    """Puts the attempt on the bill from `at` on; one that is there stays as it is."""
    spec = tx.runs.spec(run.spec)
    nodes = max(1, len(attempt.placement))
    price = 0
    if spec is not None:
        spot = run.billing is Billing.SPOT
        price = prices.spot(desk.services.prices.history(), spec, at) if spot else spec.price_hour
    tx.ledger.open(
        attempt_id=attempt.id,
        run_id=run.id,
        project_id=run.project_id,
        owner=run.owner,
        spec=run.spec,
        started_at=at,
        ended_at=None,
        seconds=0.0,
        price_hour=price * nodes,
        amount=0,
        details=billing.details(run.billing, nodes),
    )


def close_entry(desk: Desk, tx: Transaction, attempt_id: str, ended: float) -> None:
    """What the attempt has cost in the end; nothing when it was never on the bill."""
    entry = tx.ledger.of_attempt(attempt_id)
    if entry is not None:
        tx.ledger.change(attempt_id, ended_at=ended, **billing.upto(entry, ended, desk.services.prices.history))
