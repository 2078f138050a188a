"""What workers tell of their cells: in groups, twice, out of order, and from workers whose cells are others' by now."""

from __future__ import annotations

import random
from typing import Any

import pytest
import sqlalchemy as sa

from headway.controller import deals
from headway.controller.cell_events import merged, take_in
from headway.controller.evaluate import Evaluate
from headway.controller.reap import Reap
from headway.controller.schedule import Schedule
from headway.protocol.files import AttemptFolder
from headway.rules.records import Evaluation, Run
from headway.rules.states import CellState, EvaluationState, RunState
from headway.testing.services import add_checkpoint

from .conftest import House

WAITING, RUNNING, VALID, INVALID = CellState.WAITING, CellState.RUNNING, CellState.VALID, CellState.INVALID


def paused(at: float, cause: str = "over_quota", **more: Any) -> dict[str, Any]:
    return {"event": "paused", "at": at, "cause": cause, "message": "Full.", "remedy": "Raise it.", **more}


def resumed(at: float) -> dict[str, Any]:
    return {"event": "resumed", "at": at}


def one(cell: int, publication: str | None = None, **more: Any) -> dict[str, Any]:
    outputs = [{"name": "out.txt", "bytes": 7, "sha256": "x", "kind": "file"}]
    return {
        "cell": cell, "publication": publication or f"p{cell}", "score": 1.0, "scores": {"score": 1.0},
        "outputs": outputs, "path": f"place/{cell}", "seconds": 0.5, "bytes": 9, "files": 2, "found": False, **more,
    }  # fmt: skip


def cells(at: float, *told: dict[str, Any]) -> dict[str, Any]:
    return {"event": "cells", "at": at, "cells": list(told)}


def tell(house: House, run: Run, *events: dict[str, Any]) -> None:
    for event in events:
        with house.ctx.store.begin() as tx:
            found = tx.runs.get(run.id)
            assert found is not None
            take_in(tx, found, event)


@pytest.fixture
def workers(house: House) -> tuple[Evaluation, list[Run]]:
    """An evaluation of two cells with two workers that live."""
    evaluation = house.add_evaluation(2, WAITING)
    Evaluate(house.desk).step()
    Schedule(house.desk).step()
    return evaluation, house.workers(evaluation.id)


