from __future__ import annotations

import time
from typing import Any

import pytest

from headway.rules import cells
from headway.rules.records import Evaluation
from headway.rules.states import EvaluationState

PLAN: dict[str, Any] = {
    "worker": "e.py:E", "command": None, "outputs": [{"name": "a", "kind": "file"}], "check": None, "scorer": None,
    "scores": "file", "score_file": "score.json", "score": "score", "datasets": [], "environment": {},
    "cases": [{"id": "a", "inputs": {"p": "x"}, "parameters": {"s": 1}, "expected": 3, "tags": ["t"]}, {"id": "b"}],
    "parameters": {"s": 9, "t": 2}, "repeats": 2, "seed": 5,
}  # fmt: skip


def evaluation(**changes: Any) -> Evaluation:
    values: dict[str, Any] = {
        "id": 7, "project_id": 1, "name": "e", "state": EvaluationState.RUNNING, "reason": "", "remedy": "",
        "cause": None, "job_id": 1, "plan": PLAN, "pauses": 0, "rounds": 0, "key": None, "path": "projects/p/x/7",
        "submitted_by": 1, "created_at": 1.0, "ended_at": None,
    }  # fmt: skip
    return Evaluation(**{**values, **changes})


def test_each_case_is_repeated_with_a_seed_of_its_own_and_all_parameters() -> None:
    first, second, *rest = cells.effective_cases(PLAN)
    assert first == {
        "id": "a", "inputs": {"p": "x"}, "parameters": {"s": 1, "t": 2}, "expected": 3, "tags": ["t"], "repeat": 0,
        "seed": 5,
    }  # fmt: skip
    assert second == {**first, "repeat": 1, "seed": 6}
    assert [(c["id"], c["parameters"], c["inputs"]) for c in rest] == [("b", {"s": 9, "t": 2}, {})] * 2
    columns = cells.columns(PLAN)
    assert [(c.case, c.repeat) for c in columns] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert [c.digest for c in columns] == [cells.case_digest(case) for case in cells.effective_cases(PLAN)]


@pytest.mark.parametrize("change", [{"seed": 6}, {"parameters": {"s": 9, "t": 3}}])
def test_what_changes_each_case_changes_each_digest(change: dict[str, Any]) -> None:
    old, new = ({c.digest for c in cells.columns(plan)} for plan in (PLAN, {**PLAN, **change}))
    assert len(old) == len(new) == 4
    assert not old & new or change == {"seed": 6}


def test_tags_change_no_digest_and_everything_else_does() -> None:
    case = cells.effective_cases(PLAN)[0]
    digest = cells.case_digest(case)
    assert cells.case_digest({**case, "tags": []}) == digest
    for name, value in {"id": "c", "inputs": {}, "parameters": {}, "expected": None, "repeat": 3, "seed": 0}.items():
        assert cells.case_digest({**case, name: value}) != digest, name


@pytest.mark.parametrize("name", cells.COMMON)
def test_what_all_cells_depend_on_is_in_every_key(name: str) -> None:
    other = [{"dataset": "d", "version": 1}] if name == "datasets" else "other"
    assert cells.common_digest({**PLAN, name: other}, "code") != cells.common_digest(PLAN, "code")


def test_how_data_comes_changes_no_key() -> None:
    plain, streamed = (
        {**PLAN, "datasets": [{"dataset": "d", "version": 1, **how}]} for how in ({}, {"mode": "stream"})
    )
    assert cells.common_digest(plain, "code") == cells.common_digest(streamed, "code")


def test_the_part_of_the_code_that_counts_may_be_named() -> None:
    named = {**PLAN, "code": "part"}
    assert cells.common_digest(named, "one") == cells.common_digest(named, "two")
    assert cells.common_digest(PLAN, "one") != cells.common_digest(PLAN, "two")
    assert cells.common_digest({**PLAN, "spec": "large", "workers": 9}, "one") == cells.common_digest(PLAN, "one")


def test_many_keys_are_those_made_one_by_one() -> None:
    several = cells.keys("c", ["x", "y"], ["1", "2"])
    assert several == [cells.key("c", sha, case) for sha in "xy" for case in "12"]
    assert len(set(several)) == 4


def test_a_hundred_thousand_keys_take_well_under_a_second_of_work() -> None:
    began = time.process_time()
    found = cells.keys("c" * 64, [f"{n:064}" for n in range(100)], [f"{n:064}" for n in range(1000)])
    assert len(found) == 100_000
    assert time.process_time() - began < 1


def test_an_evaluations_digest_is_of_the_request_and_its_keys_in_any_order() -> None:
    digest = cells.plan_digest({"a": 1}, ["x", "y"])
    assert cells.plan_digest({"a": 1}, ["y", "x"]) == digest
    assert cells.plan_digest({"a": 1}, ["x"]) != digest
    assert cells.plan_digest({"a": 2}, ["x", "y"]) != digest


def test_where_outputs_lie() -> None:
    own, elsewhere = evaluation(), evaluation(target="/data/out/")
    assert cells.outputs_folder(own) == "projects/p/x/7/outputs"
    assert cells.outputs_folder(elsewhere) == "/data/out/evaluation-7"
    assert cells.path(own, "epoch-1", "a", 1) == "projects/p/x/7/outputs/epoch-1/a@1"
    assert cells.path(evaluation(plan={**PLAN, "repeats": 1}), "epoch-1", "a", 0).endswith("/epoch-1/a")
