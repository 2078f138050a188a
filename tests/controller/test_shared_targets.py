"""Two installations with the same target: the second pauses, and goes on elsewhere."""

from __future__ import annotations

from pathlib import Path

from headway.controller.evaluate import Evaluate
from headway.rules.states import CellState, EvaluationState
from headway.storage.claims import MARK, claim

from .conftest import House


def test_a_folder_of_another_installation_is_a_pause_and_nobody_is_started(house: House, tmp_path: Path) -> None:
    evaluation = house.add_evaluation(1, CellState.WAITING, target=str(tmp_path / "disk"))
    other, folder = tmp_path / "other", tmp_path / f"disk/evaluation-{evaluation.id}"
    other.mkdir()
    claim(folder, other)
    loop = Evaluate(house.desk)
    for _ in range(2):
        loop.step()
    found = house.evaluation(evaluation.id)
    assert (found.state, found.cause, found.pauses) == (EvaluationState.PAUSED, "taken", 1)
    assert str(other) in found.reason and "eval target" in found.remedy
    assert house.workers(evaluation.id) == [] and [p.name for p in folder.iterdir()] == [MARK]
    (folder / MARK).unlink()
    loop.step()
    assert house.evaluation(evaluation.id).state is EvaluationState.RUNNING
    assert house.workers(evaluation.id)


def test_outputs_of_an_earlier_headway_are_not_replaced_by_a_new_evaluation(house: House, tmp_path: Path) -> None:
    evaluation = house.add_evaluation(1, CellState.WAITING, target=str(tmp_path))
    (tmp_path / f"evaluation-{evaluation.id}/epoch-1").mkdir(parents=True)
    Evaluate(house.desk).step()
    assert house.evaluation(evaluation.id).cause == "taken"


def test_one_that_was_there_before_there_were_marks_goes_on(house: House, tmp_path: Path) -> None:
    evaluation = house.add_evaluation(1, CellState.WAITING, target=str(tmp_path), rounds=1)
    folder = tmp_path / f"evaluation-{evaluation.id}"
    (folder / "epoch-1").mkdir(parents=True)
    Evaluate(house.desk).step()
    assert house.evaluation(evaluation.id).state is EvaluationState.RUNNING and (folder / MARK).exists()


def test_no_index_is_written_into_the_folder_of_another(house: House, tmp_path: Path) -> None:
    evaluation = house.add_evaluation(1, target=str(tmp_path))
    folder = tmp_path / f"evaluation-{evaluation.id}"
    claim(folder, tmp_path)
    Evaluate(house.desk).step()
    assert house.evaluation(evaluation.id).cause == "taken" and [p.name for p in folder.iterdir()] == [MARK]
