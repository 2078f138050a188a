from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from headway.storage import diskquota
from headway.storage.diskquota import Left, parsed

NOW = 1_000_000.0


def dqblk(
    hard: int = 0, soft: int = 0, used: int = 0, until: int = 0, files: tuple[int, int, int, int] = (0,) * 4
) -> bytes:
    """As the kernel fills it in: limits of space in KiB, what is used in bytes."""
    files_hard, files_soft, files_used, files_until = files
    return struct.pack("=8QI4x", hard, soft, used, files_hard, files_soft, files_used, until, files_until, 0x3F)


@pytest.mark.parametrize(
    ("raw", "left"),
    [
        (dqblk(), None),
        (dqblk(used=5000), None),
        (dqblk(hard=100, used=60 << 10), (40 << 10, None)),
        (dqblk(hard=100, used=101 << 10), (0, None)),
        (dqblk(files=(50, 0, 20, 0)), (None, 30)),
        (dqblk(hard=100, used=0, files=(50, 0, 50, 0)), (100 << 10, 0)),
        # over a soft limit: its time runs, is over, has not begun
        (dqblk(hard=100, soft=50, used=60 << 10, until=int(NOW) + 5), (40 << 10, None)),
        (dqblk(hard=100, soft=50, used=60 << 10, until=int(NOW) - 5), (0, None)),
        (dqblk(soft=50, used=60 << 10, until=int(NOW) - 5), (0, None)),
        (dqblk(soft=50, used=10 << 10), None),
        (dqblk(files=(50, 10, 20, int(NOW) - 5)), (None, 0)),
    ],
)
def test_what_a_quota_leaves(raw: bytes, left: tuple[int | None, int | None] | None) -> None:
    assert parsed(raw, "a quota", NOW) == (None if left is None else Left("a quota", *left))


def test_places_that_cannot_be_looked_at_tell_nothing(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for path in (tmp_path, file, file / "below", tmp_path / "not" / "yet", "/proc/self/fd", "\udcff", ""):
        assert isinstance(diskquota.left(path), list)


def test_nothing_stays_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        diskquota.left(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(("size", "files", "what"), [(11, 1, "bytes"), (10, 1, None), (1, 4, "files")])
def test_the_first_quota_that_refuses(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, size: int, files: int, what: str | None
) -> None:
    quotas = [Left("one", 10, None), Left("two", None, 3)]
    monkeypatch.setattr(diskquota, "left", lambda path: quotas)
    found = diskquota.over(tmp_path, size, files)
    assert (found and found[1]) == what
