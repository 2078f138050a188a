"""The rules by which a run is ended, over a clock of our own."""

from __future__ import annotations

import math
from typing import Any

import pytest

from headway.protocol.causes import Cause
from headway.runner.limits import Limits, spoken

MIN = 60.0


def ended(limits: Limits, now: float) -> tuple[Cause, str] | None:
    return limits.check(now, hangs=limits.quiet(now))


@pytest.mark.parametrize(
    ("given", "duration", "until", "cause", "sentence"),
    [
        ({}, 3600.0, 3600.0, Cause.TIME_LIMIT, "ran for its limit of 1 h."),
        ({"idle_output": 1800}, None, 1800.0, Cause.IDLE_OUTPUT, "printed nothing for 30 min."),
        ({"hang": 600}, None, 600.0, Cause.HANG, "printed nothing and did no work for 10 min."),
        (
            {"no_progress": {"metric": "loss", "seconds": 300}},
            None,
            300.0,
            Cause.NO_PROGRESS,
            "loss was not reported for 5 min.",
        ),
        ({"hang": 600, "idle_output": 600}, None, 600.0, Cause.HANG, "printed nothing and did no work for 10 min."),
    ],
)
def test_time_alone(given: dict[str, Any], duration: float | None, until: float, cause: Cause, sentence: str) -> None:
    limits = Limits(given, duration, 100.0)
    assert limits.due() == 100.0 + until
    assert ended(limits, 100.0 + until - 0.1) is None
    assert ended(limits, 100.0 + until) == (cause, sentence)


def test_without_limits_nothing_is_due() -> None:
    limits = Limits({}, None, 0.0)
    limits.measured(1 << 60)
    limits.points([(1, "loss", math.nan)], 1.0)
    assert (limits.due(), ended(limits, 1e9), limits.wants_points) == (None, None, False)


@pytest.mark.parametrize("odd", [{"idle_output": "soon"}, {"idle_output": True}, {"hang": -1}, {"no_progress": 3}])
def test_what_is_no_limit_is_none(odd: dict[str, Any]) -> None:
    assert ended(Limits(odd, None, 0.0), 1e9) is None


def test_a_line_puts_idle_output_and_hang_off() -> None:
    limits = Limits({"idle_output": 60, "hang": 60}, None, 0.0)
    limits.line(30.0)
    assert limits.due() == 90.0
    assert ended(limits, 80.0) is None
    found = ended(limits, 90.0)
    assert found is not None and found[0] is Cause.HANG


def test_work_is_no_hang_but_may_be_idle() -> None:
    limits = Limits({"hang": 60}, None, 0.0)
    for now in range(0, 300, 5):
        limits.sampled(now * 0.02, [0], float(now))
        assert ended(limits, float(now)) is None
    for now in range(300, 400, 5):
        limits.sampled(6.0, [0], float(now))
    assert limits.quiet(365.0)


def test_a_busy_device_is_work() -> None:
    limits = Limits({"hang": 60}, None, 0.0)
    for now in range(0, 300, 5):
        limits.sampled(1.0, [0, 3], float(now))
        assert ended(limits, float(now)) is None


def test_a_hang_waits_for_the_gang() -> None:
    limits = Limits({"hang": 60}, None, 0.0)
    assert limits.quiet(61.0)
    assert limits.check(61.0, hangs=False) is None


@pytest.mark.parametrize(
    ("mode", "values", "best"), [("min", [3, 1, 2], 1), ("max", [1, 3, 2], 3), (None, [2, 1, 5], 1)]
)
def test_no_progress_counts_from_the_best(mode: str | None, values: list[int], best: int) -> None:
    limits = Limits({"no_progress": {"metric": "m", "seconds": 60, "mode": mode}}, None, 0.0)
    for at, value in enumerate(values, 1):
        limits.points([(at, "m", float(value)), (at, "other", 0.0)], at * 10.0)
    assert ended(limits, 79.0) is None
    at = values.index(best) + 1
    assert ended(limits, 80.0) == (
        Cause.NO_PROGRESS,
        f"m became no better for 60 s: {best} at step {at} is its best.",
    )


def test_the_other_nodes_of_a_gang_judge_only_what_they_saw() -> None:
    limits = Limits({"no_progress": {"metric": "m", "seconds": 60}}, None, 0.0, judge=False)
    assert (limits.due(), ended(limits, 100.0)) == (None, None)
    limits.points([(1, "m", 1.0)], 100.0)
    assert ended(limits, 161.0) is not None


@pytest.mark.parametrize(
    ("nan", "name", "value", "sentence"),
    [
        (True, "loss", math.nan, "loss is NaN at step 7."),
        (["loss"], "loss", math.inf, "loss is inf at step 7."),
        (["loss"], "other", math.nan, None),
        (False, "loss", math.nan, None),
        ([], "loss", math.nan, None),
        (True, "loss", 1.0, None),
    ],
)
def test_nan(nan: Any, name: str, value: float, sentence: str | None) -> None:
    limits = Limits({"nan": nan}, None, 0.0)
    limits.points([(7, name, value), (8, name, value)], 1.0)
    assert ended(limits, 1.0) == (None if sentence is None else (Cause.NAN_METRIC, sentence))


def test_disk() -> None:
    limits = Limits({"disk_bytes": 10 << 20}, None, 0.0)
    limits.measured(10 << 20)
    assert ended(limits, 1.0) is None
    limits.measured(12 << 20)
    assert ended(limits, 1.0) == (Cause.DISK_LIMIT, "has 12 MiB in its own folders; its limit is 10 MiB.")


def test_limits_change_while_it_runs() -> None:
    limits = Limits({"idle_output": 60}, 100.0, 0.0)
    limits.amend({}, 200.0)
    assert ended(limits, 150.0) is None
    limits.amend({"idle_output": 30, "no_progress": {"metric": "m", "seconds": 30}}, None)
    found = ended(limits, 150.0)
    assert found is not None and found[0] is Cause.IDLE_OUTPUT
    limits.amend({}, 120.0)
    assert ended(limits, 150.0) == (Cause.TIME_LIMIT, "ran for its limit of 2 min.")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.3, "0.3 s"), (59.96, "60 s"), (119.0, "119 s"), (120.0, "2 min"), (150.0, "2 min 30 s"), (1800.0, "30 min"),
     (5400.0, "1 h 30 min"), (7200.0, "2 h"), (90_000.0, "25 h")],
)  # fmt: skip
def test_durations_for_people(seconds: float, words: str) -> None:
    assert spoken(seconds) == words
