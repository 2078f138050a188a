"""The record in one SQLite file (WAL): the default of `headway up`."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from headway.store.base import ConflictError, Store, Transaction

#: seconds for which a writer waits for the others
_PATIENCE = 30


def _from_json(text: str) -> Any:
    """Most of a run's JSON columns are empty, and a pass of the scheduler reads thousands of them."""
    if text == "{}":
        return {}
    return [] if text == "[]" else json.loads(text)


class SqliteStore(Store):
    def __init__(self, path: Path) -> None:
        """path: the file; made when missing. Its tables come from `migrations`, not from here."""
        self.engine = sa.create_engine(
            f"sqlite:///{path}",
            connect_args={"timeout": _PATIENCE, "check_same_thread": False},
            pool_size=8,
            max_overflow=24,
            json_deserializer=_from_json,
        )
        sa.event.listen(self.engine, "connect", _configure)
        # writers of one process wait here: SQLite's own waiting sleeps longer and longer, so that many at once starve
        self._writing = threading.Lock()

    @contextmanager
    def _begin(self, *, write: bool) -> Iterator[sa.Connection]:
        with self._turn() if write else nullcontext(), self.engine.connect() as connection:
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

    @contextmanager
    def migrating(self) -> Iterator[Transaction]:
        """A table is changed by copying it: references to it are looked at when all is done, and not at each step."""
        with self.engine.connect() as connection:
            # within a transaction this would do nothing
            connection.exec_driver_sql("PRAGMA foreign_keys=OFF")
            try:
                with self._turn():
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                    try:
                        yield Transaction(connection)
                        if broken := connection.exec_driver_sql("PRAGMA foreign_key_check").first():
                            raise ConflictError(
                                f"table {broken[0]}: a row refers to one of {broken[2]} that is not there"
                            )
                    except BaseException:
                        connection.exec_driver_sql("ROLLBACK")
                        raise
                    connection.exec_driver_sql("COMMIT")
            finally:
                connection.exec_driver_sql("PRAGMA foreign_keys=ON")

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """This thread's turn to write. Raises OperationalError when it does not come in time."""
        if not self._writing.acquire(timeout=_PATIENCE):
            raise sa.exc.OperationalError("BEGIN IMMEDIATE", {}, sqlite3.OperationalError("database is locked"))
        try:
            yield
        finally:
            self._writing.release()


def _configure(connection: Any, record: Any) -> None:
    # transactions are begun and ended by us alone
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (
        "journal_mode=WAL",
        # a commit that was answered is on disk
        "synchronous=FULL",
        "foreign_keys=ON",
        f"busy_timeout={_PATIENCE * 1000}",
        "temp_store=MEMORY",
        "cache_size=-4000",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
