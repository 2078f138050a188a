"""The record's contract: a unit of work over areas of queries, held by `headway.testing.stores` for every store.

- `begin()` opens a transaction that may write: all of it is committed when the block ends, none of it when it raises.
  Writers are serialised where they touch the same rows (SQLite: always), so a read followed by a write in one
  transaction sees no change of others in between for rows read with a lock, and on SQLite for any row.
- `read()` opens a transaction that only reads, from one consistent state; it never waits for a writer on SQLite.
- Values returned are frozen and detached: they may be kept after the transaction.
- Threads: a store may be shared by threads; a transaction belongs to the thread that opened it.
- A violated uniqueness raises `ConflictError`; a store that cannot be reached `sqlalchemy.exc.OperationalError`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property

import sqlalchemy as sa

from headway.store.connections import Connections
from headway.store.datasets import Datasets
from headway.store.endpoints import Endpoints
from headway.store.evaluations import Evaluations
from headway.store.leases import LeaseLostError, Leases
from headway.store.ledger import Ledger
from headway.store.people import People
from headway.store.products import Products
from headway.store.runs import Runs
from headway.store.templates import Templates

__all__ = ["ConflictError", "LeaseLostError", "Store", "Transaction"]


class ConflictError(Exception):
    """A row with the same unique value exists."""


class Transaction:
    """The areas of queries, all on one connection."""

    def __init__(self, connection: sa.Connection) -> None:
        self.connection = connection

    @cached_property
    def people(self) -> People:
        return People(self.connection)

    @cached_property
    def runs(self) -> Runs:
        return Runs(self.connection)

    @cached_property
    def products(self) -> Products:
        return Products(self.connection)

    @cached_property
    def connections(self) -> Connections:
        return Connections(self.connection)

    @cached_property
    def datasets(self) -> Datasets:
        return Datasets(self.connection)

    @cached_property
    def templates(self) -> Templates:
        return Templates(self.connection)

    @cached_property
    def evaluations(self) -> Evaluations:
        return Evaluations(self.connection)

    @cached_property
    def endpoints(self) -> Endpoints:
        return Endpoints(self.connection)

    @cached_property
    def ledger(self) -> Ledger:
        return Ledger(self.connection)

    @cached_property
    def leases(self) -> Leases:
        return Leases(self.connection)


class Store(ABC):
    engine: sa.Engine

    @abstractmethod
    def _begin(self, *, write: bool) -> AbstractContextManager[sa.Connection]:
        """A connection in a transaction that commits at the end of the block and rolls back when it raises."""

    @contextmanager
    def begin(self) -> Iterator[Transaction]:
        try:
            with self._begin(write=True) as connection:
                yield Transaction(connection)
        except sa.exc.IntegrityError as error:
            raise ConflictError(str(error.orig)) from error

    @contextmanager
    def migrating(self) -> Iterator[Transaction]:
        """`begin` for a change of the tables themselves, which may take away and bring back what others refer to."""
        with self.begin() as tx:
            yield tx

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        with self._begin(write=False) as connection:
            yield Transaction(connection)

    def close(self) -> None:
        self.engine.dispose()
