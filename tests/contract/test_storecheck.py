"""`storage.storecheck` on folders and real servers, whole ones and ones with a fault."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from headway.storage import secrets, storecheck
from headway.storage.objects import FolderStore, ObjectStore, open_access
from headway.storage.storecheck import Line
from headway.testing.s3servers import S3Server
from headway.testing.swift_all_in_one import free_port


@pytest.fixture
def key(tmp_path: Path) -> Path:
    secrets.ensure_key(tmp_path / "key")
    return tmp_path / "key"


def check(store: ObjectStore, ahead: float = 0.0) -> dict[str, Line]:
    return {line.what: line for line in storecheck.check(store, lambda: time.time() - ahead)}


def faulty(lines: dict[str, Line]) -> set[str]:
    bad = [line for line in lines.values() if not line.ok]
    assert all(line.remedy for line in bad)
    return {line.what for line in bad}


def test_a_folder(tmp_path: Path) -> None:
    lines = check(FolderStore(tmp_path / "data"))
    assert list(lines) == ["reach", "list", "write", "read back", "range", "sign", "delete", "space"]
    assert not faulty(lines)
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert "write" in faulty(check(FolderStore(tmp_path / "file" / "data")))


def test_a_server_that_does_it_all(swift: S3Server, key: Path) -> None:
    lines = check(open_access(swift.access(key), key))
    assert list(lines) == ["reach", "list", "clock", "write", "read back", "range", "sign", "delete"]
    assert not faulty(lines)
    assert lines["range"].says == "A range can be read."
    assert "straight" in lines["sign"].says


def test_a_server_with_less(rclone: S3Server, key: Path) -> None:
    access = rclone.access(key)
    lines = check(open_access(access, key))
    assert not faulty(lines)
    assert "whole object" in lines["range"].says
    assert not list(open_access(access, key).details())


def test_a_wrong_secret(swift: S3Server, key: Path) -> None:
    lines = check(open_access(swift.access(key, secret_access_key="wrong"), key))
    assert lines["reach"].ok
    assert faulty(lines) == {"list"}
    assert "key" in lines["list"].says
    assert "write" not in lines


def test_a_key_that_may_only_read(swift: S3Server, key: Path) -> None:
    assert swift.reader is not None
    name, secret = swift.reader
    url = f"s3://{swift.shown_bucket}/x"
    lines = check(open_access(swift.access(key, url, access_key_id=name, secret_access_key=secret), key))
    assert faulty(lines) == {"write"}
    assert "write an object" in lines["write"].says


def test_a_key_that_may_not_list(swift: S3Server, key: Path) -> None:
    assert swift.reader is not None
    name, secret = swift.reader
    lines = check(open_access(swift.access(key, access_key_id=name, secret_access_key=secret), key))
    assert faulty(lines) == {"list", "write"}
    assert "list objects" in lines["list"].says


def test_nothing_there(rclone: S3Server, key: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.storage.objects.opening._MOST_RETRIES", 0)
    access = rclone.access(key)
    endpoint = f"http://127.0.0.1:{free_port()}"
    lines = check(open_access({**access, "connection": {**access["connection"], "endpoint": endpoint}}, key))
    assert list(lines) == ["reach"]
    assert faulty(lines) == {"reach"}


def test_a_clock_that_is_off(rclone: S3Server, key: Path) -> None:
    lines = check(open_access(rclone.access(key), key), ahead=7200)
    assert faulty(lines) == {"clock"}
    assert "ahead of" in lines["clock"].says
