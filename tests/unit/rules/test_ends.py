"""What follows an end: retries and the bill."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.protocol.exits import Cause, Exit
from headway.rules import billing, retries
from headway.rules.states import RUN_MOVES, RunState, legal

from .conftest import run


def end(cause: Cause) -> Exit:
    return Exit(cause, 1, None, 0, "It ended.", 1.0, 1.0, 2.0)


ALWAYS = {Cause.DONE: RunState.SUCCEEDED, Cause.STOPPED: RunState.STOPPED}
FINAL = (Cause.EXIT, Cause.NOT_STARTED, Cause.PREPARE_FAILED, Cause.TIME_LIMIT, Cause.OOM_KILL)
LOST = (Cause.KILLED, Cause.RUNNER_LOST, Cause.NODE_LOST, Cause.FENCED)


def test_every_cause_has_a_rule() -> None:
    assert {*ALWAYS, *FINAL, *LOST} == set(Cause)


@pytest.mark.parametrize("cause", Cause)
@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("losses", [0, 3])
def test_the_run_after_an_end(cause: Cause, asked: bool, losses: int) -> None:
    changes: dict[str, Any] = {"stop_at": 1.0, "stop_reason": "Enough."} if asked else {}
    verdict = retries.after(run(state=RunState.RUNNING, losses=losses, retries=3, **changes), end(cause))
    if cause in ALWAYS:
        assert verdict.state == ALWAYS[cause]
    elif asked:
        assert (verdict.state, verdict.reason) == (RunState.STOPPED, "Enough.")
    elif cause in LOST and losses < 3:
        assert (verdict.state, verdict.loss) == (RunState.QUEUED, True)
    else:
        assert verdict.state == RunState.FAILED
    assert legal(RUN_MOVES, RunState.RUNNING, verdict.state)
    assert verdict.reason or verdict.state == RunState.SUCCEEDED


def test_a_run_without_retries_is_not_placed_again() -> None:
    assert retries.after(run(state=RunState.RUNNING, retries=0), end(Cause.KILLED)).state == RunState.FAILED


@pytest.mark.parametrize(
    ("seconds", "price", "micros"),
    [(3600, 40_000, 40_000), (1, 3600, 1), (0, 99, 0), (9, 0, 0), (0.03, 40_000, 1), (1800, 1_200_000, 600_000)],
)
def test_amounts(seconds: float, price: int, micros: int) -> None:
    assert billing.amount(seconds, price) == micros


@given(st.floats(0, 2e9), st.floats(0, 2e9), st.integers(0, 10**9))
def test_a_clock_that_jumps_never_makes_a_negative_bill(started: float, ended: float, price: int) -> None:
    assert billing.amount(billing.seconds(started, ended), price) >= 0
