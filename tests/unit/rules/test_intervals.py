from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.protocol.causes import Cause
from headway.rules import intervals
from headway.rules.intervals import PRIOR_SECONDS, Losses, Saving
from headway.rules.records import Attempt
from headway.rules.states import AttemptState

from .test_retention import checkpoint


def attempt(launched: float | None, ended: float | None, cause: Cause | None = None, nodes: int = 1) -> Attempt:
    values: dict[str, Any] = dict.fromkeys(("address", "secret", "stopping_at", "exit_code", "signal"))
    return Attempt(
        id="1-1", run_id=1, number=1, state=AttemptState.ENDED, engine="local", placement=[{}] * nodes, cursors=[],
        ready=False, created_at=0.0, started_at=launched, launched_at=launched, ended_at=ended, cause=cause,
        message="", **values,
    )  # fmt: skip


def test_the_formulas_by_hand() -> None:
    # a save of 5 minutes, a loss a day: the figures of Daly's paper's setting
    assert intervals.young(300, 86400) == pytest.approx(7200)
    part = 300 / 172800
    assert intervals.daly(300, 86400) == pytest.approx(7200 * (1 + math.sqrt(part) / 3 + part / 9) - 300)
    assert intervals.daly(50, 20) == 20


@given(st.floats(0.01, 1e3), st.floats(2, 1e7))
def test_daly_is_close_to_the_least(cost: float, mean: float) -> None:
    least = intervals.daly(cost, mean)
    if cost < mean / 2:
        here = intervals.overhead(least, cost, mean)
        around = [intervals.overhead(least * f, cost, mean) for f in (0.25, 0.5, 0.8, 1.25, 2, 4)]
        assert here <= min(around) * 1.01 + 1e-12


@given(st.floats(0.01, 100), st.floats(0.0, 1.0), st.floats(60, 1e7), st.floats(1, 1e5))
def test_advice_never_says_more_often_than_a_save_takes_and_never_worse_than_now(
    save: float, share: float, mean: float, now: float
) -> None:
    found = intervals.advise(Saving(save, save * share, 3), mean, now=now)
    assert found.interval >= save
    assert found.overhead_now is not None
    if now >= save and save < mean / 4:
        assert found.overhead <= found.overhead_now * 1.05 + 1e-6


def test_losses_over_running_time() -> None:
    hours = 3600.0
    ends = [Cause.NODE_LOST, Cause.KILLED, Cause.RECLAIMED, Cause.RUNNER_LOST, Cause.FENCED, Cause.EXIT, Cause.DONE]
    found = intervals.losses([attempt(0, 2 * hours, cause) for cause in ends] + [attempt(None, 5, None)], now=99.0)
    assert (found.count, found.node_seconds) == (5, 14 * hours)
    assert found.mean() == pytest.approx(2.8 * hours)
    assert found.mean(nodes=4) == pytest.approx(0.7 * hours)
    # two nodes for an hour are two node hours, and a live attempt counts until now
    assert intervals.losses([attempt(0, None, nodes=2)], now=hours).node_seconds == 2 * hours


def test_without_losses_the_prior_counts() -> None:
    assert Losses(0, 0.0).mean() == PRIOR_SECONDS
    assert Losses(0, 3600.0).mean() == PRIOR_SECONDS + 3600
    assert Losses(5, 0.0).mean() == 1.0


def test_what_saving_takes_and_how_often_it_is_done() -> None:
    found = [
        checkpoint(1, save_seconds=2.0, blocked_seconds=0.2, created_at=0.0),
        checkpoint(2, save_seconds=4.0, blocked_seconds=0.4, created_at=100.0),
        checkpoint(3, save_seconds=3.0, blocked_seconds=0.3, created_at=200.0),
        checkpoint(4, save_seconds=99.0, valid=False, created_at=201.0),
        checkpoint(5, created_at=5000.0, attempt_id="1-2"),
        checkpoint(6, created_at=5100.0, attempt_id="1-2"),
    ]
    assert intervals.saving(found) == Saving(3.0, pytest.approx(0.3), 3)
    assert intervals.current(found) == 100
    assert intervals.saving(found[4:]) is None and intervals.current(found[:1]) is None
