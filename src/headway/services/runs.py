"""Runs: look, stop, pause, hold, release, retry, change."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from headway.errors import RefusedError, UsageError
from headway.protocol.exits import Cause
from headway.rules import jobs as rules
from headway.rules.access import Action, Caller
from headway.rules.nearest import advice
from headway.rules.records import Run
from headway.rules.scheduling import shape_of
from headway.rules.states import ENDED_RUNS, LIVE_RUNS, RunState
from headway.services import access, submissions, views
from headway.services.context import Services
from headway.store.base import Transaction
from headway.wire.runs import AttemptView, ChangeRequest, CheckpointView, RunView, StopRequest

#: what `state` may name besides one state
GROUPS: dict[str, frozenset[RunState]] = {
    "live": LIVE_RUNS,
    "ended": ENDED_RUNS,
    "open": frozenset(RunState) - ENDED_RUNS,
}
_WAITING = (RunState.HELD, RunState.QUEUED)


def states_of(word: str) -> frozenset[RunState]:
    """The states that a filter names. Raises UsageError naming the nearest."""
    if word in GROUPS:
        return GROUPS[word]
    try:
        return frozenset({RunState(word)})
    except ValueError:
        known = [*(s.value for s in RunState), *GROUPS]
        raise UsageError(f"state: {word!r} is no state of a run.", advice(word, known)) from None


def listing(
    ctx: Services,
    caller: Caller,
    project: str,
    *,
    state: str | None = None,
    owner: str | None = None,
    owner_id: int | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[RunView]:
    """Newest first. state: a state, or live, ended or open; before: only ids smaller than this."""
    states = states_of(state) if state else None
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.VIEW)
        found = tx.runs.listing(
            project_id=home.id, owner=owner, owner_id=owner_id, states=states, before=before, limit=limit
        )
        return views.runs(ctx, tx, found)


def get(ctx: Services, caller: Caller, run_id: int) -> RunView:
    with ctx.store.read() as tx:
        run, _ = access.run(tx, caller, run_id, Action.VIEW)
        return views.runs(ctx, tx, [run])[0]


def checkpoints(ctx: Services, caller: Caller, run_id: int) -> list[CheckpointView]:
    """By step, epoch, then appearance."""
    with ctx.store.read() as tx:
        run, _ = access.run(tx, caller, run_id, Action.VIEW)
        return [views.checkpoint(ctx, c) for c in tx.products.checkpoints(run.id)]


def stop(ctx: Services, caller: Caller, run_id: int, request: StopRequest) -> RunView:
    """Asks the run to end; one that waits ends here and now. One that has ended stays as it is."""
    with ctx.store.begin() as tx:
        run, _ = access.run(tx, caller, run_id, Action.WORK)
        ask_to_stop(ctx, tx, run, request.reason or f"{caller.name} stopped it.", grace=request.grace)
        view = _again(ctx, tx, run_id)
    ctx.hint("run", run_id)
    return view


def ask_to_stop(ctx: Services, tx: Transaction, run: Run, reason: str, *, grace: float | None = None) -> None:
    """The same inside a transaction, for owners that stop their runs. grace: seconds; None: the run's own."""
    now = ctx.clock()
    asked: dict[str, Any] = {"stop_at": now, "stop_reason": reason}
    ended: dict[str, Any] = {
        **asked, "state": RunState.STOPPED, "reason": reason, "ended_at": now, "cause": Cause.STOPPED
    }  # fmt: skip
    if tx.runs.change_if(run.id, _WAITING, **ended):
        return
    if grace is not None:
        asked["grace"] = grace
        asked["work"] = {"grace": run.grace, **run.work}
    # a second request may shorten the grace period; the first one's time and words stand
    if run.stop_at is not None:
        asked = {k: v for k, v in asked.items() if k in ("grace", "work")}
    if asked:
        tx.runs.change_if(run.id, LIVE_RUNS, **asked)


