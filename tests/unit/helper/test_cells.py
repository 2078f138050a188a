from __future__ import annotations

import errno
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.storage.publish import verify_folder
from headway.storage.quota import ProjectQuota

from .conftest import Helper, Home, Talk, cells

Start = Callable[..., tuple[Helper, str]]


def run_all(talk: Talk) -> list[Any]:
    done = []
    while "cell" in (answer := talk.ask(op="next")):
        done.append(talk.work(answer))
        assert talk.ask(op="publish", cell=done[-1], seconds=0.1) == {"ok": True}
    return done


def test_every_cell_is_dealt_in_order_published_and_told(home: Home, helpers: Start) -> None:
    helper, address = helpers(home.cells("1-1", cells(6)))
    helper.prepared()
    talk = Talk(address)
    assert run_all(talk) == [1, 2, 3, 4, 5, 6]
    assert helper.end() == 0
    told = helper.events("cell")
    assert [t["cell"] for t in told] == [1, 2, 3, 4, 5, 6]
    assert len({t["publication"] for t in told}) == 6 and not any(t["found"] for t in told)
    assert told[0]["score"] == 0.5 and told[0]["scores"] == {"score": 0.5, "n": 3}
    assert told[0]["path"] == "projects/p/evaluations/1/outputs/epoch-0/case-0"
    assert [o["name"] for o in told[0]["outputs"]] == ["score.json", "out.bin"]
    assert verify_folder(home.root / told[0]["path"]).id == told[0]["publication"]
    assert ProjectQuota(home.project).usage()[1] == 18


def test_what_is_published_is_told_again_and_not_dealt(home: Home, helpers: Start) -> None:
    first, address = helpers(home.cells("1-1", cells(2)))
    first.prepared()
    run_all(Talk(address))
    first.end()
    second, address = helpers(home.cells("1-2", cells(3)))
    assert run_all(Talk(address_ready(second, address))) == [3]
    second.end()
    assert [e["publication"] for e in second.events("cell")][:2] == [e["publication"] for e in first.events("cell")]
    assert [e["found"] for e in second.events("cell")] == [True, True, False]


def address_ready(helper: Helper, address: str) -> str:
    helper.prepared()
    return address


KILL_AFTER_RENAME = """
import os, signal
from headway.helper import cells
cells.Cells._tell = lambda self, cell, published: os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_kill_between_rename_and_event_loses_and_repeats_nothing(home: Home, helpers: Start) -> None:
    folder = home.cells("1-1", cells(1))
    first, address = helpers(folder, KILL_AFTER_RENAME)
    first.prepared()
    talk = Talk(address)
    cell = talk.work(talk.ask(op="next"))
    talk.tell(op="publish", cell=cell, seconds=0.1)
    first.process.wait(20)
    published = verify_folder(home.target / "epoch-0/case-0").id
    again, address = helpers(folder)
    talk = Talk(address_ready(again, address))
    # the worker that had no answer asks once more
    assert talk.ask(op="publish", cell=cell, seconds=0.1) == {"ok": True}
    assert talk.ask(op="next") == {"done": True}
    again.end()
    assert {e["publication"] for e in again.events("cell")} == {published}
    assert all(e["found"] for e in again.events("cell"))
    assert ProjectQuota(home.project).usage()[1] == 3


def test_a_helper_killed_while_a_cell_runs_takes_its_staged_output(home: Home, helpers: Start) -> None:
    folder = home.cells("1-1", cells(2))
    first, address = helpers(folder)
    talk = Talk(address_ready(first, address))
    cell = talk.work(talk.ask(op="next"))
    first.kill()
    again, address = helpers(folder)
    talk = Talk(address_ready(again, address))
    assert talk.ask(op="publish", cell=cell, seconds=0.1) == {"ok": True}
    assert run_all(talk) == [2]


def test_the_quota_pauses_two_helpers_after_exactly_so_many_cells(home: Home, helpers: Start) -> None:
    quota = ProjectQuota(home.project)
    quota.set_limits(None, 3 * 7)
    deal = cells(12)
    talks = []
    for name, part in (("1-1", deal[:6]), ("2-1", deal[6:])):
        helper, address = helpers(home.cells(name, part))
        talks.append((helper, Talk(address_ready(helper, address))))
    blocked: list[tuple[Helper, Talk, Any]] = []
    waiting = list(talks)
    published = 0
    while waiting:
        helper, talk = waiting.pop(0)
        if published >= 7:
            break
        cell = talk.work(talk.ask(op="next"))
        assert talk.ask(op="publish", cell=cell, seconds=0) == {"ok": True}
        published += 1
        waiting.append((helper, talk))
    assert published == 7 and quota.usage()[1] == 21
    for helper, talk in talks:
        talk.tell(op="next")
        paused = helper.event("paused")
        assert paused["cause"] == "over_quota" and "21 files" in paused["message"]
        blocked.append((helper, talk, None))
    quota.set_limits(None, None)
    for helper, talk, _ in blocked:
        helper.event("resumed")
        cell = talk.work(talk.hear())
        assert talk.ask(op="publish", cell=cell, seconds=0) == {"ok": True}
        run_all(talk)
        helper.end()
        assert len(helper.events("paused")) == len(helper.events("resumed")) == 1
    told = [e for helper, _ in talks for e in helper.events("cell")]
    assert len(told) == 12 and len({e["publication"] for e in told}) == 12
    assert quota.usage()[1] == 36 == quota.recount()[1]


def test_an_output_that_was_staged_when_the_quota_ran_out_is_published_later(home: Home, helpers: Start) -> None:
    quota = ProjectQuota(home.project)
    helper, address = helpers(home.cells("1-1", cells(1)))
    talk = Talk(address_ready(helper, address))
    cell = talk.work(talk.ask(op="next"))
    quota.set_limits(5, None)
    talk.tell(op="publish", cell=cell, seconds=0)
    helper.event("paused")
    quota.set_limits(None, None)
    assert talk.hear() == {"ok": True}
    helper.end()
    assert len(helper.events("cell_started")) == 1 and len(helper.events("cell")) == 1


def test_a_helper_that_waits_ends_when_told_to(home: Home, helpers: Start) -> None:
    ProjectQuota(home.project).set_limits(0, None)
    helper, address = helpers(home.cells("1-1", cells(1)))
    Talk(address_ready(helper, address)).tell(op="next")
    helper.event("paused")
    assert helper.end() == 0


@pytest.mark.parametrize(
    ("score", "why"),
    [
        ("{", "score.json is not JSON"),
        ('{"score": NaN}', "no finite number"),
        ('{"other": 1}', "no finite number under 'score'"),
        (None, "score.json was not written"),
    ],
)
def test_an_invalid_output_is_tried_again_and_then_told(
    home: Home, helpers: Start, score: str | None, why: str
) -> None:
    helper, address = helpers(home.cells("1-1", cells(2)))
    talk = Talk(address_ready(helper, address))
    order = []
    while "cell" in (answer := talk.ask(op="next")):
        cell = talk.work(answer)
        order.append(cell)
        if cell == 1:
            path = Path(answer["cell"]["out"], "score.json")
            path.write_text(score) if score is not None else path.unlink()
        talk.ask(op="publish", cell=cell, seconds=0)
    assert order == [1, 2, 1]
    helper.end()
    (told,) = helper.events("cell_invalid")
    assert told["cell"] == 1 and why in told["reason"]
    assert [e["cell"] for e in helper.events("cell")] == [2]


def test_a_worker_without_room_is_no_try(home: Home, helpers: Start) -> None:
    helper, address = helpers(home.cells("1-1", cells(1), tries=1))
    talk = Talk(address_ready(helper, address))
    for _ in range(3):
        cell = talk.work(talk.ask(op="next"))
        assert talk.ask(op="failed", cell=cell, reason="OSError: full", errno=errno.ENOSPC) == {"ok": True}
    assert run_all(talk) == [1]
    helper.end()
    assert helper.events("cell_invalid") == []


WORKER = """
import json, os
class W:
    def load(self, path): print("load", path, flush=True)
    def run(self, case, out):
        n = case["parameters"]["n"]
        if n == 1: raise ValueError("odd one")
        open(os.path.join(out, "score.json"), "w").write(json.dumps({"score": n}))
        open(os.path.join(out, "out.bin"), "w").write("x")