A, B = 0, 1
STORIES = [
    ([(A, paused(10)), (A, resumed(20)), (B, paused(11)), (B, resumed(21))], EvaluationState.RUNNING, 1),
    ([(A, paused(10)), (B, paused(11)), (B, resumed(20)), (A, resumed(21))], EvaluationState.RUNNING, 1),
    ([(A, paused(10)), (A, resumed(20)), (B, paused(19))], EvaluationState.RUNNING, 1),
    ([(A, paused(10)), (B, cells(11, one(2, found=True)))], EvaluationState.PAUSED, 1),
    ([(A, paused(10)), (B, cells(9, one(2)))], EvaluationState.PAUSED, 1),
    ([(A, paused(10)), (B, resumed(9))], EvaluationState.PAUSED, 1),
    # what was under way when the target filled tells nothing, whoever publishes it
    ([(A, paused(10)), (A, cells(10.1, one(1))), (B, cells(11.9, one(2)))], EvaluationState.PAUSED, 1),
    ([(A, paused(10)), (B, cells(12, one(2), one(1, found=True)))], EvaluationState.RUNNING, 1),
    ([(A, paused(10)), (A, resumed(20)), (B, paused(30))], EvaluationState.PAUSED, 2),
    # what one waits for changes while it waits; what the other waits for meanwhile is no pause of its own
    ([(A, paused(10, "no_space")), (A, paused(12))], EvaluationState.PAUSED, 2),
    ([(A, paused(10)), (B, paused(12, "no_space"))], EvaluationState.PAUSED, 1),
    ([(A, paused(10)), (A, paused(10))], EvaluationState.PAUSED, 1),
    ([(A, paused(10)), (A, paused(130, held=True))], EvaluationState.PAUSED, 1),
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


def test_a_worker_that_gives_its_place_back_is_excused(house: House, workers: tuple[Evaluation, list[Run]]) -> None:
    evaluation, (run, _) = workers
    figures = {"needed_bytes": 5, "needed_files": 2}
    tell(house, run, paused(10, path="/disk", figures=figures), paused(130, held=True))
    assert house.run(run.id).work["excused"] is True
    assert house.run(run.id).work["lacks"] == ["/disk", 5, 2]
    assert house.evaluation(evaluation.id).state is EvaluationState.PAUSED


def test_a_group_is_taken_in_with_few_statements(house: House) -> None:
    evaluation = house.add_evaluation(200, WAITING, workers=1)
    Evaluate(house.desk).step()
    (run,) = house.workers(evaluation.id)
    statements: list[str] = []
    with house.ctx.store.begin() as tx:
        sa.event.listen(tx.connection, "before_cursor_execute", lambda *given: statements.append(given[2]))
        take_in(tx, run, {"event": "cells_started", "at": 9.0, "cells": list(range(1, 17))})
        take_in(tx, run, cells(10.0, *(one(i) for i in range(1, 201))))
    assert len(statements) <= 6
    found = house.cells(evaluation.id)
    assert {c.state for c in found} == {VALID} and {c.ran for c in found} == {1}
    assert (found[0].bytes, found[0].files, found[0].seconds, found[0].ended_at) == (9, 2, 0.5, 10.0)
    assert (found[0].tries, found[199].tries) == (1, 0)


def test_groups_one_after_the_other_are_taken_in_as_one_and_no_others(house: House) -> None:
    started = {"event": "cells_started", "at": 2.0, "cells": [1]}
    odd = {"event": "cells", "at": 3.0}
    story = [cells(1, one(1)), cells(2, one(2)), paused(3), cells(4, one(3)), started, odd, cells(5, one(4), "odd")]
    found = merged(story)
    kinds = [(e["event"], len(e.get("cells", []))) for e in found]
    assert kinds == [("cells", 2), ("paused", 0), ("cells", 1), ("cells_started", 1), ("cells", 0), ("cells", 1)]
    assert (found[0]["at"], [c["at"] for c in found[0]["cells"]]) == (2, [1, 2])
    assert len(merged([cells(i, *(one(c) for c in range(100))) for i in range(20)])) == 4


def test_through_the_files_each_publication_counts(house: House, workers: tuple[Evaluation, list[Run]]) -> None:
    evaluation, runs = workers
    events = [cells(10, one(1)), cells(11, one(1, "again"), {"cell": "odd"}), cells(12, one(1, "again"))]
    house.report(f"{runs[0].id}-1", *events, {"event": "cells", "at": 13.0})
    Reap(house.desk).step()
    first = house.cells(evaluation.id)[0]
    assert (first.state, first.ran, first.publication, first.ended_at) == (VALID, 2, "again", 11.0)


def test_what_is_told_twice_counts_once(house: House, workers: tuple[Evaluation, list[Run]]) -> None:
    evaluation, (run, other) = workers
    tell(house, run, cells(10, one(1), one(1)), cells(11, one(1, found=True)))
    tell(house, other, cells(12, one(1)))
    first = house.cells(evaluation.id)[0]
    assert (first.state, first.ran, first.ended_at) == (VALID, 1, 10.0)
    tell(house, run, cells(13, one(1, "again")))
    assert house.cells(evaluation.id)[0].ran == 2


def test_an_old_worker_that_publishes_late_is_believed_and_takes_nothing_back(
    house: House, workers: tuple[Evaluation, list[Run]]
) -> None:
    evaluation, (old, new) = workers
    with house.ctx.store.begin() as tx:
        tx.evaluations.deal([1, 2], new.id)
    tell(
        house,
        old,
        {"event": "cells_started", "at": 1.0, "cells": [1, 2]},
        {"event": "cell_invalid", "at": 2.0, "cell": 1, "reason": "no", "cause": "exit"},
    )
    assert [c.state for c in house.cells(evaluation.id)] == [WAITING, WAITING]
    # it is there, verified, wherever that is: nobody has to run it again
    tell(house, old, cells(3, one(1, path="/old/target/a")))
    assert (house.cells(evaluation.id)[0].state, house.cells(evaluation.id)[0].path) == (VALID, "/old/target/a")
    # and what came second, somewhere else, is not what counts
    tell(house, new, cells(4, one(1, "second", path="/new/target/a")))
    tell(house, new, {"event": "cell_invalid", "at": 5.0, "cell": 1, "reason": "no", "cause": "exit"})
    first = house.cells(evaluation.id)[0]
    assert (first.state, first.path, first.ran) == (VALID, "/old/target/a", 1)


def test_a_cell_of_another_evaluation_cannot_be_told_of(house: House, workers: tuple[Evaluation, list[Run]]) -> None:
    _, (run, _) = workers
    other = house.add_evaluation(1, WAITING)
    (cell,) = house.cells(other.id)
    tell(house, run, cells(10, one(cell.id), one(999)), {"event": "cells_started", "at": 1.0, "cells": [cell.id]})
    assert house.cells(other.id) == [cell]


def test_a_failure_has_its_cause(house: House, workers: tuple[Evaluation, list[Run]]) -> None:
    evaluation, (run, _) = workers
    tell(house, run, {"event": "cell_invalid", "at": 2.0, "cell": 1, "reason": "It returned 3.", "cause": "exit"})
    first = house.cells(evaluation.id)[0]
    assert (first.state, first.cause, first.reason, first.tries) == (INVALID, "exit", "It returned 3.", 1)
    tell(house, run, cells(3, one(1)))
    first = house.cells(evaluation.id)[0]
    assert (first.state, first.cause, first.reason) == (VALID, None, "")


@pytest.mark.parametrize("seed", range(20))
def test_whatever_order_and_however_often(house: House, seed: int) -> None:
    """Two workers of which one has lost its cells to the other, in any order with repeats: valid stays valid."""
    chance = random.Random(seed)
    evaluation = house.add_evaluation(3, WAITING, workers=1)
    Evaluate(house.desk).step()
    (run,) = house.workers(evaluation.id)
    old = house.add_run(owner="evaluation", owner_id=evaluation.id)
    story: list[tuple[Run, dict[str, Any]]] = []
    for at in range(30):
        cell, who = chance.randint(1, 3), chance.choice([run, old])
        story.append((who, chance.choice([
            cells(at, one(cell, f"p{cell}-{who.id}")),
            {"event": "cells_started", "at": at, "cells": [1, 2, 3]},
            {"event": "cell_invalid", "at": at, "cell": cell, "reason": "no", "cause": "exit"},
            paused(at),
            resumed(at),
        ])))  # fmt: skip
    chance.shuffle(story)
    seen: dict[int, set[str]] = {1: set(), 2: set(), 3: set()}
    for who, event in story:
        tell(house, who, event)
        for told in event.get("cells", []) if event["event"] == "cells" else []:
            seen[told["cell"]].add(told["publication"])
        for found in house.cells(evaluation.id):
            assert (found.state is VALID) == bool(seen[found.id])
            assert found.ran >= len(seen[found.id])


def test_events_of_a_helper_from_before_an_upgrade_are_understood(
    house: House, workers: tuple[Evaluation, list[Run]]
) -> None:
    evaluation, (run, _) = workers
    tell(house, run, {"event": "cell_started", "at": 1.0, "cell": 1})
    assert house.cells(evaluation.id)[0].state is RUNNING
    told = one(1)
    del told["bytes"], told["files"]
    tell(house, run, {"event": "cell", "at": 2.0, **told})
    first = house.cells(evaluation.id)[0]
    assert (first.state, first.bytes, first.files) == (VALID, 7, 1)


# what a worker is told


def plan(house: House, run: Run) -> dict[str, Any]:
    with house.ctx.store.read() as tx:
        return deals.plan(house.desk, tx, run, AttemptFolder.of(house.ctx.root, f"{run.id}-1"))


def test_the_plan_of_a_worker(house: House) -> None:
    evaluation = house.add_evaluation(
        2, WAITING, rows=2, workers=1, repeats=2, seed=5, parameters={"steps": 3}, cell_timeout=9.0, tries=4
    )
    Evaluate(house.desk).step()
    (run,) = house.workers(evaluation.id)
    found = plan(house, run)
    assert found == plan(house, run)
    assert found["target"] == f"{house.ctx.root}/projects/default/evaluations/{evaluation.id}/outputs"
    assert [c["row"] for c in found["checkpoints"]] == ["a", "b"]
    assert found["checkpoints"][0]["path"].startswith(str(house.ctx.root))
    assert [(c["id"], c["repeat"], c["seed"], c["parameters"]) for c in found["cases"]] == [
        (f"case-{i}", r, 5 + r, {"steps": 3}) for i in (0, 1) for r in (0, 1)
    ]
    keys = [c.key for c in house.cells(evaluation.id)]
    assert found["deal"][0] == [1, 0, 0, "a/case-0@0", keys[0]]
    assert found["deal"][7] == [8, 1, 3, "b/case-1@1", keys[7]]
    assert (found["tries"], found["timeout"], found["same_failures"]) == (4, 9.0, 8)
    with house.ctx.store.read() as tx:
        cells = tx.evaluations.cells(evaluation.id)
    assert {f"{found['target']}/{entry[3]}" for entry in found["deal"]} == {str(house.ctx.root / c.path) for c in cells}


def test_a_later_attempt_gets_what_is_left(house: House, workers: tuple[Evaluation, list[Run]]) -> None:
    evaluation, (run, _) = workers
    with house.ctx.store.begin() as tx:
        tx.evaluations.deal([1, 2], run.id)
    tell(house, run, cells(1, one(1)))
    assert [entry[0] for entry in plan(house, run)["deal"]] == [2]
    tell(house, run, {"event": "cell_invalid", "at": 2.0, "cell": 2, "reason": "no", "cause": "exit"})
    # its tries are used up
    assert plan(house, run)["deal"] == [] == plan(house, run)["cases"]
    with house.ctx.store.begin() as tx:
        tx.evaluations.reset_cells(evaluation.id)
        tx.evaluations.deal([2], run.id)
        tx.evaluations.change(evaluation.id, state=EvaluationState.STOPPED)
    assert plan(house, run)["deal"] == []


def test_a_checkpoint_that_changed_after_the_deal_is_left_to_the_next(house: House) -> None:
    evaluation = house.add_evaluation(1, WAITING, rows=2, workers=1)
    loop = Evaluate(house.desk)
    loop.step()
    (run,) = house.workers(evaluation.id)
    add_checkpoint(house.ctx, evaluation.jobs[0], "a.pt", sha256="e" * 64)
    # nothing of it may be published under the key of what it was
    assert [entry[0] for entry in plan(house, run)["deal"]] == [2]
    tell(house, run, cells(1, one(2)))
    house.change_run(run.id, state=RunState.SUCCEEDED)
    loop.step()
    assert [entry[0] for entry in plan(house, house.workers(evaluation.id)[1])["deal"]] == [1]
