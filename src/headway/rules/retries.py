"""What follows the end of an attempt: one rule a cause."""

from __future__ import annotations

from dataclasses import dataclass

from headway.protocol.exits import Cause, Exit
from headway.rules.records import Run
from headway.rules.states import RunState

#: causes that say nothing against the run's code: it is placed again
LOSSES = frozenset({Cause.KILLED, Cause.RUNNER_LOST, Cause.NODE_LOST, Cause.FENCED})


@dataclass(frozen=True)
class Verdict:
    state: RunState
    #: one sentence for people
    reason: str
    #: whether the end counts against `retries`
    loss: bool = False


def after(run: Run, end: Exit) -> Verdict:
    """The run's next state after an attempt ended with `end`."""
    if end.cause is Cause.DONE:
        return Verdict(RunState.SUCCEEDED, "")
    if run.stop_at is not None or end.cause is Cause.STOPPED:
        return Verdict(RunState.STOPPED, run.stop_reason or _sentence(end))
    if end.cause in LOSSES:
        if run.losses < run.retries:
            return Verdict(
                RunState.QUEUED, f"{_sentence(end)} It is placed again ({run.losses + 1} of {run.retries}).", True
            )
        if run.retries:
            return Verdict(RunState.FAILED, f"{_sentence(end)} It was placed again {run.retries} times.", True)
    return Verdict(RunState.FAILED, _sentence(end))


def _sentence(end: Exit) -> str:
    text = end.message.strip() or end.cause.value.replace("_", " ")
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")
