"""The contract of datasets over records and stores: folders, rclone, Swift; SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headway.store.base import Store
from headway.store.sqlite import SqliteStore
from headway.testing.dataset_inputs import BadInputSuite
from headway.testing.dataset_keeping import KeepingSuite
from headway.testing.datasets import DatasetSuite, DirectSuite
from headway.testing.postgres import postgres_database
from headway.testing.s3servers import S3Server


class Sqlite:
    @pytest.fixture(scope="class")
    @classmethod
    def record(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
        store = SqliteStore(tmp_path_factory.mktemp("record") / "headway.db")
        yield store
        store.close()


class Postgres:
    @pytest.fixture(scope="class")
    @classmethod
    def record(cls, postgres_server: str) -> Iterator[Store]:
        with postgres_database(postgres_server) as store:
            yield store


class Rclone:
    @pytest.fixture(scope="class")
    @classmethod
    def server(cls, rclone: S3Server) -> S3Server:
        return rclone


class Swift:
    @pytest.fixture(scope="class")
    @classmethod
    def server(cls, swift: S3Server) -> S3Server:
        return swift


class TestFolder(Sqlite, DatasetSuite):
    pass


class TestFolderAndPostgres(Postgres, DatasetSuite):
    pass


class TestRcloneAndPostgres(Postgres, Rclone, DirectSuite, DatasetSuite):
    pass


class TestSwift(Sqlite, Swift, DirectSuite, DatasetSuite):
    pass


class TestKeeping(Sqlite, KeepingSuite):
    pass


class TestKeepingInRcloneAndPostgres(Postgres, Rclone, KeepingSuite):
    pass


class TestKeepingInSwift(Sqlite, Swift, KeepingSuite):
    pass


class TestBadInput(Sqlite, BadInputSuite):
    pass


class TestBadInputToRclone(Sqlite, Rclone, BadInputSuite):
    pass
