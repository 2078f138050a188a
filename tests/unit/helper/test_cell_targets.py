"""Targets that take no writes, and what is left there: no cell is lost to them, and none run twice."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headway.storage.quota import ProjectQuota

from .conftest import Home, Start, Talk, mounted, talk_to


def test_the_quota_pauses_two_helpers_after_exactly_so_many_cells(home: Home, helpers: Start) -> None:
    quota = ProjectQuota(home.project)
    quota.set_limits(None, 3 * 5)
    whole = json.loads((home.cells("0-1", 12) / "launch.json").read_text())["plan"]["cells"]
    started = [
        talk_to(helpers(home.cells(name, 12, deal=part)))
        for name, part in (("1-1", whole["deal"][:6]), ("2-1", whole["deal"][6:]))
    ]
    for _, talk in started:
        talk.tell(op="next")
    blocked: list[Talk] = []
    while len(blocked) < 2:
        # in turn, as far as they are let
        for _, talk in started:
            if talk in blocked or not talk.ready(2):
                blocked += [talk] * (talk not in blocked)
            else:
                talk.tell(op="next", done={"cell": talk.work(talk.hear()), "seconds": 0})
    for helper, _ in started:
        paused = helper.event("paused")
        assert paused["cause"] == "over_quota" and "15 files" in paused["message"]
    assert quota.usage()[1] == 15
    quota.set_limits(None, None)
    for helper, talk in started:
        helper.event("resumed")
        talk.rest(talk.hear())
        helper.end()
        assert len(helper.events("paused")) == len(helper.events("resumed")) == 1
    told = [e for helper, _ in started for e in helper.told()]
    assert len(told) == 12 and len({e["publication"] for e in told}) == 12 and not any(e["found"] for e in told)
    assert quota.usage()[1] == 36


def test_an_output_that_was_staged_when_the_quota_ran_out_is_published_later(home: Home, helpers: Start) -> None:
    quota = ProjectQuota(home.project)
    helper, talk = talk_to(helpers(home.cells("1-1", 1)))
    cell = talk.work(talk.ask(op="next"))
    quota.set_limits(5, None)
    talk.tell(op="next", done={"cell": cell, "seconds": 0})
    helper.event("paused")
    quota.set_limits(None, None)
    assert talk.hear() == {"done": True}
    helper.end()
    assert len(helper.told()) == 1 and len(helper.events("resumed")) == 1


def test_a_helper_that_waits_ends_when_told_to(home: Home, helpers: Start) -> None:
    ProjectQuota(home.project).set_limits(0, None)
    helper, talk = talk_to(helpers(home.cells("1-1", 1)))
    talk.tell(op="next")
    helper.event("paused")
    assert helper.end() == 0


def test_a_place_is_given_back_after_a_long_pause_and_what_was_finished_is_taken_over(
    home: Home, helpers: Start
) -> None:
    quota = ProjectQuota(home.project)
    helper, talk = talk_to(helpers(home.cells("1-1", 3, hold_seconds=0.3)))
    answer = talk.ask(op="next")
    quota.set_limits(5, None)
    ran = []
    while "cell" in answer:  # some are dealt before the publisher counts the limit
        ran.append(talk.work(answer, score=0.75))
        answer = talk.done(ran[-1])
    assert helper.end() == 0
    assert [bool(e.get("held")) for e in helper.events("paused")] == [False, True]
    assert helper.events("resumed") == [] and helper.told() == []
    (home.root / "attempts/1-1/node-0").mkdir()
    (home.root / "attempts/1-1/node-0/exit.json").write_text("{}")
    quota.set_limits(None, None)
    again, talk = talk_to(helpers(home.cells("1-2", 3)))
    assert not set(ran) & set(talk.rest())
    again.end()
    assert sorted(t["cell"] for t in again.told()) == [1, 2, 3]
    assert all(t["score"] == 0.75 for t in again.told() if t["cell"] in ran)


def test_a_worker_without_room_is_no_try(home: Home, helpers: Start) -> None:
    helper, talk = talk_to(helpers(home.cells("1-1", 1, tries=1)))
    answer = talk.ask(op="next")
    for _ in range(3):
        cell = talk.work(answer)
        answer = talk.ask(op="next", failed={"cell": cell, "reason": "OSError: full", "errno": errno.ENOSPC})
        assert "dealt again" in answer["notes"][0]
    assert talk.rest(answer) == [1]
    helper.end()
    assert helper.events("cell_invalid") == []


def test_one_that_is_refused_for_ever_where_all_takes_writes_fails(home: Home, helpers: Start) -> None:
    helper, talk = talk_to(helpers(home.cells("1-1", 1, tries=1)))
    answer = talk.ask(op="next")
    count = 0
    while "cell" in answer:
        count += 1
        cell = talk.work(answer)
        answer = talk.ask(op="next", failed={"cell": cell, "cause": "exception", "reason": "No space", "errno": 28})
    helper.end()
    assert count == 6 and [e["cause"] for e in helper.events("cell_invalid")] == ["exception"]


def test_a_full_disk_pauses_and_goes_on(home: Home, helpers: Start) -> None:
    mounted(home.target, "size=256k")
    try:
        helper, talk = talk_to(helpers(home.cells("1-1", 2)))
        answer = talk.ask(op="next")
        with pytest.raises(OSError) as full:
            talk.work(answer, size=400_000)
        failed = {"cell": 1, "cause": "exception", "reason": "OSError", "errno": full.value.errno}
        talk.tell(op="next", failed=failed)
        paused = helper.event("paused")
        assert paused["cause"] == "no_space" and paused["path"] == str(home.target)
        subprocess.run(["mount", "-o", "remount,size=4m", home.target], check=True)
        assert sorted(talk.rest(talk.hear())) == [1, 2]
        helper.end()
        assert len(helper.events("paused")) == len(helper.events("resumed")) == 1
        assert helper.events("cell_invalid") == []
    finally:
        subprocess.run(["umount", "-l", home.target], check=False)


def test_another_folder_that_is_full_is_named(home: Home, helpers: Start, tmp_path: Path) -> None:
    mounted(tmp_path / "scratch", "size=64k")
    try:
        (tmp_path / "scratch/filler").write_bytes(b"x" * 65536)
        helper, talk = talk_to(helpers(home.cells("1-1", 1, tries=1)))
        talk.ask(op="next")
        path = str(tmp_path / "scratch/file")
        talk.tell(op="next", failed={"cell": 1, "cause": "exception", "reason": "x", "errno": 28, "path": path})
        assert helper.event("paused")["path"] == str(tmp_path / "scratch")
        (tmp_path / "scratch/filler").unlink()
        subprocess.run(["mount", "-o", "remount,size=1m", tmp_path / "scratch"], check=True)
        assert talk.rest(talk.hear()) == [1]
    finally:
        subprocess.run(["umount", "-l", tmp_path / "scratch"], check=False)


def test_no_inodes_pause_and_every_cell_is_run_once(home: Home, helpers: Start) -> None:
    mounted(home.target, "size=4m,nr_inodes=16")
    try:
        helper, talk = talk_to(helpers(home.cells("1-1", 6)))
        ran: list[int] = []
        answer = talk.ask(op="next")
        raised = False
        while "cell" in answer:
            word: dict[str, Any]
            try:
                ran.append(talk.work(answer))
                word = {"done": {"cell": ran[-1], "seconds": 0}}
            except OSError as error:
                word = {"failed": {"cell": answer["cell"]["id"], "cause": "exception", "reason": "x"}}
                word["failed"]["errno"] = error.errno
            talk.tell(op="next", **word)
            if not raised and not talk.ready(1):
                assert helper.event("paused")["cause"] == "no_inodes"
                subprocess.run(["mount", "-o", "remount,nr_inodes=200", home.target], check=True)
                raised = True
            answer = talk.hear()
        helper.end()
        assert raised and sorted(ran) == [1, 2, 3, 4, 5, 6] == sorted(t["cell"] for t in helper.told())
    finally:
        subprocess.run(["umount", "-l", home.target], check=False)


def test_the_output_folder_removed_in_the_middle_costs_no_try(home: Home, helpers: Start) -> None:
    helper, talk = talk_to(helpers(home.cells("1-1", 3, tries=1)))
    cell = talk.work(talk.ask(op="next"))
    shutil.rmtree(home.target)
    assert sorted(talk.rest(talk.done(cell))) == [1, 2, 3]
    helper.end()
    assert helper.events("cell_invalid") == [] and len(helper.told()) == 3


def test_a_cell_whose_folder_was_removed_under_it_loses_no_try(home: Home, helpers: Start) -> None:
    helper, talk = talk_to(helpers(home.cells("1-1", 2, tries=1)))
    answer = talk.ask(op="next")
    shutil.rmtree(home.target)
    failed = {"cell": answer["cell"]["id"], "cause": "exception", "reason": "FileNotFoundError: out.bin", "errno": 2}
    assert sorted(talk.rest(talk.ask(op="next", failed=failed))) == [1, 2]
    helper.end()
    assert helper.events("cell_invalid") == [] and len(helper.told()) == 2


def test_a_cell_that_removes_its_own_folder_fails_in_the_end(home: Home, helpers: Start) -> None:
    helper, talk = talk_to(helpers(home.cells("1-1", 1, tries=1)))
    answer, count = talk.ask(op="next"), 0
    while "cell" in answer:
        count += 1
        shutil.rmtree(answer["cell"]["out"])
        failed = {"cell": answer["cell"]["id"], "cause": "exception", "reason": "odd", "errno": 2}
        answer = talk.ask(op="next", failed=failed)
    helper.end()
    assert 1 < count < 10 and [e["cell"] for e in helper.events("cell_invalid")] == [1]


def test_a_target_that_leads_nowhere_is_a_pause_and_no_cell_is_nobodys(home: Home, helpers: Start) -> None:
    """The worker could not write, and then the target is what it was: the cell that it was at is dealt again."""
    helper, talk = talk_to(helpers(home.cells("1-1", 4, tries=1)))
    cell = talk.work(talk.ask(op="next"))
    answer = talk.done(cell)
    helper.event("cells")
    away = home.target.with_name("away")
    home.target.rename(away)
    home.target.symlink_to("/proc/nowhere")
    lost = answer["cell"]["id"]
    reason = f"FileNotFoundError: [Errno 2] No such file or directory: '{answer['cell']['out']}/out.bin'"
    talk.tell(op="next", failed={"cell": lost, "cause": "exception", "reason": reason, "errno": 2})
    told = helper.event("paused")
    assert (told["cause"], told["path"]) == ("io_error", str(home.target)) and told["remedy"]
    home.target.unlink()
    away.rename(home.target)
    assert sorted(talk.rest(talk.hear())) == [2, 3, 4]
    helper.end()
    assert helper.events("cell_invalid") == [] and len(helper.told()) == 4


def test_a_file_in_the_way_of_a_row_is_a_pause(home: Home, helpers: Start) -> None:
    home.target.mkdir(parents=True)
    (home.target / "epoch-0").write_text("in the way")
    helper, talk = talk_to(helpers(home.cells("1-1", 1, tries=1)))
    talk.tell(op="next", done={"cell": talk.work(talk.ask(op="next")), "seconds": 0})
    told = helper.event("paused")
    assert told["cause"] == "io_error" and str(home.target / "epoch-0") in told["message"]
    (home.target / "epoch-0").unlink()
    assert talk.hear() == {"done": True}
    helper.end()
    assert helper.events("cell_invalid") == [] and len(helper.told()) == 1


def test_a_helper_killed_in_a_pause_loses_nothing_that_was_finished(home: Home, helpers: Start) -> None:
    quota = ProjectQuota(home.project)
    folder = home.cells("1-1", 1)
    first, talk = talk_to(helpers(folder))
    cell = talk.work(talk.ask(op="next"), score=0.25)
    quota.set_limits(5, None)
    talk.tell(op="next", done={"cell": cell, "seconds": 0})
    first.event("paused")
    first.kill()
    quota.set_limits(None, None)
    again, talk = talk_to(helpers(folder))
    assert talk.ask(op="next") == {"done": True}
    again.end()
    assert [(t["cell"], t["score"]) for t in again.told()] == [(1, 0.25)]
    assert [p.name for p in home.target.iterdir() if p.name.startswith(".")] == []


def test_what_an_attempt_that_was_killed_left_is_swept(home: Home, helpers: Start) -> None:
    first, talk = talk_to(helpers(home.cells("1-1", 2)))
    talk.work(talk.ask(op="next"))
    first.kill()
    shutil.rmtree(home.root / "attempts/1-1")
    again, talk = talk_to(helpers(home.cells("1-2", 2)))
    assert talk.rest() == [1, 2]
    again.end()
    assert [p.name for p in home.target.iterdir() if p.name.startswith(".")] == []


# failures
