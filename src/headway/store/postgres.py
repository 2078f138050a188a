"""The record in PostgreSQL: for several apis, gateways and a standby controller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from headway.store.base import Store


class PostgresStore(Store):
    def __init__(self, url: str) -> None:
        """url: `postgresql://user:password@host:port/database`."""
        address = sa.make_url(url).set(drivername="postgresql+psycopg")
        self.engine = sa.create_engine(address, pool_size=8, max_overflow=24, pool_pre_ping=True)

    @contextmanager
    def _begin(self, *, write: bool) -> Iterator[sa.Connection]:
        options = {} if write else {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with self.engine.connect().execution_options(**options) as connection, connection.begin():
            yield connection
