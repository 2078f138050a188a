"""An evaluation whose target is unmounted: a pause that the controller sees through, and nothing written below."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.controller import evaluate
from headway.controller.evaluate import Evaluate
from headway.rules.records import Evaluation
from headway.rules.states import CellState, EvaluationState, RunState
from headway.storage.mounts import mount_of
from headway.testing.disks import kept_disk, mount, unmount

from .conftest import DONE, House


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with kept_disk(tmp_path) as place:
        yield place


def begin(house: House, disk: Path) -> tuple[Evaluate, Evaluation]:
    evaluation = house.add_evaluation(1, CellState.WAITING, target=str(disk))
    loop = Evaluate(house.desk)
    loop.step()
    return loop, house.evaluation(evaluation.id)


def test_what_the_target_is_on_is_known_from_the_first_deal_on(house: House, disk: Path) -> None:
    _, evaluation = begin(house, disk)
    assert evaluation.plan["mount"] == mount_of(disk).to_json()
    assert [p.name for p in disk.iterdir()] == [f"evaluation-{evaluation.id}"]


def test_a_pause_ends_with_the_disks_return_and_not_before(house: House, disk: Path) -> None:
    loop, evaluation = begin(house, disk)
    for worker in house.workers(evaluation.id):
        ended = {"state": RunState.SUCCEEDED, "ended_at": 1.0}
        house.change_run(worker.id, **ended, work={**worker.work, "excused": True})
    unmount(disk)
    pause(house, evaluation)
    for _ in range(2):
        loop.step()
    found = house.evaluation(evaluation.id)
    assert (found.state, found.cause) == (EvaluationState.PAUSED, "unmounted")
    assert str(disk) in found.reason and list(disk.iterdir()) == []
    mount(disk)
    loop.step()
    assert house.evaluation(evaluation.id).state is EvaluationState.RUNNING


def test_no_index_is_written_to_the_disk_below(house: House, disk: Path) -> None:
    loop, evaluation = begin(house, disk)
    unmount(disk)
    with house.ctx.store.begin() as tx:
        cells = tx.evaluations.cells(evaluation.id)
        tx.evaluations.publish([{"cell": c.id, "publication": f"p-{c.id}", "score": 0.5} | DONE for c in cells])
    loop.step()
    found = house.evaluation(evaluation.id)
    assert (found.state, found.cause) == (EvaluationState.PAUSED, "unmounted") and list(disk.iterdir()) == []
    mount(disk)
    loop.step()
    assert house.evaluation(evaluation.id).state is EvaluationState.SUCCEEDED


def pause(house: House, evaluation: Evaluation) -> None:
    with house.ctx.store.begin() as tx:
        full = {"cause": "io_error", "message": "It does not answer.", "remedy": "Look."}
        evaluate.stop_for(tx, evaluation, full)