def hold(ctx: Services, caller: Caller, run_id: int) -> RunView:
    """Keeps a run that waits from being placed. Raises RefusedError when it does not wait."""
    held = {"state": RunState.HELD, "reason": f"{caller.name} holds it."}
    return _move(ctx, caller, run_id, (RunState.QUEUED,), RunState.HELD, held, "held")


def pause(ctx: Services, caller: Caller, run_id: int) -> RunView:
    """Has a running job save and leave its place, held until it is resumed; one that waits is held at once.

    Raises RefusedError when it has ended, or was asked to stop.
    """
    with ctx.store.begin() as tx:
        run = _own(tx, caller, run_id, "paused")
        held = {"state": RunState.HELD, "reason": f"{caller.name} paused it."}
        if not tx.runs.change_if(run_id, (RunState.QUEUED,), **held) and run.state is not RunState.HELD:
            if run.stop_at is not None or run.state in ENDED_RUNS:
                state = "asked to stop" if run.state in LIVE_RUNS else run.state.value
                raise RefusedError(f"Run {run_id} is {state} and cannot be paused.", "`headway ls` shows states.")
            if run.pause_at is None:
                tx.runs.change_if(run_id, LIVE_RUNS, pause_at=ctx.clock(), reason=f"Paused by {caller.name}.")
        view = _again(ctx, tx, run_id)
    ctx.hint("run", run_id)
    return view


def release(ctx: Services, caller: Caller, run_id: int) -> RunView:
    """Lets a held or paused run be placed. Raises RefusedError when it is not held."""
    with ctx.store.read() as tx:
        run, _ = access.run(tx, caller, run_id, Action.WORK)
        if run.pause_at is not None and run.state in LIVE_RUNS:
            raise RefusedError(
                f"Run {run_id} is still leaving its place.", "Resume it once it is held.", code="still_pausing"
            )
    queued = {"state": RunState.QUEUED, "reason": "", "pause_at": None, "queued_at": ctx.clock()}
    return _move(ctx, caller, run_id, (RunState.HELD,), RunState.QUEUED, queued, "released")


def retry(ctx: Services, caller: Caller, run_id: int) -> RunView:
    """Places a job that failed or was stopped once more; it resumes from its newest checkpoint. Raises RefusedError."""
    with ctx.store.begin() as tx:
        run = _own(tx, caller, run_id, "retried")
        fresh = replace(run, avoid=[])
        anew: dict[str, Any] = {
            "state": RunState.QUEUED, "reason": "", "losses": 0, "ended_at": None, "exit_code": None, "cause": None,
            "stop_at": None, "stop_reason": "", "pause_at": None, "queued_at": ctx.clock(), "avoid": [],
            "asked_at": ctx.clock(),
            "shape": shape_of(fresh), "blocked": False,
        }  # fmt: skip
        if run.state in (RunState.FAILED, RunState.STOPPED):
            home = tx.people.project_by_id(run.project_id)
            anew["blocked"] = submissions.check_after(tx, home, run.after, run.id)[1]
            if "grace" in run.work:
                # a stop in a hurry was meant for that stop alone
                anew["grace"] = run.work["grace"]
                anew["work"] = {k: v for k, v in run.work.items() if k != "grace"}
        view = _changed(ctx, tx, run, (RunState.FAILED, RunState.STOPPED), RunState.QUEUED, anew, "retried")
    ctx.hint("run", run_id)
    return view


