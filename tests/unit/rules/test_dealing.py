from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.protocol.exits import Cause
from headway.rules import dealing
from headway.rules.dealing import Look, Step
from headway.rules.records import Spec
from headway.rules.states import ENDED_RUNS, LIVE_RUNS, CellState, EvaluationState, RunState

from .conftest import cell, node, run

CELLS = st.lists(st.integers(1, 6), max_size=40).map(lambda owners: [cell(i, c) for i, c in enumerate(owners, 1)])


def loads_of(parts: list) -> int:
    return sum(len({c.checkpoint_id for c in part}) for part in parts)


@given(CELLS, st.integers(1, 8))
def test_every_cell_is_dealt_once_and_few_checkpoints_are_loaded_twice(cells: list, workers: int) -> None:
    parts = dealing.deal(cells, workers)
    assert sorted(c.id for part in parts for c in part) == [c.id for c in cells]
    assert len(parts) <= workers and all(parts)
    rows = len({c.checkpoint_id for c in cells})
    assert loads_of(parts) <= rows + max(0, len(parts) - 1)
    for part in parts:
        met = [c.checkpoint_id for c in part]
        assert all(met[i] not in met[:i] for i in range(1, len(met)) if met[i] != met[i - 1])


@given(CELLS, st.integers(1, 8), st.lists(st.floats(0.01, 100), min_size=40, max_size=40))
def test_workers_end_together(cells: list, workers: int, took: list[float]) -> None:
    seconds = {c.case_id: took[i] for i, c in enumerate(cells)}
    parts = dealing.deal(cells, workers, seconds=seconds)
    if parts:
        each = [sum(seconds[c.case_id] for c in part) for part in parts]
        longest = max(seconds[c.case_id] for c in cells)
        ideal = sum(each) / workers
        assert max(each) <= (ideal * (1 + 2 * dealing.SLACK) + longest) * (1 + dealing.SLACK) + 1e-9


@pytest.mark.parametrize(
    ("rows", "columns", "workers", "parts", "loads"),
    [
        pytest.param(25, 17, 2, 2, 25, id="nearly even in whole checkpoints"),
        pytest.param(25, 17, 4, 4, 28, id="one checkpoint is split among four"),
        pytest.param(24, 17, 4, 4, 24, id="as many each"),
        pytest.param(1, 17, 4, 4, 4, id="one checkpoint for all"),
        pytest.param(3, 1, 8, 3, 3, id="fewer cells than workers"),
    ],
)
def test_whole_checkpoints_where_that_is_even(rows: int, columns: int, workers: int, parts: int, loads: int) -> None:
    cells = [cell(1 + r * columns + c, r) for r in range(rows) for c in range(columns)]
    dealt = dealing.deal(cells, workers)
    assert len(dealt) == parts and loads_of(dealt) <= loads
    sizes = [len(part) for part in dealt]
    assert max(sizes) <= len(cells) / parts * 1.05 + 1


def test_a_checkpoint_that_takes_long_to_load_is_not_split_for_little() -> None:
    cells = [cell(i, 1) for i in range(1, 18)]
    seconds = {c.case_id: 0.1 for c in cells}
    assert len(dealing.deal(cells, 4, seconds=seconds, loads={1: 25.0})) == 1
    assert len(dealing.deal(cells, 4, seconds=seconds, loads={1: 0.1})) == 4


def test_a_hundred_thousand_cells_are_dealt_to_many() -> None:
    cells = [cell(1 + r * 1000 + c, r) for r in range(100) for c in range(1000)]
    dealt = dealing.deal(cells, 256)
    assert 240 <= len(dealt) <= 256 and max(map(len, dealt)) <= 100_000 / 256 * 1.1 + 1


SPEC = Spec(
    name="s", cpus=2.0, memory_bytes=1 << 30, accelerators=0, accelerator_kind=None, price_hour=0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "nodes", "least", "most", "expected"),
    [
        (SPEC, [node(cpus=4.0), node("b", cpus=7.0)], 1, 8, 5),
        (SPEC, [node(cpus=4.0)], 1, 1, 1),
        (SPEC, [node(cpus=4.0)], 3, 8, 3),
        (SPEC, [], 1, 8, 8),
        (replace(SPEC, accelerators=2, accelerator_kind="x"), [node(cpus=64.0, kinds=("x",) * 5 + ("y",))], 1, 8, 2),
    ],
)
def test_no_more_workers_than_the_nodes_hold(spec: Spec, nodes: list, least: int, most: int, expected: int) -> None:
    assert dealing.workers_for(spec, nodes, least, most) == expected


