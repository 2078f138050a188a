"""Records to migrate: SQLite, and a PostgreSQL server started once for all tests."""

from headway.testing.postgres import empty_postgres, empty_sqlite, empty_store, postgres_server

__all__ = ["empty_postgres", "empty_sqlite", "empty_store", "postgres_server"]
