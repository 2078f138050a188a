"""The record in one SQLite file (WAL): the default of `headway up`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from headway.store.base import Store


class SqliteStore(Store):
    def __init__(self, path: Path) -> None:
        """path: the file; made when missing. Its tables come from `migrations`, not from here."""
        self.engine = sa.create_engine(
            f"sqlite:///{path}", connect_args={"timeout": 30, "check_same_thread": False}, pool_size=8, max_overflow=24
        )
        sa.event.listen(self.engine, "connect", _configure)

    @contextmanager
    def _begin(self, *, write: bool) -> Iterator[sa.Connection]:
        with self.engine.connect() as connection:
            # taking the write lock at once: a transaction that reads first and writes later can otherwise fail as busy
            connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
            try:
                yield connection
            except BaseException:
                # SQLite has rolled back by itself after a full disk, and a second time would hide that error
                if getattr(connection.connection.driver_connection, "in_transaction", False):
                    connection.exec_driver_sql("ROLLBACK")
                raise
            connection.exec_driver_sql("COMMIT")


def _configure(connection: Any, record: Any) -> None:
    # transactions are begun and ended by us alone
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (
        "journal_mode=WAL",
        # a commit that was answered is on disk
        "synchronous=FULL",
        "foreign_keys=ON",
        "busy_timeout=30000",
        "temp_store=MEMORY",
        "cache_size=-4000",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
