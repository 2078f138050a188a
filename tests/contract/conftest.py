"""What contract suites run on: SQLite, a PostgreSQL server and real S3-compatible ones, each started once for all."""

from headway.testing.postgres import empty_postgres, empty_sqlite, empty_store, postgres_server
from headway.testing.s3servers import rclone, swift

__all__ = ["empty_postgres", "empty_sqlite", "empty_store", "postgres_server", "rclone", "swift"]
