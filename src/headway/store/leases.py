"""Leases: one holder at a time, with a token that grows each time the holder changes."""

from __future__ import annotations

import sqlalchemy as sa

from headway.rules.records import Lease
from headway.store.area import Area
from headway.store.tables import leases


class LeaseLostError(Exception):
    """The lease is somebody else's now: what was about to be written must not be."""


class Leases(Area):
    def acquire(self, name: str, holder: str, *, now: float, seconds: float) -> Lease | None:
        """Takes or renews the lease for `seconds`; None while another holder's has not run out.

        The same holder renews and keeps its token; a new holder gets the next one.
        """
        row = self._one(Lease, sa.select(leases).where(leases.c.name == name).with_for_update())
        until = now + seconds
        if row is None:
            return self._insert(Lease, leases, name=name, holder=holder, token=1, expires_at=until)
        if row.holder != holder and row.expires_at > now:
            return None
        token = row.token if row.holder == holder else row.token + 1
        self._update(leases, leases.c.name == name, holder=holder, token=token, expires_at=until)
        return Lease(name=name, holder=holder, token=token, expires_at=until)

    def current(self, name: str) -> Lease | None:
        """The lease as it is, run out or not; None when nobody ever held it. Takes no lock."""
        return self._one(Lease, sa.select(leases).where(leases.c.name == name))

    def guard(self, lease: Lease) -> None:
        """Holds the lease's row to the end of this transaction. Raises LeaseLostError unless it is still `lease`'s."""
        row = self._one(Lease, sa.select(leases).where(leases.c.name == lease.name).with_for_update())
        if row is None or row.token != lease.token or row.holder != lease.holder:
            raise LeaseLostError(f"lease {lease.name} is no longer held by {lease.holder}")

    def release(self, lease: Lease) -> None:
        """Lets another holder take it at once; nothing happens when it was lost."""
        where = (leases.c.name == lease.name) & (leases.c.token == lease.token) & (leases.c.holder == lease.holder)
        self._update(leases, where, expires_at=0.0)
