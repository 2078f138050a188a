"""Pulling a version into a folder."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from headway.client import pulling
from headway.client.pulling import pull
from headway.errors import FailedError, HeadwayError, UsageError

from .served import LARGE, Served, tree, version

FILES = {
    "a/b.txt": b"b",
    "a/empty": b"",
    "中文/line\nend.bin": random.Random(2).randbytes(5000),
    "large": random.Random(3).randbytes(LARGE + 999),
    "z": b"b",
}


def test_everything_is_there_and_not_fetched_again(tmp_path: Path) -> None:
    into = tmp_path / "new" / "folder"
    with version(Served(FILES)) as v:
        first = pull(v, into)
        assert tree(into) == FILES
        assert first.fetched_files == first.files == len(FILES)
        (into / "z").unlink()
        again = pull(v, into)
    assert (again.files, again.fetched_files, again.fetched_bytes) == (len(FILES), 1, 1)
    assert tree(into) == FILES


def test_a_part_of_it(tmp_path: Path) -> None:
    with version(Served(FILES)) as v:
        assert pull(v, tmp_path / "x", path="a/").files == 2
        with pytest.raises(UsageError, match="no file 'q' and no such folder"):
            pull(v, tmp_path / "x", path="q")
    assert set(tree(tmp_path / "x")) == {"a/b.txt", "a/empty"}


def test_what_broke_off_goes_on(tmp_path: Path) -> None:
    served = Served({f"{n:02}": random.Random(n).randbytes(LARGE + n) for n in range(8)})
    served.patience = 12
    with version(served) as v, pytest.raises(HeadwayError):
        pull(v, tmp_path / "x")
    there = tree(tmp_path / "x")
    assert 0 < len(there) < 8
    assert all(served.files[path] == content for path, content in there.items())
    served.patience = 1_000_000
    with version(served) as v:
        assert pull(v, tmp_path / "x").fetched_files == 8 - len(there)
    assert tree(tmp_path / "x") == served.files


def test_files_of_the_users_own_stay(tmp_path: Path) -> None:
    (tmp_path / "z").write_text("mine")
    (tmp_path / "other").write_text("mine too")
    with version(Served(FILES)) as v:
        with pytest.raises(UsageError, match=r"z is there and is not what"):
            pull(v, tmp_path)
        assert (tmp_path / "z").read_text() == "mine"
        pull(v, tmp_path, force=True)
    assert tree(tmp_path) == {**FILES, "other": b"mine too"}


def test_nothing_is_written_through_links(tmp_path: Path) -> None:
    outside, into = tmp_path / "outside", tmp_path / "into"
    outside.mkdir()
    into.mkdir()
    (into / "a").symlink_to(outside)
    with version(Served(FILES)) as v, pytest.raises(UsageError, match="is no folder"):
        pull(v, into, force=True)
    (into / "a").unlink()
    (into / "z").symlink_to(outside / "z")
    with version(Served(FILES)) as v:
        pull(v, into, force=True)
    assert tree(into) == FILES
    assert not os.listdir(outside)


@pytest.mark.parametrize("path", ["../up", "/etc/passwd", "a/../../up"])
def test_paths_that_lead_out(tmp_path: Path, path: str) -> None:
    with version(Served({path: b"x"})) as v, pytest.raises(FailedError, match="does not stay inside"):
        pull(v, tmp_path / "x")
    assert not (tmp_path / "up").exists()


def test_a_content_that_is_not_the_versions(tmp_path: Path) -> None:
    served = Served(FILES)
    name, body = next(iter(served.packs.items()))
    served.packs[name] = body.replace(b"b" + bytes(50), b"c" + bytes(50))
    with version(served) as v, pytest.raises(FailedError):
        pull(v, tmp_path / "x")
    assert b"c" not in tree(tmp_path / "x").values()


def test_names_that_clash_where_case_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulling, "_ignores_case", lambda folder: True)
    with version(Served({"A/x": b"1", "a/X": b"2"})) as v, pytest.raises(UsageError, match="are one file"):
        pull(v, tmp_path / "x")


def test_a_disk_that_is_full(disk: Path) -> None:
    with version(Served({"large": bytes(5 << 20)})) as v, pytest.raises(FailedError, match="No space left"):
        pull(v, disk / "x")
    assert tree(disk) == {}


def test_what_a_killed_pull_left_is_removed_after_a_day(tmp_path: Path) -> None:
    old, new = tmp_path / ".headway-pull-old", tmp_path / ".headway-pull-new"
    old.mkdir()
    new.mkdir()
    os.utime(old, (0, 0))
    with version(Served(FILES)) as v:
        pull(v, tmp_path)
    assert not old.exists()
    assert new.exists()
