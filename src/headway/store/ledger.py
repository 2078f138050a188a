"""The ledger: one entry an attempt, open while it runs."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from headway.rules.records import LedgerEntry
from headway.store.area import Area
from headway.store.tables import ledger


class Ledger(Area):
    def open(self, **values: Any) -> None:
        """Opens the entry of an attempt; one that exists stays as it is."""
        if self.of_attempt(values["attempt_id"]) is None:
            self._insert(LedgerEntry, ledger, **values)

    def of_attempt(self, attempt_id: str) -> LedgerEntry | None:
        return self._one(LedgerEntry, sa.select(ledger).where(ledger.c.attempt_id == attempt_id))

    def opened(self) -> list[LedgerEntry]:
        """Entries whose attempt has not ended."""
        return self._all(LedgerEntry, sa.select(ledger).where(sa.text("ended_at IS NULL")).order_by(ledger.c.id))

    def change(self, attempt_id: str, **changes: Any) -> None:
        """changes: `ended_at`, `seconds`, `amount`, `started_at`."""
        self._update(ledger, ledger.c.attempt_id == attempt_id, **changes)

    def listing(
        self, project_id: int, *, since: float | None = None, run_id: int | None = None, limit: int = 1000
    ) -> list[LedgerEntry]:
        """Newest first."""
        query = sa.select(ledger).where(ledger.c.project_id == project_id).order_by(ledger.c.id.desc()).limit(limit)
        if since is not None:
            query = query.where(ledger.c.started_at >= since)
        if run_id is not None:
            query = query.where(ledger.c.run_id == run_id)
        return self._all(LedgerEntry, query)

    def amounts(self, run_ids: list[int]) -> dict[int, int]:
        """Micros billed so far for each run that has entries."""
        rows = self._connection.execute(
            sa.select(ledger.c.run_id, sa.func.sum(ledger.c.amount))
            .where(ledger.c.run_id.in_(run_ids))
            .group_by(ledger.c.run_id)
        )
        return {run_id: int(amount) for run_id, amount in rows}
