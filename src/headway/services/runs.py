"""Runs: look, stop, hold, release, retry."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from headway.errors import RefusedError, UsageError
from headway.protocol.exits import Cause
from headway.rules.access import Action, Caller
from headway.rules.nearest import advice
from headway.rules.records import Run
from headway.rules.states import ENDED_RUNS, LIVE_RUNS, RunState
from headway.services import access, views
from headway.services.context import Services
from headway.store.base import Transaction
from headway.wire.runs import CheckpointView, RunView, StopRequest

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
    asked = {"stop_at": now, "stop_reason": reason}
    ended: dict[str, Any] = {
        **asked, "state": RunState.STOPPED, "reason": reason, "ended_at": now, "cause": Cause.STOPPED
    }  # fmt: skip
    if tx.runs.change_if(run.id, _WAITING, **ended):
        return
    if grace is not None:
        asked["grace"] = grace
    # a second request may shorten the grace period; the first one's time and words stand
    if run.stop_at is not None:
        asked = {k: v for k, v in asked.items() if k == "grace"}
    if asked:
        tx.runs.change_if(run.id, LIVE_RUNS, **asked)


def hold(ctx: Services, caller: Caller, run_id: int) -> RunView:
    """Keeps a run that waits from being placed. Raises RefusedError when it does not wait."""
    held = {"state": RunState.HELD, "reason": f"{caller.name} holds it."}
    return _move(ctx, caller, run_id, (RunState.QUEUED,), RunState.HELD, held, "held")


def release(ctx: Services, caller: Caller, run_id: int) -> RunView:
    """Lets a held run be placed. Raises RefusedError when it is not held."""
    queued = {"state": RunState.QUEUED, "reason": ""}
    return _move(ctx, caller, run_id, (RunState.HELD,), RunState.QUEUED, queued, "released")


def retry(ctx: Services, caller: Caller, run_id: int) -> RunView:
    """Places a job that failed or was stopped once more; it resumes from its newest checkpoint. Raises RefusedError."""
    anew: dict[str, Any] = {
        "state": RunState.QUEUED, "reason": "", "losses": 0, "ended_at": None, "exit_code": None, "cause": None,
        "stop_at": None, "stop_reason": "",
    }  # fmt: skip
    return _move(ctx, caller, run_id, (RunState.FAILED, RunState.STOPPED), RunState.QUEUED, anew, "retried")


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
        run, _ = access.run(tx, caller, run_id, Action.WORK)
        if run.owner != "job":
            raise RefusedError(
                f"Run {run_id} belongs to {run.owner} {run.owner_id} and cannot be {done} by itself.",
                f"Act on the {run.owner} instead.",
            )
        # asking twice for the same (an answer was lost) is no fault
        if not tx.runs.change_if(run_id, states, **changes) and run.state != target:
            wanted = " or ".join(s.value for s in states)
            raise RefusedError(
                f"Run {run_id} is {run.state.value}; only a run that is {wanted} can be {done}.",
                "`headway ls` shows states.",
            )
        view = _again(ctx, tx, run_id)
    ctx.hint("run", run_id)
    return view


def _again(ctx: Services, tx: Transaction, run_id: int) -> RunView:
    run = tx.runs.get(run_id)
    assert run is not None
    return views.runs(ctx, tx, [run])[0]
