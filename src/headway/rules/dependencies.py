"""Runs that come after others: who may go, and who never can. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headway.rules.states import RunState

_WORDS = {RunState.FAILED: "failed", RunState.STOPPED: "was stopped"}


@dataclass(frozen=True)
class Decision:
    #: all that they were to come after has succeeded
    free: list[int] = field(default_factory=list)
    #: run -> sentence why it can never start
    failed: dict[int, str] = field(default_factory=dict)


def decide(waiting: Mapping[int, Sequence[int]], states: Mapping[int, RunState]) -> Decision:
    """waiting: run -> the runs it comes after. states: of those; one that is missing is not there any more.

    A run that cannot start takes those along that come after it.
    """
    found = Decision()
    fallen: dict[int, str] = {}
    left = dict(waiting)
    changed = True
    while changed:
        changed = False
        for run, after in list(left.items()):
            reason = next((text for text in (_why_not(r, states, fallen) for r in after) if text), None)
            if reason is not None:
                found.failed[run] = fallen[run] = reason
                del left[run]
                changed = True
    found.free.extend(run for run, after in left.items() if all(states.get(r) is RunState.SUCCEEDED for r in after))
    return found


def _why_not(run: int, states: Mapping[int, RunState], fallen: Mapping[int, str]) -> str | None:
    """A sentence when `run` will not succeed any more."""
    state = RunState.FAILED if run in fallen else states.get(run)
    if state is None:
        return f"Job {run}, which it was to come after, is not there any more."
    return f"Job {run}, which it was to come after, {_WORDS[state]}." if state in _WORDS else None
