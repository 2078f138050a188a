from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from headway.storage.publish import verify_folder
from headway.storage.quota import ProjectQuota

from .conftest import Home, Start, Talk, talk_to


def test_every_cell_is_dealt_in_order_published_and_told(home: Home, helpers: Start) -> None:
    helper, talk = talk_to(helpers(home.cells("1-1", 6)))
    assert talk.rest() == [1, 2, 3, 4, 5, 6]
    assert helper.end() == 0
    told = helper.told()
    assert sorted(t["cell"] for t in told) == [1, 2, 3, 4, 5, 6]
    assert len({t["publication"] for t in told}) == 6 and not any(t["found"] for t in told)
    first = min(told, key=lambda t: int(t["cell"]))
    assert first["score"] == 0.5 and first["scores"] == {"score": 0.5, "n": 3}
    assert first["path"] == "projects/p/evaluations/1/outputs/epoch-0/case-0"
    assert [o["name"] for o in first["outputs"]] == ["score.json", "out.bin"]
    assert verify_folder(home.root / first["path"]).id == first["publication"]
    assert (first["bytes"], first["files"]) == (sum(p.stat().st_size for p in (home.root / first["path"]).iterdir()), 3)
    assert ProjectQuota(home.project).usage()[1] == 18
    # nothing is staged any more
    assert [p.name for p in home.target.iterdir() if p.name.startswith(".")] == []


def test_a_worker_hears_what_is_to_be_run(home: Home, helpers: Start) -> None:
    _, talk = talk_to(helpers(home.cells("1-1", 3, timeout=5.0)))
    hello = talk.ask(op="hello")
    assert (hello["worker"], hello["timeout"], hello["command"]) == ("evaluate.py:W", 5.0, None)
    assert [c["name"] for c in hello["checkpoints"]] == ["epoch-0.pt"]
    cell = talk.ask(op="next")["cell"]
    assert cell["case"]["parameters"] == {"n": 0} and cell["checkpoint"] == 0
    assert Path(cell["out"]).is_dir() and Path(cell["out"]).is_relative_to(home.target)


def test_what_is_published_is_told_again_and_not_dealt(home: Home, helpers: Start) -> None:
    first, talk = talk_to(helpers(home.cells("1-1", 2)))
    talk.rest()
    first.end()
    second, talk = talk_to(helpers(home.cells("1-2", 3)))
    assert talk.rest() == [3]
    second.end()
    before = {e["cell"]: e["publication"] for e in first.told()}
    again = {e["cell"]: (e["publication"], e["found"]) for e in second.told()}
    assert again[1] == (before[1], True) and again[2] == (before[2], True) and again[3][1] is False


KILL_BEFORE_TELLING = """
import os, signal
from headway.helper import publishing
publishing.Publisher.tell = lambda self, published: os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_kill_between_rename_and_event_loses_and_repeats_nothing(home: Home, helpers: Start) -> None:
    folder = home.cells("1-1", 1)
    first, talk = talk_to(helpers(folder, KILL_BEFORE_TELLING))
    cell = talk.work(talk.ask(op="next"))
    talk.tell(op="next", done={"cell": cell, "seconds": 0.1})
    first.process.wait(20)
    published = verify_folder(home.target / "epoch-0/case-0").id
    again, talk = talk_to(helpers(folder))
    # the worker that had no answer asks once more
    assert talk.done(cell) == {"done": True}
    again.end()
    assert [(e["publication"], e["found"]) for e in again.told()] == [(published, True)]
    assert ProjectQuota(home.project).usage()[1] == 3


def test_a_helper_killed_while_a_cell_runs_takes_its_staged_output(home: Home, helpers: Start) -> None:
    folder = home.cells("1-1", 2)
    first, talk = talk_to(helpers(folder))
    cell = talk.work(talk.ask(op="next"))
    first.kill()
    again, talk = talk_to(helpers(folder))
    assert talk.rest(talk.done(cell)) == [2]
    again.end()
    assert sorted(t["cell"] for t in again.told()) == [1, 2] and not any(t["found"] for t in again.told())


@pytest.mark.parametrize("rename", [1, 2, 5])
def test_a_kill_at_any_rename_of_a_group_leaves_whole_cells(home: Home, helpers: Start, rename: int) -> None:
    kill = f"""
