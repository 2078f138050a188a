"""Targets whose file system goes away, or whose folder is another headway's: nothing is written there or lost."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from headway.storage.claims import MARK, claim
from headway.storage.mounts import remember

from .conftest import Home, Start, mounted, talk_to, unmounted


def names_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("begun", [True, False])
def test_a_target_that_is_unmounted_is_a_pause_and_the_disk_below_stays_empty(
    home: Home, helpers: Start, tmp_path: Path, begun: bool
) -> None:
    """And what was finished there is published once it is mounted again, though its device has another number."""
    disk, again = home.project / "evaluations", tmp_path / "again"
    mounted(disk, "size=4m")
    try:
        mount = remember(home.target).to_json()
        helper, talk = talk_to(helpers(home.cells("1-1", 4, tries=1, mount=mount)))
        ran = [talk.work(talk.ask(op="next"))]
        if begun:
            second = talk.done(ran[0])
            helper.event("cells")
            ran.append(talk.work(second))
        # the same files on a file system of another number
        mounted(again, "size=4m")
        shutil.copytree(disk, again, dirs_exist_ok=True)
        unmounted(disk)
        talk.tell(op="next", done={"cell": ran[-1], "seconds": 0.1})
        told = helper.event("paused")
        assert (told["cause"], told["path"]) == ("unmounted", str(home.target))
        assert str(disk) in told["message"] and "eval target" in told["remedy"]
        assert not talk.ready(0.3) and names_below(disk) == []
        subprocess.run(["mount", "--move", again, disk], check=True)
        ran += talk.rest(talk.hear())
        assert helper.end() == 0
        assert ran == [1, 2, 3, 4] == sorted(t["cell"] for t in helper.told())
        assert len(helper.events("paused")) == len(helper.events("resumed")) == 1
        assert helper.events("cell_invalid") == []
    finally:
        unmounted(again)
        unmounted(disk)


def test_a_worker_that_loses_its_folder_with_the_disk_loses_no_try(home: Home, helpers: Start, tmp_path: Path) -> None:
    disk, kept = home.project / "evaluations", tmp_path / "kept"
    mounted(disk, "size=4m")
    try:
        kept.mkdir()
        subprocess.run(["mount", "--bind", disk, kept], check=True)
        helper, talk = talk_to(helpers(home.cells("1-1", 2, tries=1)))
        answer = talk.ask(op="next")
        unmounted(disk)
        with pytest.raises(FileNotFoundError) as error:
            talk.work(answer)
        failed = {"cell": answer["cell"]["id"], "cause": "exception", "reason": "x", "errno": error.value.errno}
        talk.tell(op="next", failed=failed)
        assert helper.event("paused")["cause"] == "unmounted" and names_below(disk) == []
        subprocess.run(["mount", "--bind", kept, disk], check=True)
        assert sorted(talk.rest(talk.hear())) == [1, 2]
        helper.end()
        assert helper.events("cell_invalid") == [] and len(helper.told()) == 2
    finally:
        unmounted(disk)
        unmounted(kept)


def test_a_helper_that_begins_before_its_target_is_mounted_waits_for_it(
    home: Home, helpers: Start, tmp_path: Path
) -> None:
    disk, kept = home.project / "evaluations", tmp_path / "kept"
    mounted(disk, "size=4m")
    try:
        kept.mkdir()
        subprocess.run(["mount", "--bind", disk, kept], check=True)
        mount = remember(home.target).to_json()
        unmounted(disk)
        helper, talk = talk_to(helpers(home.cells("1-1", 1, mount=mount)))
        assert helper.event("paused")["cause"] == "unmounted"
        subprocess.run(["mount", "--bind", kept, disk], check=True)
        assert talk.rest() == [1]
        helper.end()
        assert len(helper.told()) == 1
    finally:
        unmounted(disk)
        unmounted(kept)


def test_something_else_that_is_mounted_there_is_not_taken_for_it(home: Home, helpers: Start) -> None:
    disk = home.project / "evaluations"
    mounted(disk, "size=4m")
    try:
        helper, talk = talk_to(helpers(home.cells("1-1", 2, tries=1)))
        cell = talk.work(talk.ask(op="next"))
        mounted(disk, "size=4m")
        talk.tell(op="next", done={"cell": cell, "seconds": 0.1})
        told = helper.event("paused")
        assert told["cause"] == "unmounted" and "not what was mounted there" in told["message"]
        assert names_below(disk) == []
        unmounted(disk)
        assert sorted([cell, *talk.rest(talk.hear())]) == [1, 2]
        helper.end()
        assert len(helper.told()) == 2
    finally:
        unmounted(disk)
        unmounted(disk)


def test_a_folder_of_another_headway_is_a_pause_until_it_is_ours(home: Home, helpers: Start, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    claim(home.target, other)
    helper, talk = talk_to(helpers(home.cells("1-1", 2, tries=1, shared=True)))
    told = helper.event("paused")
    assert (told["cause"], told["path"]) == ("taken", str(home.target)) and str(other) in told["message"]
    talk.tell(op="next")
    assert not talk.ready(0.3) and names_below(home.target) == [MARK]
    (home.target / MARK).unlink()
    assert talk.rest(talk.hear()) == [1, 2]
    helper.end()
    # whoever comes later is told so
    again, talk = talk_to(helpers(home.cells("1-2", 2, shared=True)))
    assert talk.rest() == [] and len(again.told()) == 0
    again.end()
    assert all(one["found"] for one in again.told()) and len(again.told()) == 2
