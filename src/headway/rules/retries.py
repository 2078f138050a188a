"""What follows the end of an attempt: one rule a cause, which a run may replace by its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from headway.protocol.exits import Cause, Exit
from headway.rules.records import Attempt, Run
from headway.rules.states import RunState


class Action(str, Enum):
    #: the run has ended
    STOP = "stop"
    #: placed again, anywhere
    AGAIN = "again"
    #: placed again on other nodes, if there are others
    ELSEWHERE = "elsewhere"
    #: placed again as if nothing had been: it says nothing about the run, and counts for nothing
    RESUME = "resume"
    #: waits until somebody releases it
    HOLD = "hold"


@dataclass(frozen=True)
class Rule:
    action: Action
    #: how often at most for this cause; None: as often as the run's `retries` allow for all causes together
    times: int | None = None


#: closed, as the list of causes is
RULES: Mapping[Cause, Rule] = {
    Cause.DONE: Rule(Action.STOP),
    Cause.STOPPED: Rule(Action.STOP),
    # they say something about the run: it would end so again
    Cause.EXIT: Rule(Action.STOP),
    Cause.NOT_STARTED: Rule(Action.STOP),
    Cause.PREPARE_FAILED: Rule(Action.STOP),
    Cause.TIME_LIMIT: Rule(Action.STOP),
    Cause.OOM_KILL: Rule(Action.STOP),
    Cause.IDLE_OUTPUT: Rule(Action.STOP),
    Cause.NO_PROGRESS: Rule(Action.STOP),
    Cause.NAN_METRIC: Rule(Action.STOP),
    Cause.DISK_LIMIT: Rule(Action.STOP),
    Cause.WAIT_LIMIT: Rule(Action.STOP),
    Cause.DEPENDENCY: Rule(Action.STOP),
    # they say nothing against its code
    Cause.KILLED: Rule(Action.AGAIN),
    Cause.RUNNER_LOST: Rule(Action.AGAIN),
    Cause.FENCED: Rule(Action.AGAIN),
    # never the cause of a whole attempt; if it were, the first to fail is unknown
    Cause.PEER_FAILED: Rule(Action.AGAIN),
    # often a lost message between ranks; often not, so not for ever
    Cause.HANG: Rule(Action.AGAIN, times=3),
    Cause.NODE_LOST: Rule(Action.ELSEWHERE),
    Cause.RECLAIMED: Rule(Action.RESUME),
    Cause.PAUSED: Rule(Action.HOLD),
}

#: causes that say nothing against the run's code
LOSSES = frozenset(cause for cause, rule in RULES.items() if rule.action in (Action.AGAIN, Action.ELSEWHERE))


@dataclass(frozen=True)
class Verdict:
    state: RunState
    #: one sentence for people
    reason: str
    #: whether the end counts against `retries`
    loss: bool = False
    #: nodes that it is better not placed on again
    avoid: tuple[str, ...] = ()
    #: whether its place was reclaimed
    reclaimed: bool = False


def rule_of(run: Run, cause: Cause) -> Rule:
    """The run's own rule for `cause`, where it has one that can be carried out; else the usual one."""
    own = run.retry_rules.get(cause.value)
    if not isinstance(own, dict) or cause in (Cause.DONE, Cause.STOPPED, Cause.PAUSED):
        return RULES[cause]
    try:
        action = Action(own.get("action"))
    except ValueError:
        return RULES[cause]
    times = own.get("times")
    return Rule(action, int(times) if isinstance(times, (int, float)) else None)


def losses_by_cause(run: Run, attempts: Sequence[Attempt]) -> dict[Cause, int]:
    """How often each cause has made the run be placed again, since it was last retried by hand."""
    counted = [a.cause for a in sorted(attempts, key=lambda a: a.number) if a.cause and _counts(run, a.cause)]
    found: dict[Cause, int] = {}
    for cause in counted[-run.losses :] if run.losses > 0 else []:
        found[cause] = found.get(cause, 0) + 1
    return found


def _counts(run: Run, cause: Cause) -> bool:
    return rule_of(run, cause).action in (Action.AGAIN, Action.ELSEWHERE)


def after(run: Run, end: Exit, *, before: Mapping[Cause, int] | None = None, nodes: Sequence[str] = ()) -> Verdict:
    """The run's next state after an attempt ended with `end`.

    before: see `losses_by_cause`; None: all its losses were of other causes. nodes: where the end lies.
    """
    if end.cause is Cause.DONE:
        return Verdict(RunState.SUCCEEDED, "")
    if run.stop_at is not None or end.cause is Cause.STOPPED:
        return Verdict(RunState.STOPPED, run.stop_reason or sentence(end))
    rule = rule_of(run, end.cause)
    if rule.action is Action.STOP:
        return Verdict(RunState.FAILED, sentence(end))
    if rule.action is Action.HOLD or run.pause_at is not None:
        # whoever paused it does not want it to go on by itself, however it ended
        return Verdict(RunState.HELD, _held(end))
    reclaimed = end.cause is Cause.RECLAIMED
    if rule.action is Action.RESUME:
        return Verdict(RunState.QUEUED, f"{sentence(end)} It waits for another place.", reclaimed=reclaimed)
    done, allowed = _budget(run, end.cause, rule, before)
    if done >= allowed:
        how_often = f" It was placed again {done} {'time' if done == 1 else 'times'}." if done else ""
        return Verdict(RunState.FAILED, f"{sentence(end)}{how_often}", loss=bool(done))
    avoid = tuple(nodes) if rule.action is Action.ELSEWHERE else ()
    reason = f"{sentence(end)} It is placed again ({done + 1} of {allowed})."
    return Verdict(RunState.QUEUED, reason, True, avoid, reclaimed)


def _budget(run: Run, cause: Cause, rule: Rule, before: Mapping[Cause, int] | None) -> tuple[int, int]:
    """How often it was placed again already, and how often it may be: for this cause alone, or for all that count."""
    counts = before if before is not None else {}
    own = counts.get(cause, 0)
    if cause.value in run.retry_rules and rule.times is not None:
        return own, rule.times
    shared = run.losses if before is None else sum(n for c, n in counts.items() if c.value not in run.retry_rules)
    if rule.times is not None and rule.times - own < run.retries - shared:
        return own, rule.times
    return shared, run.retries


def _held(end: Exit) -> str:
    if end.cause is Cause.PAUSED:
        return f"{sentence(end).rstrip('.')}: resume it to go on."
    return f"{sentence(end)} It was being paused: resume it to go on."


def sentence(end: Exit) -> str:
    """Why it ended, for people."""
    text = end.message.strip() or end.cause.value.replace("_", " ")
    return text[0].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
