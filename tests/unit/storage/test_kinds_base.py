"""Reading a whole file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headway.storage.kinds.base import BLOCK, read_whole


@pytest.mark.parametrize("size", [0, 1, 4096, BLOCK - 1, BLOCK, BLOCK + 1])
def test_all_of_it_is_read_whatever_its_size(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(size))
    assert read_whole(path) == path.read_bytes()


def test_what_has_no_size_is_read_too() -> None:
    assert read_whole(Path("/proc/self/cmdline")) == Path("/proc/self/cmdline").read_bytes() != b""


def test_nothing_stays_open_and_what_is_none_is_an_os_error(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(OSError):
            read_whole(path)
    assert os.listdir("/proc/self/fd") == before