"""


def test_the_worker_loads_once_for_each_checkpoint_and_goes_on_after_a_failure(
    home: Home, helpers: Start, tmp_path: Path
) -> None:
    helper, address = helpers(home.cells("1-1", cells(6)))
    helper.prepared()
    (tmp_path / "evaluate.py").write_text(WORKER)
    done = subprocess.run(
        [sys.executable, "-m", "headway.script.worker", "evaluate.py:W"],
        cwd=tmp_path,
        env={"HEADWAY_HELPER": address, "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    helper.end()
    assert done.stdout.count("load") == 2
    assert [e["cell"] for e in helper.events("cell")] == [1, 3, 4, 5, 6]
    (invalid,) = helper.events("cell_invalid")
    assert invalid["reason"] == "ValueError: odd one" and invalid["cell"] == 2
    assert "Traceback" in done.stderr


def test_a_full_disk_pauses_and_goes_on(home: Home, helpers: Start) -> None:
    home.target.mkdir(parents=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", home.target], check=False).returncode:
        pytest.skip("a tmpfs cannot be mounted")
    try:
        helper, address = helpers(home.cells("1-1", cells(2)))
        talk = Talk(address_ready(helper, address))
        cell = talk.work(talk.ask(op="next"), size=200_000)
        talk.tell(op="publish", cell=cell, seconds=0)
        assert helper.event("paused")["cause"] == "no_space"
        subprocess.run(["mount", "-o", "remount,size=4m", home.target], check=True)
        assert talk.hear() == {"ok": True}
        assert run_all(talk) == [2]
        helper.end()
        assert len(helper.events("paused")) == len(helper.events("resumed")) == 1
    finally:
        subprocess.run(["umount", "-l", home.target], check=False)


def test_the_manifest_tells_where_the_cell_came_from(home: Home, helpers: Start) -> None:
    helper, address = helpers(home.cells("1-1", cells(1)))
    run_all(Talk(address_ready(helper, address)))
    note = json.loads((home.target / "epoch-0/case-0/output.json").read_text())
    assert note["manifest"] | {"scores": {}} == {
        "key": "key-0",
        "cell": 1,
        "checkpoint": "epoch-0.pt",
        "case": "case-0",
        "score": 0.5,
        "scores": {},
        "seconds": 0.1,
    }