V, W, R, I = CellState.VALID, CellState.WAITING, CellState.RUNNING, CellState.INVALID  # noqa: E741
SUCCEEDED, FAILED = EvaluationState.SUCCEEDED, EvaluationState.FAILED
EXIT = {"state": RunState.FAILED, "cause": Cause.EXIT, "reason": "It returned 3."}


def look(states: list[CellState], worker: dict[str, Any] | None = None, **changes: Any) -> Look:
    tally: dict[tuple[CellState, int | None], int] = {}
    for state in states:
        key = state, 7 if worker else None
        tally[key] = tally.get(key, 0) + 1
    runs = {7: run(7, **worker)} if worker else {}
    values = {"state": EvaluationState.RUNNING, "tally": tally, "runs": runs, "rounds": 1, "workers": 4, **changes}
    return Look(**values)


@pytest.mark.parametrize(
    ("states", "worker", "dealt", "end"),
    [
        pytest.param([V, V], None, False, SUCCEEDED, id="all valid"),
        pytest.param([V, V], {"state": RunState.RUNNING}, False, SUCCEEDED, id="all valid, its worker is about to end"),
        pytest.param([V, V], EXIT, False, SUCCEEDED, id="all valid, whatever its worker did then"),
        pytest.param([W, W], None, True, None, id="nothing dealt yet"),
        pytest.param([V, W], {"state": RunState.RUNNING}, False, None, id="a worker lives"),
        pytest.param([V, R], {"state": RunState.QUEUED}, False, None, id="a worker waits"),
        pytest.param([V, W], {"state": RunState.SUCCEEDED}, True, None, id="a worker left one behind"),
        pytest.param([V, I], {"state": RunState.SUCCEEDED}, False, FAILED, id="one is not valid"),
        pytest.param([V, I], {"state": RunState.RUNNING}, False, None, id="one is not valid, a worker lives"),
        pytest.param([V, W], EXIT, False, FAILED, id="worker failed"),
        pytest.param([V, W], {**EXIT, "work": {"excused": True}}, True, None, id="worker failed of a full target"),
        pytest.param([V, W], {"state": RunState.FAILED, "cause": Cause.KILLED}, True, None, id="worker lost too often"),
        pytest.param([V, R], {"state": RunState.FAILED, "cause": Cause.NODE_LOST}, True, None, id="its node was lost"),
        pytest.param([V, W], {"state": RunState.STOPPED, "cause": Cause.STOPPED}, False, FAILED, id="stopped by hand"),
        pytest.param([], None, False, FAILED, id="no cell at all"),
    ],
)
def test_what_an_evaluation_needs(states: list, worker: Any, dealt: bool, end: Any) -> None:
    step = dealing.decide(look(states, worker))
    assert (bool(step.deal), step.state) == (dealt, end)
    assert (end is FAILED) == bool(step.reason)


@pytest.mark.parametrize(
    ("states", "worker", "more", "expected"),
    [
        pytest.param([V, V], None, {"follow": True, "training": True}, Step(), id="more will come"),
        pytest.param([], None, {"follow": True, "training": True}, Step(), id="none has come"),
        pytest.param([V, V], None, {"follow": True}, Step(SUCCEEDED), id="the jobs have ended"),
        pytest.param([V, V], None, {"training": True}, Step(SUCCEEDED), id="what comes does not belong to it"),
        pytest.param([V, I], None, {"follow": True, "training": True}, Step(), id="an invalid one does not end it"),
        pytest.param([W], None, {"policy": "after_training", "training": True}, Step(), id="after training: not yet"),
        pytest.param(
            [W], None, {"policy": "after_training"}, Step(deal=frozenset({None}), workers=4, rounds=1), id="now"
        ),
        pytest.param(
            [W], None, {"policy": "spare", "training": True}, Step(deal=frozenset({None}), workers=4, rounds=1),
            id="on spare devices meanwhile",
        ),
        pytest.param([V, W], EXIT, {"follow": True, "training": True, "rounds": 3}, FAILED, id="a worker failed"),
    ],
)  # fmt: skip
def test_training_that_goes_on(states: list, worker: Any, more: dict[str, Any], expected: Any) -> None:
    step = dealing.decide(look(states, worker, **more))
    assert expected in (step, step.state)


