"""What follows an end: retries and the bill."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.protocol.exits import Cause, Exit
from headway.rules import billing, retries
from headway.rules.states import RUN_MOVES, RunState, legal

from .conftest import attempt, run


def end(cause: Cause) -> Exit:
    return Exit(cause, 1, None, 0, "It ended.", 1.0, 1.0, 2.0)


#: what follows when nothing else was said, once each
USUAL = {
    Cause.DONE: RunState.SUCCEEDED,
    Cause.STOPPED: RunState.STOPPED,
    **dict.fromkeys(
        (
            *(Cause.EXIT, Cause.NOT_STARTED, Cause.PREPARE_FAILED, Cause.TIME_LIMIT, Cause.OOM_KILL),
            *(Cause.IDLE_OUTPUT, Cause.NO_PROGRESS, Cause.NAN_METRIC, Cause.DISK_LIMIT),
            *(Cause.WAIT_LIMIT, Cause.DEPENDENCY),
        ),
        RunState.FAILED,
    ),
    **dict.fromkeys(
        (
            *(Cause.KILLED, Cause.RUNNER_LOST, Cause.NODE_LOST, Cause.FENCED, Cause.HANG),
            *(Cause.PEER_FAILED, Cause.RECLAIMED),
        ),
        RunState.QUEUED,
    ),
    Cause.PAUSED: RunState.HELD,
}
UNCOUNTED = (Cause.RECLAIMED, Cause.PAUSED)


def test_every_cause_has_a_rule() -> None:
    assert set(retries.RULES) == set(Cause) == set(USUAL)


@pytest.mark.parametrize("cause", Cause)
@pytest.mark.parametrize("asked", ["", "stop", "pause"])
@pytest.mark.parametrize("losses", [0, 3])
def test_the_run_after_an_end(cause: Cause, asked: str, losses: int) -> None:
    changes: dict[str, Any] = {"stop": {"stop_at": 1.0, "stop_reason": "Enough."}, "pause": {"pause_at": 1.0}}.get(
        asked, {}
    )
    verdict = retries.after(run(state=RunState.RUNNING, losses=losses, retries=3, **changes), end(cause))
    usual = USUAL[cause]
    if usual in (RunState.SUCCEEDED, RunState.STOPPED):
        assert verdict.state == usual
    elif asked == "stop":
        assert (verdict.state, verdict.reason) == (RunState.STOPPED, "Enough.")
    elif asked == "pause" and usual is RunState.QUEUED:
        assert verdict.state == RunState.HELD
    elif usual is RunState.QUEUED and losses == 3 and cause not in UNCOUNTED:
        assert verdict.state == RunState.FAILED
    else:
        assert verdict.state == usual
        assert verdict.loss == (usual is RunState.QUEUED and cause not in UNCOUNTED)
    for before in (RunState.STARTING, RunState.RUNNING, RunState.STOPPING):
        assert legal(RUN_MOVES, before, verdict.state)
    assert verdict.reason or verdict.state == RunState.SUCCEEDED


def test_a_run_without_retries_is_not_placed_again() -> None:
    assert retries.after(run(state=RunState.RUNNING, retries=0), end(Cause.KILLED)).state == RunState.FAILED


def test_a_lost_node_is_avoided_and_no_other() -> None:
    lost = retries.after(run(state=RunState.RUNNING), end(Cause.NODE_LOST), nodes=["n2"])
    assert (lost.state, lost.avoid) == (RunState.QUEUED, ("n2",))
    assert retries.after(run(state=RunState.RUNNING), end(Cause.KILLED), nodes=["n2"]).avoid == ()


def test_a_reclaimed_run_goes_on_however_often() -> None:
    verdict = retries.after(run(state=RunState.RUNNING, losses=3, retries=0, reclaims=99), end(Cause.RECLAIMED))
    assert (verdict.state, verdict.reclaimed, verdict.loss) == (RunState.QUEUED, True, False)


def test_a_paused_run_says_how_it_goes_on() -> None:
    verdict = retries.after(
        run(state=RunState.STOPPING, pause_at=1.0), replace(end(Cause.PAUSED), message="Paused by eve.")
    )
    assert verdict.reason == "Paused by eve: resume it to go on."


@pytest.mark.parametrize(
    ("cause", "rules", "before", "state"),
    [
        (Cause.EXIT, {"exit": {"action": "again", "times": 2}}, {}, RunState.QUEUED),
        (Cause.EXIT, {"exit": {"action": "again", "times": 2}}, {Cause.EXIT: 1}, RunState.QUEUED),
        (Cause.EXIT, {"exit": {"action": "again", "times": 2}}, {Cause.EXIT: 2}, RunState.FAILED),
        # what another cause was allowed is no business of this one
        (Cause.EXIT, {"exit": {"action": "again", "times": 2}}, {Cause.KILLED: 3}, RunState.QUEUED),
        (Cause.KILLED, {"exit": {"action": "again", "times": 9}}, {Cause.EXIT: 9}, RunState.QUEUED),
        (Cause.KILLED, {}, {Cause.KILLED: 2, Cause.RUNNER_LOST: 1}, RunState.FAILED),
        (Cause.KILLED, {"killed": {"action": "stop", "times": 0}}, {}, RunState.FAILED),
        (Cause.RECLAIMED, {"reclaimed": {"action": "stop", "times": 0}}, {}, RunState.FAILED),
        (Cause.KILLED, {"killed": {"action": "dance"}}, {}, RunState.QUEUED),
        # nobody may say that a run which was stopped goes on
        (Cause.STOPPED, {"stopped": {"action": "again", "times": 9}}, {}, RunState.STOPPED),
    ],
)
def test_rules_of_ones_own(cause: Cause, rules: dict[str, Any], before: dict[Cause, int], state: RunState) -> None:
    one = run(state=RunState.RUNNING, retries=3, retry_rules=rules, losses=sum(before.values()))
    assert retries.after(one, end(cause), before=before).state == state


def test_a_hang_is_tried_three_times_whatever_retries_say() -> None:
    one = run(state=RunState.RUNNING, retries=50, losses=3)
    assert retries.after(one, end(Cause.HANG), before={Cause.HANG: 2}).state == RunState.QUEUED
    assert retries.after(one, end(Cause.HANG), before={Cause.HANG: 3}).state == RunState.FAILED


def test_losses_are_counted_since_the_run_was_retried_by_hand() -> None:
    causes = [Cause.KILLED, Cause.EXIT, Cause.RECLAIMED, Cause.HANG, Cause.KILLED, None]
    attempts = [attempt(run(), number=n + 1, cause=c) for n, c in enumerate(causes)]
    assert retries.losses_by_cause(run(losses=3), attempts) == {Cause.KILLED: 2, Cause.HANG: 1}
    assert retries.losses_by_cause(run(losses=2), attempts) == {Cause.HANG: 1, Cause.KILLED: 1}
    assert retries.losses_by_cause(run(losses=0), attempts) == {}


@pytest.mark.parametrize(
    ("seconds", "price", "micros"),
    [(3600, 40_000, 40_000), (1, 3600, 1), (0, 99, 0), (9, 0, 0), (0.03, 40_000, 1), (1800, 1_200_000, 600_000)],
)
def test_amounts(seconds: float, price: int, micros: int) -> None:
    assert billing.amount(seconds, price) == micros


@given(st.floats(0, 2e9), st.floats(0, 2e9), st.integers(0, 10**9))
def test_a_clock_that_jumps_never_makes_a_negative_bill(started: float, ended: float, price: int) -> None:
    assert billing.amount(billing.seconds(started, ended), price) >= 0
