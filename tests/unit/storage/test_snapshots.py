"""Snapshots over a folder store."""

from __future__ import annotations

import hashlib
import io
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headway.errors import UsageError
from headway.storage import snapshots
from headway.storage.objects import FolderStore, MissingObjectError


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "objects")


def entry(name: str, content: bytes = b"x", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content) if fields.get("type", tarfile.REGTYPE) == tarfile.REGTYPE else 0
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def tar(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for info, content in entries:
            archive.addfile(info, io.BytesIO(content) if info.size else None)
    return buffer.getvalue()


def receive(store: FolderStore, content: bytes) -> snapshots.Received:
    return snapshots.receive(store, "p", io.BytesIO(content), hashlib.sha256(content).hexdigest())


def test_a_snapshot_is_unpacked_whole(store: FolderStore, tmp_path: Path) -> None:
    link = entry("pkg/link", type=tarfile.SYMTYPE, linkname="../train.py")
    received = receive(store, tar(entry("train.py", b"print(1)", mode=0o755), entry("pkg/a.py", b"1"), link))
    assert received.files == 2 and store.head(received.key) == received.bytes
    into = tmp_path / "a" / "code"
    for _ in range(2):
        snapshots.unpack(store, received.key, into)
        assert (into / "pkg/link").read_text() == "print(1)" and (into / "train.py").stat().st_mode & 0o100
    assert [p.name for p in into.parent.iterdir()] == ["code"]
    with pytest.raises(MissingObjectError):
        snapshots.unpack(store, "projects/p/snapshots/none.tar", tmp_path / "b")


def test_the_nodes_of_a_gang_may_unpack_one_snapshot_into_one_folder_at_once(
    store: FolderStore, tmp_path: Path
) -> None:
    received = receive(store, tar(*(entry(f"pkg/{n}.py", b"1") for n in range(50))))
    into = tmp_path / "a" / "code"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: snapshots.unpack(store, received.key, into), range(8)))
    assert len(list(into.glob("pkg/*.py"))) == 50
    assert [p.name for p in into.parent.iterdir()] == ["code"]


@pytest.mark.parametrize(
    "bad",
    [
        [entry("../out")],
        [entry("/etc/headway-out")],
        [entry("a/../../out")],
        [entry("l", type=tarfile.SYMTYPE, linkname="/etc")],
        [entry("a/l", type=tarfile.SYMTYPE, linkname="../../x")],
        [entry("l", type=tarfile.SYMTYPE, linkname="d"), entry("l/f")],
        [entry("h", type=tarfile.LNKTYPE, linkname="/etc/passwd")],
        [entry("dev", type=tarfile.CHRTYPE, devmajor=1, devminor=3)],
        [entry("fifo", type=tarfile.FIFOTYPE)],
        [entry("twice"), entry("twice")],
    ],
)
def test_a_snapshot_stays_inside(store: FolderStore, tmp_path: Path, bad: list[Any]) -> None:
    content = tar(entry("ok.py"), *bad)
    with pytest.raises(UsageError, match="code snapshot"):
        receive(store, content)
    assert list(store.list()) == []
    # and one that came into the store some other way is not unpacked either
    store.put_bytes("projects/p/snapshots/x.tar", content)
    with pytest.raises(UsageError):
        snapshots.unpack(store, "projects/p/snapshots/x.tar", tmp_path / "code")
    assert not (tmp_path / "code").exists() and not (tmp_path / "out").exists()


def test_a_snapshot_that_did_not_arrive_whole(store: FolderStore) -> None:
    content = tar(entry("a.py"))
    with pytest.raises(UsageError, match="did not arrive whole"):
        snapshots.receive(store, "p", io.BytesIO(content[:-9]), hashlib.sha256(content).hexdigest())


FILES = {"train/0/a.png": b"aaaa", "train/1/b.png": b"bb", "empty": b"", "again/a.png": b"aaaa"}