def test_a_paused_evaluation_is_probed_only_while_no_worker_does() -> None:
    paused = EvaluationState.PAUSED
    assert dealing.decide(look([V, W], {"state": RunState.RUNNING}, state=paused)) == Step()
    for gone in ({"state": RunState.QUEUED}, {"state": RunState.SUCCEEDED}, {"state": RunState.HELD}):
        assert dealing.decide(look([V, W], gone, state=paused)) == Step(probe=True)
    # its own words say nothing of the disk that filled at the same time
    assert dealing.decide(look([V, W], EXIT, state=paused)) == Step(probe=True, excuse=frozenset({7}))
    assert dealing.decide(look([V, V], EXIT, state=paused)) == Step(SUCCEEDED)


def test_nothing_is_dealt_while_a_worker_that_was_asked_to_stop_may_publish() -> None:
    found = look([W], None, runs={8: run(8, state=RunState.STOPPING, stop_at=1.0)})
    assert dealing.decide(found) == Step()
    assert dealing.decide(replace(found, runs={8: run(8, state=RunState.STOPPED, stop_at=1.0)})).deal == {None}


def test_cells_of_a_worker_that_does_not_run_any_more_wait() -> None:
    assert dealing.decide(look([R, W], {"state": RunState.QUEUED})).idle == {7}
    assert dealing.decide(look([R, W], {"state": RunState.RUNNING})).idle == frozenset()


def test_new_rows_are_dealt_beside_living_workers_and_never_to_too_many() -> None:
    tally = {(W, None): 3, (R, 7): 1}
    found = Look(EvaluationState.RUNNING, tally, {7: run(7, state=RunState.RUNNING)}, rounds=1, workers=3)
    assert dealing.decide(found) == Step(deal=frozenset({None}), workers=2, rounds=1)
    assert dealing.decide(replace(found, workers=1)) == Step()


LEFT = [{"state": RunState.SUCCEEDED}, {"state": RunState.FAILED, "cause": Cause.KILLED}]


@pytest.mark.parametrize("worker", LEFT)
def test_rounds_come_to_an_end_unless_something_comes_of_them(worker: dict[str, Any]) -> None:
    limit = dealing.ROUNDS_LIMIT
    step = dealing.decide(look([W], worker, rounds=limit))
    assert (step.deal, step.state) == (frozenset(), FAILED)
    assert str(limit) in step.reason
    assert dealing.decide(look([W, V], worker, rounds=limit)).rounds == 1
    assert dealing.decide(look([W, V], {**worker, "work": {"valid": 1}}, rounds=limit)).state is FAILED
    assert dealing.decide(look([W], {**worker, "work": {"excused": True}}, rounds=limit)).rounds == limit


RUNS = st.builds(
    lambda state, cause, stop, excused: {
        "state": state, "cause": cause, "stop_at": stop, "work": {"excused": True} if excused else {},
    },
    st.sampled_from(RunState), st.sampled_from([None, *Cause]), st.sampled_from([None, 1.0]), st.booleans(),
)  # fmt: skip
LOOKS = st.builds(
    lambda state, tally, runs, rounds, workers, policy, training, follow: Look(
        state, tally, {i: run(i, **r) for i, r in runs.items()}, rounds, workers, policy, training, follow
    ),
    st.sampled_from([EvaluationState.RUNNING, EvaluationState.PAUSED]),
    st.dictionaries(
        st.tuples(st.sampled_from(CellState), st.sampled_from([None, 1, 2, 3])), st.integers(1, 5), max_size=8
    ),
    st.dictionaries(st.sampled_from([1, 2, 3]), RUNS, max_size=3),
    st.integers(0, 25),
    st.integers(1, 4),
    st.sampled_from(["side_by_side", "spare", "after_training"]),
    st.booleans(),
    st.booleans(),
)


@given(LOOKS)
def test_whatever_there_is(found: Look) -> None:
    step = dealing.decide(found)
    live = [r for r in found.runs.values() if r.state not in ENDED_RUNS]
    left = {i for (s, i), _ in found.tally.items() if s in dealing.OPEN_CELLS}
    if step.state is SUCCEEDED:
        assert left == set() and found.count(I) == 0 and not (found.follow and found.training)
    if step.state is FAILED:
        assert step.reason
        assert not live or not found.tally
    # a cell is never with two, and workers are never too many
    for run_id in step.deal:
        assert run_id is None or run_id not in found.runs or found.runs[run_id].state in ENDED_RUNS
    if step.deal:
        assert found.state is EvaluationState.RUNNING and 1 <= step.workers <= found.workers - len(live)
        assert not any(r.stop_at is not None for r in live)
    assert all(found.runs.get(i) is None or found.runs[i].state not in LIVE_RUNS for i in step.idle)
    if step == Step():
        # nobody waits for nothing: somebody is there who will change it
        assert live or (found.training and (found.follow or found.policy == "after_training"))
