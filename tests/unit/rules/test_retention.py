from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.rules import checkpoints
from headway.rules.records import Checkpoint
from headway.rules.retention import Best, Rule, removable


def checkpoint(id: int, **changes: Any) -> Checkpoint:
    values: dict[str, Any] = {
        "id": id, "run_id": 1, "attempt_id": "1-1", "name": f"c-{id}", "path": f"p/c-{id}", "step": id * 10,
        "epoch": id, "metrics": {}, "bytes": 1, "sha256": "x", "format": "torch", "valid": True, "reason": "",
        "created_at": float(id),
    }  # fmt: skip
    return Checkpoint(**{**values, **changes})


SCORES = [0.1, 0.9, 0.5, 0.9, float("nan"), 0.2]
SIX = [checkpoint(i + 1, metrics={"acc": s}) for i, s in enumerate(SCORES)]


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"keep_last": 1}, [6]),
        ({"keep_last": 3}, [4, 5, 6]),
        ({"keep_last": 100}, [1, 2, 3, 4, 5, 6]),
        ({"keep_best": {"n": 1, "metric": "acc", "mode": "max"}}, [4, 6]),
        ({"keep_best": {"n": 2, "metric": "acc"}}, [2, 4, 6]),
        ({"keep_best": {"n": 1, "metric": "acc", "mode": "min"}}, [1, 6]),
        ({"keep_best": {"n": 1, "metric": "other", "mode": "min"}}, [1, 2, 3, 4, 5, 6]),
        ({"keep_every": 20}, [2, 4, 6]),
        ({"keep_every": 7}, [6]),
        ({"keep_last": 1, "keep_best": {"n": 1, "metric": "acc"}, "keep_every": 30}, [3, 4, 6]),
        ({"keep_last": None, "keep_best": None, "keep_every": None}, [1, 2, 3, 4, 5, 6]),
    ],
)
def test_what_each_rule_keeps(rule: dict[str, Any], kept: list[int]) -> None:
    gone = {c.id for c in removable(SIX, Rule.of(rule))}
    assert [c.id for c in SIX if c.id not in gone] == kept


def test_epochs_count_where_there_are_no_steps_and_without_both_it_stays() -> None:
    found = [checkpoint(i, step=None, epoch=i if i < 5 else None) for i in range(1, 7)]
    assert [c.id for c in removable(found, Rule(keep_every=2))] == [1, 3]


def test_what_is_protected_stays_and_takes_nobody_elses_place() -> None:
    assert [c.id for c in removable(SIX, Rule(keep_last=2), protected={1, 3})] == [2, 4]


def test_invalid_and_removed_ones_neither_count_nor_go() -> None:
    found = [checkpoint(1), checkpoint(2, valid=False), checkpoint(3, removed_at=9.0), checkpoint(4), checkpoint(5)]
    assert [c.id for c in removable(found, Rule(keep_last=1))] == [1, 4]
    assert removable([checkpoint(1), checkpoint(2, valid=False)], Rule(keep_last=1)) == []
    newest = checkpoints.newest([checkpoint(1), checkpoint(2, removed_at=1.0), checkpoint(3, valid=False)])
    assert newest is not None and newest.id == 1


one = st.builds(
    lambda step, epoch, valid, removed, score: {
        "step": step,
        "epoch": epoch,
        "valid": valid,
        "removed_at": removed,
        "metrics": {} if score is None else {"m": score},
    },
    st.none() | st.integers(0, 50),
    st.none() | st.integers(0, 9),
    st.booleans(),
    st.none() | st.just(1.0),
    st.none() | st.floats() | st.just(True) | st.just("text"),
)
part = st.none() | st.integers(1, 6)
best = st.none() | st.builds(Best, st.integers(1, 4), st.just("m"), st.sampled_from(["min", "max"]))


@given(
    st.lists(one, max_size=12).map(lambda rows: [checkpoint(i + 1, **row) for i, row in enumerate(rows)]),
    st.builds(Rule, part, best, part),
    st.sets(st.integers(1, 12)),
)
def test_never_the_newest_never_a_protected_one(found: list[Checkpoint], rule: Rule, protected: set[int]) -> None:
    gone = removable(found, rule, protected)
    newest = checkpoints.newest(found)
    assert newest not in gone
    assert not {c.id for c in gone} & protected
    assert all(checkpoints.usable(c) for c in gone)
    left = [c for c in found if c not in gone]
    # nothing more goes when it is asked again, and the newest is still the newest
    assert removable(left, rule, protected) == []
    assert checkpoints.newest(left) == newest
    usable = [c for c in found if checkpoints.usable(c)]
    if rule.keep_last is not None:
        assert all(c in left for c in sorted(usable, key=checkpoints.order)[-rule.keep_last :])
    if not rule:
        assert gone == []


def test_one_that_does_not_tell_the_metric_is_kept() -> None:
    found = [checkpoint(n, metrics={"loss": float(n)}) for n in range(1, 4)] + [checkpoint(4, metrics={})]
    rule = Rule(keep_best=Best(1, "loss", "min"))
    assert [c.id for c in removable([*found, checkpoint(5, metrics={"loss": 9.0})], rule)] == [2, 3]
