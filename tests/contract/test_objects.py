"""The object stores' contract over each implementation, a real S3-compatible server among them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.errors import UsageError
from headway.storage.objects import FolderStore, ObjectStore, ObstoreStore, open_access, open_objects
from headway.testing.objects import ObjectStoreSuite
from headway.testing.s3servers import S3Server


class TestFolder(ObjectStoreSuite):
    @pytest.fixture
    def objects(self, tmp_path: Path) -> ObjectStore:
        return FolderStore(tmp_path / "objects")


class TestMemory(ObjectStoreSuite):
    @pytest.fixture
    def objects(self) -> ObjectStore:
        from obstore.store import MemoryStore

        return ObstoreStore(MemoryStore())


class TestRclone(ObjectStoreSuite):
    # the server is over a folder, and removes the file before it puts the other one there
    replaces_at_once = False

    @pytest.fixture
    def objects(self, rclone: S3Server, tmp_path: Path) -> ObjectStore:
        return open_access(rclone.access(tmp_path / "key"), tmp_path / "key")


class TestSwift(ObjectStoreSuite):
    # of several that write at once, the proxy may ask one that removes the older file just now
    replaces_at_once = False

    @pytest.fixture
    def objects(self, swift: S3Server, tmp_path: Path) -> ObjectStore:
        return open_access(swift.access(tmp_path / "key"), tmp_path / "key")


class TestByVariables(ObjectStoreSuite):
    """The usual variables in place of a connection."""

    replaces_at_once = False

    @pytest.fixture
    def objects(self, rclone: S3Server, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
        for name, value in rclone.environment.items():
            monkeypatch.setenv(name, value)
        return open_objects(rclone.url)


def test_a_url_that_names_no_store(tmp_path: Path) -> None:
    for url in ("", "objects", "ftp://x/y", "nonsense://"):
        with pytest.raises(UsageError):
            open_objects(url)
    assert isinstance(open_objects(f"file://{tmp_path}/a%20b"), FolderStore)
