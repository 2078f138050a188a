"""Targets that others have, too, or that go away; and cells that want more memory than there is."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.client import Client
from headway.testing.disks import kept_disk, mount, unmount
from headway.wire.evaluations import EvaluationView

from .conftest import Server, eventually, start, stop
from .test_evaluations import TRAIN

ROWS = 3
#: leaves a line for each time that it is run, where no target is
WORKER = """
import json, os, time
from pathlib import Path
class W:
    def load(self, checkpoint): self.row = Path(checkpoint).stem
    def run(self, case, out):
        asked = case["parameters"]
        with open(asked["log"], "a") as log: log.write(f"{self.row}/{case['id']}\\n")
        time.sleep(asked["seconds"])
        if case["id"] == asked.get("bomb"): bytearray(b"x") * asked["bytes"]
        Path(out, "out.txt").write_text(f"{asked['by']} {self.row} {case['id']}")
        Path(out, "score.json").write_text(json.dumps({"score": 1.0}))
"""


class Team:
    """One installation with a job that has made checkpoints."""

    def __init__(self, server: Server, folder: Path, rows: int = ROWS) -> None:
        self.client: Client = server.client()
        code = folder / f"code-{server.home.name}"
        code.mkdir()
        (code / "train.py").write_text(TRAIN)
        (code / "worker.py").write_text(WORKER)
        self.log = code / "log"
        self.snapshot = self.client.snapshots.push(code).digest
        run = self.client.jobs.submit(
            ["python", "train.py", str(rows)], snapshot=self.snapshot, checkpoints=["*.safetensors"]
        )
        ended = self.client.runs.wait(run.id, timeout=120)
        assert ended.state == "succeeded", ended.reason
        self.job, self.name = run.id, server.home.name

    def evaluate(self, cases: int, target: Path | None = None, seconds: float = 0.0, **given: Any) -> EvaluationView:
        return self.client.evaluations.create(
            name="shared",
            jobs=[self.job],
            cases=[{"id": f"case-{n}"} for n in range(cases)],
            parameters={"log": str(self.log), "by": self.name, "seconds": seconds, **given},
            worker="worker.py:W",
            outputs=[{"name": "out.txt"}, {"name": "score.json", "kind": "json"}],
            snapshot=self.snapshot,
            workers=2,
            target=str(target) if target else None,
        )

    def ran(self) -> Counter[str]:
        return Counter(self.log.read_text().split())


def test_two_installations_with_one_target_replace_nothing_of_each_other(fresh: Server, tmp_path: Path) -> None:
    other = start(tmp_path / "other")
    try:
        disk = tmp_path / "disk"
        disk.mkdir()
        teams = [Team(fresh, tmp_path), Team(other, tmp_path)]
        made = [team.evaluate(4, disk).id for team in teams]
        assert made == [1, 1]

        def settled() -> list[EvaluationView] | None:
            views = [team.client.evaluations.get(1) for team in teams]
            return views if sorted(view.state for view in views) == ["paused", "succeeded"] else None

        views = eventually(settled, seconds=90, what="one to end and one to pause")
        assert views
        second = next(i for i, view in enumerate(views) if view.state == "paused")
        first, late = teams[1 - second], teams[second]
        assert views[second].cause == "taken" and views[second].valid == 0
        assert str((fresh, other)[1 - second].home) in views[second].reason and "eval target" in views[second].remedy
        assert not late.log.exists()
        before = contents(disk)
        assert late.client.evaluations.target(1, str(tmp_path / "elsewhere")).state == "running"
        ended = late.client.evaluations.wait(1, timeout=90)
        assert (ended.state, ended.valid, ended.ran) == ("succeeded", ROWS * 4, ROWS * 4)
        assert contents(disk) == before
        for team in teams:
            assert team.client.evaluations.verify(1).faults == []
        said = {path.read_text().split()[0] for path in disk.rglob("out.txt")}
        assert said == {first.name}
        # its own folder is its own for ever
        again = first.evaluate(5, disk)
        assert first.client.evaluations.wait(again.id, timeout=90).state == "succeeded"
    finally:
        stop(other)


def contents(folder: Path) -> dict[str, str]:
    """Of all files but the index, which its own controller makes in its own time."""
    files = [p for p in folder.rglob("*") if p.is_file() and not p.name.startswith((".index", "index."))]
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with kept_disk(tmp_path) as place:
        yield place


def test_a_target_that_is_unmounted_in_the_middle_pauses_and_goes_on(fresh: Server, disk: Path, tmp_path: Path) -> None:
    team = Team(fresh, tmp_path)
    evaluations, total = team.client.evaluations, ROWS * 12
    made = team.evaluate(12, disk, seconds=0.2)
    eventually(lambda: evaluations.get(made.id).valid >= 4, what="some cells")
    under_way = 2
    unmount(disk)

    def paused() -> EvaluationView | None:
        view = evaluations.get(made.id)
        assert view.state in ("running", "paused"), view.reason
        return view if view.state == "paused" else None

    view = eventually(paused, seconds=30, what="the pause")
    assert view is not None and view.cause == "unmounted" and str(disk) in view.reason and view.remedy
    assert view.valid < total and list(disk.iterdir()) == []
    ran = team.ran()
    # it stays so: nothing is run, and nothing is written into what is below
    looks = [evaluations.get(made.id) for _ in range(20)]
    assert {look.state for look in looks} == {"paused"} and list(disk.iterdir()) == []
    assert team.ran() == ran
    mount(disk)
    eventually(lambda: evaluations.get(made.id).state == "running", seconds=15, what="the rest")
    ended = evaluations.wait(made.id, timeout=120)
    assert (ended.state, ended.valid, ended.ran, ended.pauses) == ("succeeded", total, total, 1)
    assert evaluations.verify(made.id).faults == []
    # what a worker was at when its folder went away is run again; nothing else is
    again = {name: count for name, count in team.ran().items() if count > 1}
    assert len(team.ran()) == total and len(again) <= under_way and all(count == 2 for count in again.values())


def test_a_cell_that_wants_too_much_memory_fails_alone(fresh: Server, tmp_path: Path) -> None:
    """The spec `small` has 2 GiB. Its worker goes on with the others, and the run is the first attempt still."""
    team = Team(fresh, tmp_path, rows=2)
    made = team.evaluate(4, bomb="case-1", bytes=2600 << 20)
    ended = team.client.evaluations.wait(made.id, timeout=180)
    assert (ended.state, ended.valid) == ("failed", 6), ended.reason
    failed = team.client.evaluations.cells(made.id, states=["invalid"])
    assert [(cell.case, cell.cause, cell.tries) for cell in failed] == [("case-1", "oom_kill", 2)] * 2
    assert all("2048 MiB" in cell.reason for cell in failed)
    workers = [run for run in team.client.runs.ls() if run.owner == "evaluation"]
    assert [(run.state, run.attempts) for run in workers] == [("succeeded", 1)] * len(workers) and len(workers) == 2
    assert {name: count for name, count in team.ran().items() if count > 1} == {
        f"epoch-{row}/case-1": 2 for row in (1, 2)
    }
