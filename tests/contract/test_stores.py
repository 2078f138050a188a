"""The store contract over SQLite and PostgreSQL."""

from __future__ import annotations

import pytest

from headway.store import migrate
from headway.store.base import Store
from headway.testing.stores import StoreContract


class TestSqlite(StoreContract):
    @pytest.fixture
    def store(self, empty_sqlite: Store) -> Store:
        migrate.upgrade(empty_sqlite)
        return empty_sqlite

    def test_a_commit_survives_the_process(self, store: Store) -> None:
        with store.read() as tx:
            assert tx.connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
            assert tx.connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


class TestPostgres(StoreContract):
    @pytest.fixture
    def store(self, empty_postgres: Store) -> Store:
        migrate.upgrade(empty_postgres)
        return empty_postgres
