"""Evaluations: pauses are counted once whatever order workers speak in, and the index is there before the end is."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from headway.controller import evaluate
from headway.controller.evaluate import Evaluate
from headway.controller.reap import Reap
from headway.controller.schedule import Schedule
from headway.rules.records import Evaluation, Run
from headway.rules.states import CellState, EvaluationState, RunState
from headway.storage.full import TargetFullError

from .conftest import House


def _paused(at: float) -> dict[str, Any]:
    return {"event": "paused", "at": at, "cause": "over_quota", "message": "Full.", "remedy": "Raise it."}


def _resumed(at: float) -> dict[str, Any]:
    return {"event": "resumed", "at": at}


def _cell(cell: int, at: float, **more: Any) -> dict[str, Any]:
    return {"event": "cell", "at": at, "cell": cell, "publication": f"p{cell}", "score": 1.0, **more}


@pytest.fixture
def workers(house: House, monkeypatch: pytest.MonkeyPatch) -> tuple[Evaluation, list[Run]]:
    """An evaluation of two cells with two workers that live."""
    evaluation = house.add_evaluation(2, CellState.WAITING)
    runs = [house.add_run(owner="evaluation", owner_id=evaluation.id) for _ in range(2)]
    monkeypatch.setattr(evaluate.Evaluate, "step", lambda self: set())
    with house.ctx.store.begin() as tx:
        cells = tx.evaluations.cells(evaluation.id)
        for cell, run in zip(cells, runs, strict=True):
            tx.evaluations.deal([cell.id], run.id)
    monkeypatch.setattr("headway.controller.launches._cells", lambda *_: {})
    Schedule(house.desk).step()
    return evaluation, runs


A, B = 0, 1
STORIES = [
    ([(A, _paused(10)), (A, _resumed(20)), (B, _paused(11)), (B, _resumed(21))], EvaluationState.RUNNING, 1),
    ([(A, _paused(10)), (B, _paused(11)), (B, _resumed(20)), (A, _resumed(21))], EvaluationState.RUNNING, 1),
    ([(A, _paused(10)), (A, _resumed(20)), (B, _paused(19))], EvaluationState.RUNNING, 1),
    ([(A, _paused(10)), (B, _cell(2, 11, found=True))], EvaluationState.PAUSED, 1),
    ([(A, _paused(10)), (B, _cell(2, 9))], EvaluationState.PAUSED, 1),
    ([(A, _paused(10)), (B, _resumed(9))], EvaluationState.PAUSED, 1),
    ([(A, _paused(10)), (B, _cell(2, 11))], EvaluationState.RUNNING, 1),
    ([(A, _paused(10)), (A, _resumed(20)), (B, _paused(30))], EvaluationState.PAUSED, 2),
]


@pytest.mark.parametrize(("story", "state", "pauses"), STORIES)
@pytest.mark.parametrize("at_once", [True, False])
def test_pauses_are_counted_by_the_times_of_events(
    house: House,
    workers: tuple[Evaluation, list[Run]],
    story: list[tuple[int, dict[str, Any]]],
    state: EvaluationState,
    pauses: int,
    at_once: bool,
) -> None:
    evaluation, runs = workers
    for worker, event in story:
        house.report(f"{runs[worker].id}-1", event)
        if not at_once:
            Reap(house.desk).step()
    Reap(house.desk).step()
    found = house.evaluation(evaluation.id)
    assert (found.state, found.pauses) == (state, pauses)
    assert (found.cause == "over_quota") == (state is EvaluationState.PAUSED)


class Killed(BaseException):
    pass


def test_a_controller_that_dies_at_the_index_leaves_the_end_to_the_next(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluation = house.add_evaluation()

    def die(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(evaluate, "publish_index", die)
        Evaluate(house.desk).step()
    assert house.evaluation(evaluation.id).state == EvaluationState.RUNNING
    Evaluate(house.new_desk("second")).step()
    assert house.evaluation(evaluation.id).state == EvaluationState.SUCCEEDED
    lines = (house.ctx.root / evaluation.path / "index.jsonl").read_text().splitlines()
    assert len(lines) == 1


def test_an_index_that_finds_the_disk_full_is_a_pause(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluation = house.add_evaluation()

    def full(*_: Any) -> None:
        raise TargetFullError("no_space", "/disk", "It is full.")

    loop = Evaluate(house.desk)
    with monkeypatch.context() as patch:
        patch.setattr(evaluate, "publish_index", full)
        for _ in range(2):
            loop.step()
    found = house.evaluation(evaluation.id)
    assert (found.state, found.cause, found.pauses) == (EvaluationState.PAUSED, "no_space", 1)
    loop.step()
    found = house.evaluation(evaluation.id)
    assert (found.state, found.cause) == (EvaluationState.SUCCEEDED, None)


def test_one_evaluation_whose_index_cannot_be_written_holds_up_no_other(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = house.add_evaluation(), house.add_evaluation()
    publish = evaluate.publish_index
    calls: list[int] = []

    def sometimes(*given: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise OSError(errno.ENOTDIR, "Not a directory")
        publish(*given)

    monkeypatch.setattr(evaluate, "publish_index", sometimes)
    Evaluate(house.desk).step()
    states = [house.evaluation(e.id).state for e in (bad, good)]
    assert states == [EvaluationState.RUNNING, EvaluationState.SUCCEEDED]


def test_a_worker_that_was_lost_too_often_is_followed_by_another_round(house: House) -> None:
    evaluation = house.add_evaluation(1, CellState.WAITING)
    with house.ctx.store.begin() as tx:
        tx.evaluations.change(
            evaluation.id, plan={"spec": "small", "workers": 1, "worker": "e.py:E", "snapshot_id": None}
        )
    loop = Evaluate(house.desk)
    loop.step()
    with house.ctx.store.begin() as tx:
        (run,) = tx.runs.listing(owner="evaluation")
        tx.runs.change(run.id, state=RunState.FAILED, cause="killed", reason="Killed.", ended_at=1.0)
    loop.step()
    with house.ctx.store.read() as tx:
        runs = tx.runs.listing(owner="evaluation")
        (cell,) = tx.evaluations.cells(evaluation.id)
    assert [r.state for r in runs] == [RunState.QUEUED, RunState.FAILED]
    assert cell.run_id == runs[0].id
    assert house.evaluation(evaluation.id).rounds == 2
