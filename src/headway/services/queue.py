"""The queue of a project: in which order what waits is placed, why it waits, and the order changed by hand."""

from __future__ import annotations

from headway.errors import RefusedError
from headway.rules.access import Action, Caller
from headway.rules.records import Run
from headway.rules.scheduling import Policy, effective_priority
from headway.rules.scheduling.turns import HIGHEST
from headway.rules.states import Billing, RunState
from headway.services import access, views
from headway.services.context import Services, moment
from headway.store.base import Transaction
from headway.wire.platform import MoveRequest, QueueEntry, QueueView
from headway.wire.runs import RunView

_POLICY = Policy()


def listing(ctx: Services, caller: Caller, project: str, *, limit: int = 100) -> QueueView:
    """The first `limit` of what waits, next first; then, within the limit, what comes after runs yet to succeed."""
    now = ctx.clock()
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.VIEW)
        heads = tx.runs.queue_heads(limit, project_id=home.id)
        found = sorted((run for runs, _ in heads for run in runs), key=lambda run: _turn(run, now))[:limit]
        blocked = tx.runs.blocked(home.id, limit - len(found)) if len(found) < limit else []
        waits = views.waiting(tx, [*found, *blocked])
        total = tx.runs.waiting(home.id)
    placed = [_entry(place, run, waits, now) for place, run in enumerate(found, 1)]
    return QueueView(total=total, entries=placed + [_entry(None, run, waits, now) for run in blocked])


def _turn(run: Run, now: float) -> tuple[float, ...]:
    """Its place among the runs of its own project, where fair share plays no part; see `rules.scheduling.turns`."""
    level, gained = effective_priority(run, now, _POLICY), (now - (run.queued_at or run.created_at))
    overdue = run.priority + gained // _POLICY.ageing_seconds > HIGHEST
    spot, late = (False, False) if overdue else (run.billing is Billing.SPOT, run.owner == "evaluation")
    return spot, -level, late, run.position, run.id


def _entry(place: int | None, run: Run, waits: dict[int, str], now: float) -> QueueEntry:
    return QueueEntry(
        place=place,
        run=run.id,
        owner=run.owner,
        name=run.name,
        priority=run.priority,
        effective_priority=effective_priority(run, now, _POLICY),
        billing=run.billing.value,
        queued_at=moment(run.queued_at or run.created_at),
        waits=waits.get(run.id) or "has not been looked at yet",
    )


def move(ctx: Services, caller: Caller, run_id: int, request: MoveRequest) -> RunView:
    """Changes a waiting run's place among those of its project and priority.

    Raises RefusedError when it, or the one it is to go before, does not wait, or when these differ in project or
    priority.
    """
    with ctx.store.begin() as tx:
        run, home = access.run(tx, caller, run_id, Action.WORK)
        _require_queued(run)
        if request.before is not None:
            position = tx.runs.position_before(_other(tx, caller, run, request.before, home.name))
        else:
            low, high = tx.runs.turns(run.project_id, run.priority) or (run.position, run.position)
            position = low - 1.0 if request.first else high + 1.0
        if request.before != run_id:
            tx.runs.change(run_id, position=position)
        fresh = tx.runs.get(run_id)
        assert fresh is not None
        view = views.runs(ctx, tx, [fresh])[0]
    ctx.hint("run", run_id)
    return view


def _require_queued(run: Run) -> None:
    if run.state is not RunState.QUEUED:
        raise RefusedError(
            f"Run {run.id} is {run.state.value} and has no place in the queue.", "`headway queue ls` shows what waits."
        )


def _other(tx: Transaction, caller: Caller, run: Run, before: int, project: str) -> Run:
    other, _ = access.run(tx, caller, before, Action.VIEW)
    _require_queued(other)
    if other.project_id != run.project_id:
        raise RefusedError(
            f"Run {before} is not of project {project}: only runs of one project are put in order by hand.",
            f"Between projects the weight decides: `headway project limits {project}`.",
        )
    if other.priority != run.priority:
        raise RefusedError(
            f"Run {run.id} has priority {run.priority} and run {before} has {other.priority}: only runs of one "
            "priority are put in order by hand.",
            f"Give it the same one: `headway job change {run.id} --priority {other.priority}`.",
        )
    return other
