"""Many fsyncs handed to the kernel together: each one's outcome told, whatever else is among them."""

from __future__ import annotations

import errno
import os
import platform
from pathlib import Path

import pytest

from headway.storage import syncing
from headway.storage.syncing import sync_all, sync_paths


def some(folder: Path, count: int) -> list[Path]:
    paths = [folder / str(n) for n in range(count)]
    for path in paths:
        path.write_text("x")
    return paths


@pytest.mark.parametrize("count", [0, 1, 2, 64, 65, 200])
def test_files_and_their_folder(tmp_path: Path, count: int) -> None:
    assert sync_paths([*some(tmp_path, count), tmp_path]) == [None] * (count + 1)


def test_one_that_cannot_be_synced_hides_no_other(tmp_path: Path) -> None:
    first, *others = some(tmp_path, 3)
    reading, writing_end = os.pipe()
    fds = [os.open(path, os.O_RDONLY) for path in others]
    try:
        found = sync_all([fds[0], reading, fds[1], 10_000])
    finally:
        for fd in (reading, writing_end, *fds):
            os.close(fd)
    assert [getattr(error, "errno", None) for error in found] == [None, errno.EINVAL, None, errno.EBADF]
    missing = sync_paths([first, tmp_path / "none", tmp_path])
    assert isinstance(missing[1], FileNotFoundError) and missing[0] is missing[2] is None
    (tmp_path / "link").symlink_to(first)
    assert [getattr(e, "errno", None) for e in sync_paths([tmp_path / "link", first])] == [errno.ELOOP, None]


def test_a_kernel_that_takes_none_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syncing, "_CALLS", {})
    monkeypatch.setattr(syncing, "_kernel", None)
    monkeypatch.setattr(syncing, "_cannot", False)
    assert sync_paths(some(tmp_path, 5)) == [None] * 5
    assert syncing._cannot


def test_a_child_has_a_context_of_its_own(tmp_path: Path) -> None:
    paths = some(tmp_path, 4)
    assert sync_paths(paths) == [None] * 4
    child = os.fork()
    if not child:
        os._exit(0 if sync_paths(paths) == [None] * 4 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sync_paths(paths) == [None] * 4


@pytest.mark.skipif(platform.machine() not in syncing._CALLS, reason="numbers of its calls are not known here")
def test_they_are_handed_over_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = []
    monkeypatch.setattr(syncing, "_alone", alone.append)
    assert sync_paths(some(tmp_path, 70)) == [None] * 70
    assert alone == []
