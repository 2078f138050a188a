"""Many cells published at once: moved where that is safe, copied where it is not, each whole or absent."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.storage.full import TargetFullError
from headway.storage.group import Wanted, publish_cells
from headway.storage.publish import Publication, verify_folder
from headway.storage.quota import ProjectQuota
from headway.storage.settling import Settled, settle_cells
from headway.storage.verify import InvalidError

RULES: list[dict[str, Any]] = [{"name": "score.json", "kind": "json"}, {"name": "log.txt", "kind": "file"}]
Small = Callable[[str], Path]


def staged(folder: Path, size: int = 100) -> Path:
    folder.mkdir(parents=True)
    (folder / "score.json").write_text('{"score": 0.5}')
    (folder / "log.txt").write_bytes(b"x" * size)
    (folder / "scratch").mkdir()
    (folder / "scratch/a.bin").write_bytes(b"not declared")
    return folder


def settle(folder: Path, rules: list[dict[str, Any]]) -> Settled:
    (settled,) = settle_cells([folder], rules)
    if isinstance(settled, Exception):
        raise settled
    return settled


def wanted(base: Path, count: int, size: int = 100, rules: list[dict[str, Any]] = RULES) -> list[Wanted]:
    return [
        Wanted(settle(staged(base / f".s/{n}", size), rules), base / f"row-{n // 2}/{n}", {"key": f"k{n}"})
        for n in range(count)
    ]


def test_a_group_is_moved_and_holds_what_is_declared(tmp_path: Path) -> None:
    quota = ProjectQuota(tmp_path)
    asked = wanted(tmp_path, 5)
    inode = (tmp_path / ".s/0/log.txt").stat().st_ino
    outcomes = publish_cells(asked, quota)
    for one, outcome in zip(asked, outcomes, strict=True):
        assert isinstance(outcome, Publication) and not outcome.found
        assert verify_folder(one.target).id == outcome.id
        assert sorted(p.name for p in one.target.iterdir()) == ["log.txt", "output.json", "score.json"]
    assert (tmp_path / "row-0/0/log.txt").stat().st_ino == inode
    assert list((tmp_path / ".s").iterdir()) == [] and quota.usage()[1] == 15


def test_what_is_there_is_found_and_another_key_takes_the_place(tmp_path: Path) -> None:
    (first,) = publish_cells(wanted(tmp_path, 1))
    again = Wanted(settle(staged(tmp_path / "b"), RULES), tmp_path / "row-0/0", {"key": "k0"})
    other = Wanted(settle(staged(tmp_path / "c", 7), RULES), tmp_path / "row-0/0", {"key": "other"})
    (found,) = publish_cells([again])
    assert isinstance(found, Publication) and isinstance(first, Publication)
    assert found.found and found.id == first.id
    (new,) = publish_cells([other])
    assert isinstance(new, Publication) and not new.found
    assert verify_folder(tmp_path / "row-0/0").id == new.id


def test_what_somebody_else_holds_is_copied(tmp_path: Path) -> None:
    out = staged(tmp_path / ".s/0")
    os.link(out / "log.txt", tmp_path / "mine")
    settled = settle(out, RULES)
    assert not settled.own
    (outcome,) = publish_cells([Wanted(settled, tmp_path / "t/0", {"key": "k"})])
    assert isinstance(outcome, Publication)
    (tmp_path / "mine").write_bytes(b"something else")
    assert verify_folder(tmp_path / "t/0").id == outcome.id


def test_a_file_that_is_open_to_write_is_not_moved(tmp_path: Path) -> None:
    out = staged(tmp_path / ".s/0")
    with open(out / "log.txt", "ab", buffering=0) as still:
        settled = settle(out, RULES)
        assert not settled.own
        (outcome,) = publish_cells([Wanted(settled, tmp_path / "t/0", {"key": "k"})])
        assert isinstance(outcome, Publication)
        still.write(b"late")
    assert verify_folder(tmp_path / "t/0").id == outcome.id


def test_one_that_was_written_to_after_its_check_is_not_published(tmp_path: Path) -> None:
    asked = wanted(tmp_path, 2)
    with open(tmp_path / ".s/1/log.txt", "ab") as file:
        file.write(b"late")
    first, second = publish_cells(asked)
    assert isinstance(first, Publication)
    assert isinstance(second, InvalidError) and "still being written" in second.reason
    assert not (tmp_path / "row-0/1").exists()


def test_a_link_is_no_output(tmp_path: Path) -> None:
    out = staged(tmp_path / ".s/0")
    (out / "log.txt").unlink()
    (out / "log.txt").symlink_to("/etc/hostname")
    try:
        settled = settle(out, RULES)
    except InvalidError:
        return
    assert not settled.own  # it is copied, never moved


def test_the_quota_takes_as_many_as_fit(tmp_path: Path) -> None:
    quota = ProjectQuota(tmp_path)
    quota.set_limits(None, 3 * 3)
    outcomes = publish_cells(wanted(tmp_path, 5), quota)
    assert [isinstance(o, Publication) for o in outcomes] == [True] * 3 + [False] * 2
    assert {o.cause for o in outcomes if isinstance(o, TargetFullError)} == {"over_quota"}
    assert quota.usage()[1] == 9 and (tmp_path / ".s/4/log.txt").exists()


def test_names_with_a_star_are_counted(tmp_path: Path) -> None:
    out = staged(tmp_path / "o")
    (out / "frames").mkdir()
    for n in range(3):
        (out / f"frames/{n}.bin").write_bytes(b"x")
    settled = settle(out, [{"name": "frames/*.bin", "kind": "file", "count": "2..3"}])
    assert [f.name for f in settled.files] == ["frames/0.bin", "frames/1.bin", "frames/2.bin"]
    with pytest.raises(InvalidError, match="3 such files were written; 2 are asked for"):
        settle(out, [{"name": "frames/*.bin", "kind": "file", "count": 2}])


def test_no_space_leaves_each_whole_or_staged(tmp_path: Path, small: Small) -> None:
    disk = small("size=256k,nr_inodes=60")
    asked = wanted(disk, 4, 20_000)
    for one in asked:
        shutil.rmtree(one.settled.folder / "scratch")  # what is not declared makes room by itself
    (disk / "filler").write_bytes(b"x" * (os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize))
    outcomes = publish_cells(asked)
    assert all(isinstance(o, TargetFullError) and o.cause == "no_space" for o in outcomes)
    (disk / "filler").unlink()
    outcomes = publish_cells(asked)
    assert all(isinstance(o, Publication) for o in outcomes)
    assert all(verify_folder(one.target) for one in asked)


def test_a_folder_that_takes_no_writes(tmp_path: Path, small: Small) -> None:
    disk = small("size=1m")
    asked = wanted(disk, 2)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    assert {o.cause for o in publish_cells(asked) if isinstance(o, TargetFullError)} == {"read_only"}
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    assert all(isinstance(o, Publication) for o in publish_cells(asked))


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {here!r})
from headway.storage import group
from headway.storage.quota import ProjectQuota
from headway.storage.settling import settle_cells
base, at = Path(sys.argv[1]), int(sys.argv[2])
calls = 0
class Os:
    # dies at the at-th call that changes or syncs something
    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in ("rename", "unlink", "open"): return real
        def call(*a, **k):
            global calls
            calls += 1
            if calls == at: os.kill(os.getpid(), signal.SIGKILL)
            return real(*a, **k)
        return call
rules = {rules!r}
settled = settle_cells([base / f".s/{{n}}" for n in range(4)], rules)
wanted = [group.Wanted(one, base / f"row/{{n}}", {{"key": f"k{{n}}"}}) for n, one in enumerate(settled)]
group.os = Os()
from headway.storage import syncing, writing
writing.os = syncing.os = Os()
group.publish_cells(wanted, ProjectQuota(base))
"""


def test_a_kill_at_any_moment_leaves_each_whole_or_absent(tmp_path: Path) -> None:
    seen = set()
    for at in range(1, 40, 3):
        base = tmp_path / str(at)
        for n in range(4):
            staged(base / f".s/{n}")
        code = KILLED.format(here=str(Path(__file__).parent), rules=RULES)
        done = subprocess.run([sys.executable, "-c", code, str(base), str(at)], capture_output=True, text=True)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        there = [p.parent for p in (base / "row").glob("*/output.json")]
        assert all(verify_folder(p) for p in there)
        assert len(list((base / "row").glob("[0-9]"))) == len(there)
        assert ProjectQuota(base).usage()[1] == 3 * len(there)
        seen.add(len(there))
        if done.returncode == 0:
            break
        left = [n for n in range(4) if not (base / f"row/{n}").exists()]
        asked = [Wanted(settle(base / f".s/{n}", RULES), base / f"row/{n}", {"key": f"k{n}"}) for n in left]
        assert all(isinstance(o, Publication) for o in publish_cells(asked, ProjectQuota(base)))
        assert ProjectQuota(base).usage()[1] == 12
        assert json.loads((base / "usage.json").read_text())["pending"] == {}
    assert {0, 4} <= seen and len(seen) >= 3
