"""Scores: intervals, the best row, differences of pairs, a training curve against the scores."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.rules.scores import Scores, direction, mean_by_case, verdict

values = st.floats(-1e6, 1e6)
tables = st.integers(1, 8).flatmap(
    lambda cases: st.lists(st.lists(st.none() | values, min_size=cases, max_size=cases), min_size=1, max_size=5)
)


@given(tables)
def test_an_interval_holds_its_mean_and_lies_within_the_values(rows: list[list[float | None]]) -> None:
    scores = Scores(rows)
    for number, row in enumerate(rows):
        found = [v for v in row if v is not None]
        estimate = scores.estimate(number)
        if not found:
            assert estimate is None
            continue
        assert estimate is not None and estimate.cases == len(found)
        slack = 1e-6 * max(1.0, *map(abs, found))
        assert estimate.mean == pytest.approx(sum(found) / len(found), abs=slack)
        if len(found) == 1:
            assert (estimate.low, estimate.high) == (None, None)
        else:
            assert estimate.low is not None and estimate.high is not None
            assert min(found) - slack <= estimate.low <= estimate.high <= max(found) + slack


@given(tables, st.integers(0, 3))
def test_equal_tables_and_seeds_give_equal_figures(rows: list[list[float | None]], seed: int) -> None:
    one, two = Scores(rows, seed=seed), Scores(rows, seed=seed)
    assert [one.estimate(r) for r in range(len(rows))] == [two.estimate(r) for r in range(len(rows))]


@given(tables)
def test_the_best_for_higher_is_the_best_for_lower_of_the_mirrored(rows: list[list[float | None]]) -> None:
    mirrored = [[None if v is None else -v for v in row] for row in rows]
    high, low = Scores(rows).best(), Scores(mirrored, better="lower").best()
    assert (high and high.row, high and high.is_final) == (low and low.row, low and low.is_final)


@given(tables)
def test_a_difference_turned_round_changes_its_sign(rows: list[list[float | None]]) -> None:
    scores = Scores(rows)
    there, back = scores.difference(0, len(rows) - 1), scores.difference(len(rows) - 1, 0)
    assert (there is None) == (back is None)
    if there is not None and back is not None:
        assert there.mean == pytest.approx(-back.mean, abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_intervals_hold_the_truth_about_as_often_as_they_say(seed: int) -> None:
    chance = random.Random(seed)
    rows = [[chance.gauss(0.5, 0.1) for _ in range(40)] for _ in range(100)]
    scores = Scores(rows, seed=seed)
    found = [scores.estimate(r) for r in range(100)]
    held = sum(e is not None and e.low is not None and e.high is not None and e.low <= 0.5 <= e.high for e in found)
    assert 84 <= held <= 100


def test_pairs_tell_apart_what_hard_cases_hide() -> None:
    chance = random.Random(1)
    hard = [chance.uniform(0, 1) for _ in range(17)]
    rows = [hard, [h + 0.02 + chance.uniform(-0.005, 0.005) for h in hard]]
    scores = Scores(rows)
    first, second, difference = scores.estimate(0), scores.estimate(1), scores.difference(0, 1)
    assert first and second and difference
    assert first.high is not None and second.low is not None and first.high > second.low
    assert difference.is_clear and difference.mean == pytest.approx(0.02, abs=0.005)


def test_a_row_with_the_easy_cases_alone_does_not_win() -> None:
    best = Scores([[0.5, 0.6, 0.7], [None, None, 1.0]]).best()
    assert best is not None and best.row == 0 and not best.is_final


def test_rows_that_are_as_good_as_the_best_are_named() -> None:
    best = Scores([[0.9, 0.1, 0.5, 0.6], [0.1, 0.9, 0.6, 0.5], [0.0, 0.0, 0.0, 0.0]]).best()
    assert best is not None and best.row == 0 and best.tied == (1,) and best.is_final


def test_no_value_has_no_best() -> None:
    assert Scores([]).best() is None
    assert Scores([[None, None]]).best() is None


def test_rows_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="one value a case"):
        Scores([[1.0], [1.0, 2.0]])


def test_repeats_of_a_case_are_one_value_and_nan_is_none() -> None:
    assert mean_by_case([(0, 1.0), (0, 3.0), (2, math.nan)], 3) == [2.0, None, None]


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("loss", "lower"),
        ("train/val_loss", "lower"),
        ("logloss", "lower"),
        ("exact-match.acc", "higher"),
        ("mse", "lower"),
        ("lr", None),
        ("accumulated_time", None),
    ],
)
def test_a_name_says_what_is_better(name: str, better: str | None) -> None:
    assert direction(name) == better


def curve(*heights: float) -> list[tuple[float, float]]:
    """Ten points between two steps of a hundred."""
    points = []
    for at, (low, high) in enumerate(itertools.pairwise(heights)):
        points += [(100 * at + 10 * i, low + (high - low) * i / 10) for i in range(10)]
    return [*points, (100 * (len(heights) - 1), heights[-1])]


def table(*means: float) -> Scores:
    chance = random.Random(0)
    return Scores([[m + chance.uniform(-0.01, 0.01) for _ in range(12)] for m in means])


STEPS = {row: 100.0 * row for row in range(5)}
FALLS = curve(2.0, 1.0, 0.6, 0.4, 0.2)


def test_the_loss_falls_while_the_score_falls_too() -> None:
    said = verdict(table(0.1, 0.5, 0.8, 0.7, 0.5), STEPS, FALLS, "lower")
    assert said is not None and (said.says, said.since, said.last) == ("worse", 2, 4)
    assert said.difference is not None and said.difference.high is not None and said.difference.high < 0
    assert said.curve_since > said.curve_last


def test_the_loss_falls_while_the_score_stays() -> None:
    said = verdict(table(0.1, 0.8, 0.8, 0.8, 0.8), STEPS, FALLS, "lower")
    assert said is not None and (said.says, said.since) == ("flat", 1)


def test_both_get_better_to_the_end() -> None:
    said = verdict(table(0.1, 0.3, 0.5, 0.7, 0.9), STEPS, FALLS, "lower")
    assert said is not None and said.says == "together"


def test_a_curve_that_stands_still_is_not_blamed() -> None:
    said = verdict(table(0.1, 0.8, 0.8, 0.8, 0.8), STEPS, curve(2.0, 0.2, 0.2, 0.2, 0.2), "lower")
    assert said is not None and said.says in ("together", "still")


def test_a_curve_of_an_accuracy_counts_the_other_way() -> None:
    said = verdict(table(0.1, 0.5, 0.8, 0.7, 0.5), STEPS, curve(0.1, 0.5, 0.7, 0.8, 0.9), "higher")
    assert said is not None and said.says == "worse"


def test_too_little_has_no_verdict() -> None:
    assert verdict(table(0.1, 0.9), {0: 0.0, 1: 100.0}, FALLS, "lower") is None
    assert verdict(table(0.1, 0.5, 0.9), {}, FALLS, "lower") is None
    assert verdict(table(0.1, 0.5, 0.9), {0: 0.0, 1: 9000.0, 2: 9900.0}, FALLS, "lower") is None
