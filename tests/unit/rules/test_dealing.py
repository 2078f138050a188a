from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.protocol.exits import Cause
from headway.rules import dealing
from headway.rules.states import CellState, EvaluationState, RunState

from .conftest import cell, run

CELLS = st.lists(st.integers(1, 6), max_size=40).map(lambda owners: [cell(i, c) for i, c in enumerate(owners, 1)])


@given(CELLS, st.integers(1, 8))
def test_every_cell_is_dealt_once_and_a_checkpoint_to_one_worker(cells: list, workers: int) -> None:
    parts = dealing.deal(cells, workers)
    assert sorted(c.id for part in parts for c in part) == [c.id for c in cells]
    assert len(parts) <= workers
    assert all(parts)
    owners = [{c.checkpoint_id for c in part} for part in parts]
    assert sum(len(o) for o in owners) == len({c.checkpoint_id for c in cells})


V, W, R, I = CellState.VALID, CellState.WAITING, CellState.RUNNING, CellState.INVALID  # noqa: E741


@pytest.mark.parametrize(
    ("states", "worker", "dealt", "end"),
    [
        pytest.param([V, V], None, 0, EvaluationState.SUCCEEDED, id="all valid"),
        pytest.param([W, W], None, 2, None, id="nothing dealt yet"),
        pytest.param([V, W], {"state": RunState.RUNNING}, 0, None, id="a worker lives"),
        pytest.param([V, R], {"state": RunState.QUEUED}, 0, None, id="a worker waits"),
        pytest.param([V, W], {"state": RunState.SUCCEEDED}, 1, None, id="a worker left one behind"),
        pytest.param([V, I], {"state": RunState.SUCCEEDED}, 0, EvaluationState.FAILED, id="one is not valid"),
        pytest.param(
            [V, W], {"state": RunState.FAILED, "cause": Cause.EXIT}, 0, EvaluationState.FAILED, id="worker failed"
        ),
        pytest.param([V, W], {"state": RunState.FAILED, "cause": Cause.KILLED}, 1, None, id="worker lost too often"),
        pytest.param([V, R], {"state": RunState.FAILED, "cause": Cause.NODE_LOST}, 1, None, id="its node was lost"),
        pytest.param(
            [V, W], {"state": RunState.STOPPED, "cause": Cause.STOPPED}, 0, EvaluationState.FAILED, id="stopped by hand"
        ),
    ],
)
def test_what_an_evaluation_needs(states: list, worker: Any, dealt: int, end: Any) -> None:
    cells = [cell(i, i, state, 7 if worker else None) for i, state in enumerate(states, 1)]
    runs = {7: run(7, **worker)} if worker else {}
    counts = {s: states.count(s) for s in set(states)}
    open_cells = [c for c in cells if c.state in dealing.OPEN_CELLS]
    step = dealing.decide(counts, open_cells, runs, rounds=1)
    assert (len(step.deal), step.state) == (dealt, end)


@pytest.mark.parametrize("worker", [{"state": RunState.SUCCEEDED}, {"state": RunState.FAILED, "cause": Cause.KILLED}])
def test_rounds_come_to_an_end(worker: Any) -> None:
    step = dealing.decide({W: 1}, [cell(1, 1, W, 7)], {7: run(7, **worker)}, rounds=dealing.ROUNDS_LIMIT)
    assert (step.deal, step.state) == ([], EvaluationState.FAILED)
    assert str(dealing.ROUNDS_LIMIT) in step.reason
