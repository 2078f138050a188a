"""Every pair of states, legal or not: the tables here are written out anew and compared with the code's."""

from __future__ import annotations

from typing import Any

import pytest

from headway.rules import states

LEGAL: dict[str, str] = {
    "RUN": """
        held: queued stopped failed
        queued: held starting stopped failed
        starting: running stopping queued held succeeded failed stopped
        running: stopping queued held succeeded failed stopped
        stopping: stopped succeeded failed queued held
        succeeded:
        failed: queued
        stopped: queued""",
    "ATTEMPT": """
        placed: starting ended
        starting: running stopping ended
        running: stopping ended
        stopping: ended
        ended:""",
    "EVALUATION": """
        running: paused succeeded failed stopped
        paused: running failed stopped
        succeeded: running failed
        failed: running
        stopped: running""",
    "CELL": """
        waiting: running valid invalid
        running: waiting valid invalid
        valid: invalid waiting
        invalid: waiting running valid""",
    "VERSION": """
        checking: ready invalid
        ready:
        invalid: checking""",
    "ENDPOINT": """
        starting: ready failed stopped
        ready: starting failed stopped
        failed: starting stopped
        stopped: starting""",
}


def pairs() -> list[Any]:
    found = []
    for name, text in LEGAL.items():
        table = dict(line.strip().split(":") for line in text.strip().splitlines())
        moves = getattr(states, f"{name}_MOVES")
        kind = type(next(iter(moves)))
        assert set(table) == {s.value for s in kind}, name
        for old in kind:
            for new in kind:
                legal = new.value in table[old.value].split()
                found.append(pytest.param(moves, old, new, legal, id=f"{name.lower()}-{old.value}-{new.value}"))
    return found


@pytest.mark.parametrize(("moves", "old", "new", "legal"), pairs())
def test_every_move_is_legal_or_refused(moves: Any, old: Any, new: Any, legal: bool) -> None:
    assert states.legal(moves, old, new) is legal
    if legal:
        assert states.check(moves, old, new) is new
    else:
        with pytest.raises(states.IllegalMoveError, match=f"{old.value} cannot become {new.value}"):
            states.check(moves, old, new)


def test_every_run_state_is_waiting_live_or_ended() -> None:
    waiting = {states.RunState.HELD, states.RunState.QUEUED}
    assert waiting | states.LIVE_RUNS | states.ENDED_RUNS == set(states.RunState)
    assert not states.LIVE_RUNS & states.ENDED_RUNS