import os, signal
from headway.storage import group
real, count = os.rename, 0
class Os:
    def __getattr__(self, name): return getattr(os, name)
    def rename(self, a, b):
        global count
        count += 1
        if count == {rename}: os.kill(os.getpid(), signal.SIGKILL)
        real(a, b)
group.os = Os()
"""
    folder = home.cells("1-1", 6)
    first, talk = talk_to(helpers(folder, kill))
    with pytest.raises((AssertionError, OSError)):
        talk.rest()
    first.process.wait(20)
    there = {p.parent for p in home.target.glob("epoch-*/*/output.json")}
    assert len(there) == rename - 1 and all(verify_folder(p) for p in there)
    again, talk = talk_to(helpers(folder))
    talk.rest()
    again.end()
    assert sorted(t["cell"] for t in again.told()) == [1, 2, 3, 4, 5, 6]
    assert sum(t["found"] for t in again.told()) == rename - 1
    usage = ProjectQuota(home.project)
    assert usage.usage()[1] == 18


# full targets


@pytest.mark.parametrize(
    ("score", "why"),
    [
        ("{", "score.json is not JSON"),
        ("[1]", "score.json is no JSON object"),
        ('{"score": NaN}', "no finite number"),
        ('{"other": 1}', "no finite number under 'score'"),
        (None, "score.json was not written"),
    ],
)
def test_a_missing_score_is_tried_again_and_then_told(home: Home, helpers: Start, score: str | None, why: str) -> None:
    helper, talk = talk_to(helpers(home.cells("1-1", 2)))
    order = []
    answer = talk.ask(op="next")
    while "cell" in answer:
        cell = talk.work(answer)
        order.append(cell)
        if cell == 1:
            path = Path(answer["cell"]["out"], "score.json")
            path.write_text(score) if score is not None else path.unlink()
        answer = talk.done(cell)
    assert sorted(order) == [1, 1, 2]
    helper.end()
    (told,) = helper.events("cell_invalid")
    assert (told["cell"], told["cause"], told["tries"]) == (1, "no_score", 2) and why in told["reason"]
    assert [e["cell"] for e in helper.told()] == [2]


def test_an_output_that_breaks_its_rule_is_invalid(home: Home, helpers: Start) -> None:
    rules = [{"name": "out.bin", "kind": "file", "min_bytes": 100}]
    helper, talk = talk_to(helpers(home.cells("1-1", 1, outputs=rules, tries=1)))
    talk.rest()
    helper.end()
    (told,) = helper.events("cell_invalid")
    assert told["cause"] == "invalid_output" and told["reason"].startswith("out.bin: ")
    assert not (home.target / "epoch-0/case-0").exists()


def test_a_checkpoint_that_was_changed_costs_its_cells_alone(home: Home, helpers: Start) -> None:
    folder = home.cells("1-1", 6)
    (home.path / "made/epoch-0.pt").write_bytes(b"somebody else's")
    helper, talk = talk_to(helpers(folder))
    talk.rest()
    helper.end()
    assert sorted(t["cell"] for t in helper.told()) == [4, 5, 6]
    lost = helper.events("cell_invalid")
    assert sorted(e["cell"] for e in lost) == [1, 2, 3] and {e["cause"] for e in lost} == {"load"}
    assert "Checkpoint epoch-0.pt is not what it was" in lost[0]["reason"]


def test_a_checkpoint_that_cannot_be_loaded_costs_its_cells_alone(home: Home, helpers: Start) -> None:
    helper, talk = talk_to(helpers(home.cells("1-1", 6)))
    answer = talk.ask(op="next")
    while "cell" in answer and answer["cell"]["checkpoint"] == 0:
        failed = {"cell": answer["cell"]["id"], "cause": "load", "reason": "it is torn"}
        answer = talk.ask(op="next", failed=failed)
    assert talk.rest(answer) == [4, 5, 6]
    helper.end()
    assert sorted(e["cell"] for e in helper.events("cell_invalid")) == [1, 2, 3]


def test_cells_that_fail_alike_end_the_worker(home: Home, helpers: Start) -> None:
    helper, talk = talk_to(helpers(home.cells("1-1", 30, same_failures=8)))
    answer = talk.ask(op="next")
    count = 0
    while "cell" in answer:
        count += 1
        cell = answer["cell"]["id"]
        failed = {"cell": cell, "cause": "exit", "reason": f"It returned 1: no module at 0x{cell}"}
        answer = talk.ask(op="next", failed=failed)
    assert answer["end"].startswith("8 cells in a row failed alike: It returned 1: ")
    helper.end()
    lost = helper.events("cell_invalid")
    assert len({e["cell"] for e in lost}) == len(lost) == 8
    assert answer["end"].endswith("; 22 were not tried.")


def test_a_valid_cell_between_them_is_another_row(home: Home, helpers: Start) -> None:
    helper, talk = talk_to(helpers(home.cells("1-1", 9, same_failures=3, tries=1)))
    answer = talk.ask(op="next")
    while "cell" in answer:
        cell = talk.work(answer)
        if cell % 3:
            answer = talk.ask(op="next", failed={"cell": cell, "cause": "exception", "reason": "odd"})
        else:
            talk.tell(op="next", done={"cell": cell, "seconds": 0})
            helper.event("cells")
            answer = talk.hear()
    assert answer.get("done") is True
    helper.end()
    assert len(helper.events("cell_invalid")) == 6


def test_a_cell_that_runs_long_is_told_as_running(home: Home, helpers: Start) -> None:
    helper, talk = talk_to(helpers(home.cells("1-1", 2)))
    answer = talk.ask(op="next")
    assert helper.event("cells_started")["cells"] == [1]
    talk.rest(answer)
    helper.end()
    assert [e["cells"] for e in helper.events("cells_started")] in ([], [[1]])


def test_a_worker_that_goes_leaves_its_cell_to_the_next(home: Home, helpers: Start) -> None:
    helper, address = helpers(home.cells("1-1", 2))
    helper.prepared()
    first = Talk(address)
    assert first.ask(op="next")["cell"]["id"] == 1
    first.close()
    assert sorted(Talk(address).rest()) == [1, 2]
    helper.end()


def test_the_manifest_tells_where_the_cell_came_from(home: Home, helpers: Start) -> None:
    helper, talk = talk_to(helpers(home.cells("1-1", 1)))
    talk.rest()
    helper.end()
    note = json.loads((home.target / "epoch-0/case-0/output.json").read_text())
    assert note["manifest"] == {
        "key": "key-0",
        "cell": 1,
        "checkpoint": "epoch-0.pt",
        "row": "epoch-0",
        "case": "case-0",
        "repeat": 0,
        "score": 0.5,
        "scores": {"score": 0.5, "n": 3},
        "seconds": 0.1,
    }


def test_a_deal_of_ten_thousand_begins_and_goes_on_at_once(home: Home, helpers: Start) -> None:
    few = [home.checkpoint(0)]
    deal = [[n + 1, 0, n % 3, f"epoch-0/case-{n}", f"key-{n}"] for n in range(10_000)]
    _, talk = talk_to(helpers(home.cells("1-1", 3, checkpoints=few, deal=deal)))
    began = time.monotonic()
    answer = talk.ask(op="next")
    for _ in range(100):
        answer = talk.done(talk.work(answer))
    assert "cell" in answer and time.monotonic() - began < 5