def change(ctx: Services, caller: Caller, run_id: int, request: ChangeRequest) -> RunView:
    """Changes what was given of a job that waits or runs; the runner of one that runs is told within seconds.

    Raises RefusedError when it has ended (its name and tags still change), UsageError for maxima that contradict.
    """
    given = request.model_fields_set
    if not given:
        raise UsageError("Nothing is to be changed.", f"Give one of {', '.join(ChangeRequest.model_fields)}.")
    with ctx.store.begin() as tx:
        run = _own(tx, caller, run_id, "changed")
        if run.state in ENDED_RUNS and (late := sorted(given - {"name", "tags"})):
            raise RefusedError(
                f"Run {run_id} is {run.state.value}; its {late[0]} can no longer change.",
                f"`headway job clone {run_id}` submits it anew with changes.",
            )
        if "after" in given and run.state not in _WAITING:
            raise RefusedError(f"Run {run_id} is {run.state.value}; only one that waits comes after others.", "")
        tx.runs.change(run_id, **_changes(tx, run, request, given))
        view = _again(ctx, tx, run_id)
    ctx.hint("run", run_id)
    return view


def _changes(tx: Transaction, run: Run, request: ChangeRequest, given: Collection[str]) -> dict[str, Any]:
    plain = ("priority", "max_duration", "max_wait", "grace", "retries", "name", "tags")
    found: dict[str, Any] = {name: getattr(request, name) for name in plain if name in given}
    asked = request.limits.model_dump(exclude_unset=True) if "limits" in given else {}
    if asked:
        found["limits"] = submissions.limits(rules.merged({"limits": run.limits}, {"limits": asked})["limits"])
    if {"max_duration", "max_wait", "limits"} & set(given):
        rules.check_durations(
            found.get("max_duration", run.max_duration), found.get("max_wait", run.max_wait), asked or {}
        )
    if "retry_rules" in given:
        rules.check_retry_rules(request.retry_rules)
        found["retry_rules"] = {cause: rule.model_dump() for cause, rule in request.retry_rules.items()}
    if "tags" in given:
        rules.check_tags(request.tags)
    if "after" in given:
        home = tx.people.project_by_id(run.project_id)
        found["after"], found["blocked"] = submissions.check_after(tx, home, request.after, run.id)
    if "max_duration" in given:
        found["shape"] = shape_of(replace(run, max_duration=request.max_duration))
    return found


def attempts(ctx: Services, caller: Caller, run_id: int) -> list[AttemptView]:
    """First one first."""
    with ctx.store.read() as tx:
        run, _ = access.run(tx, caller, run_id, Action.VIEW)
        entries = tx.ledger.listing(run.project_id, run_id=run.id)
        amounts = {e.attempt_id: e.amount for e in entries}
        return [views.attempt(a, amounts.get(a.id, 0)) for a in tx.runs.attempts(run.id)]


def _own(tx: Transaction, caller: Caller, run_id: int, done: str) -> Run:
    """The run, when it is a job. Raises RefusedError when it belongs to something else."""
    run, _ = access.run(tx, caller, run_id, Action.WORK)
    if run.owner != "job":
        raise RefusedError(
            f"Run {run_id} belongs to {run.owner} {run.owner_id} and cannot be {done} by itself.",
            f"Act on the {run.owner} instead.",
        )
    return run


def _move(
    ctx: Services,
    caller: Caller,
    run_id: int,
    states: Collection[RunState],
    target: RunState,
    changes: dict[str, Any],
    done: str,
) -> RunView:
    with ctx.store.begin() as tx:
        view = _changed(ctx, tx, _own(tx, caller, run_id, done), states, target, changes, done)
    ctx.hint("run", run_id)
    return view


def _changed(
    ctx: Services,
    tx: Transaction,
    run: Run,
    states: Collection[RunState],
    target: RunState,
    changes: dict[str, Any],
    done: str,
) -> RunView:
    # asking twice for the same (an answer was lost) is no fault
    if not tx.runs.change_if(run.id, states, **changes) and run.state != target:
        wanted = " or ".join(s.value for s in states)
        raise RefusedError(
            f"Run {run.id} is {run.state.value}; only a run that is {wanted} can be {done}.",
            "`headway ls` shows states.",
        )
    return _again(ctx, tx, run.id)


def _again(ctx: Services, tx: Transaction, run_id: int) -> RunView:
    run = tx.runs.get(run_id)
    assert run is not None
    return views.runs(ctx, tx, [run])[0]
