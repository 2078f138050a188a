"""Runs that come after others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.rules.dependencies import decide
from headway.rules.states import RunState

OK, BAD, STOPPED, LIVE = RunState.SUCCEEDED, RunState.FAILED, RunState.STOPPED, RunState.RUNNING


@pytest.mark.parametrize(
    ("states", "free", "failed"),
    [
        ({1: OK, 2: OK}, True, ""),
        ({1: OK, 2: LIVE}, False, ""),
        ({1: LIVE, 2: BAD}, False, "Job 2, which it was to come after, failed."),
        ({1: STOPPED, 2: OK}, False, "Job 1, which it was to come after, was stopped."),
        ({1: OK}, False, "Job 2, which it was to come after, is not there any more."),
    ],
)
def test_a_run_after_two_others(states: dict[int, RunState], free: bool, failed: str) -> None:
    decision = decide({9: [1, 2]}, states)
    assert decision.free == ([9] if free else [])
    assert decision.failed == ({9: failed} if failed else {})


def test_what_comes_after_one_that_can_never_start_cannot_either() -> None:
    decision = decide({2: [1], 3: [2], 4: [3, 5]}, {1: BAD, 2: RunState.QUEUED, 3: RunState.QUEUED, 5: LIVE})
    assert set(decision.failed) == {2, 3, 4}
    assert decision.failed[4] == "Job 3, which it was to come after, failed."


@given(
    st.dictionaries(st.integers(1, 9), st.lists(st.integers(1, 9), max_size=3)),
    st.dictionaries(st.integers(1, 9), st.sampled_from(RunState)),
)
def test_no_run_is_both_free_and_failed(waiting: dict[int, list[int]], states: dict[int, RunState]) -> None:
    decision = decide(waiting, states)
    assert not set(decision.free) & set(decision.failed)
    assert {*decision.free, *decision.failed} <= set(waiting)
    assert all(states[n] is OK for run in decision.free for n in waiting[run])
