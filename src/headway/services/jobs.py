"""Jobs: training runs and what they made."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from headway.errors import NotFoundError, UsageError
from headway.rules.access import Action, Caller
from headway.rules.records import Project, Run
from headway.rules.states import RunState
from headway.services import access, metrics, requests, views
from headway.services.context import Services
from headway.store.base import ConflictError, Transaction
from headway.wire.runs import JobRequest, JobView, RunView

OWNER = "job"


def submit(ctx: Services, caller: Caller, project: str, request: JobRequest) -> RunView:
    """Puts a run into the record; the controller places it. With a key that was used before, the first run.

    Raises UsageError, NotFoundError (dataset, snapshot), RefusedError (too_large), ForbiddenError.
    """
    requests.check_words(request.command, request.environment)
    patterns = metric_patterns(request.metric_patterns)
    try:
        with ctx.store.begin() as tx:
            home = access.project(tx, caller, project, Action.WORK)
            if request.key is not None and (first := tx.runs.by_key(home.id, request.key)):
                return views.runs(ctx, tx, [first])[0]
            view = _insert(ctx, tx, caller, home, request, patterns)
    except ConflictError:
        # somebody else submitted with the same key at the same moment
        assert request.key is not None
        with ctx.store.read() as tx:
            first = tx.runs.by_key(access.project(tx, caller, project, Action.WORK).id, request.key)
            assert first is not None
            return views.runs(ctx, tx, [first])[0]
    ctx.hint("run", view.id)
    return view


def _insert(
    ctx: Services, tx: Transaction, caller: Caller, home: Project, request: JobRequest, patterns: list[dict[str, str]]
) -> RunView:
    spec = requests.spec(
        tx,
        request.spec,
        cpus=request.cpus,
        memory_bytes=request.memory_bytes,
        accelerators=request.accelerators,
        accelerator_kind=request.accelerator_kind,
    )
    code = requests.snapshot(tx, home, request.snapshot) if request.snapshot else None
    run = tx.runs.add(
        project_id=home.id,
        owner=OWNER,
        owner_id=None,
        name=request.name,
        state=RunState.HELD if request.held else RunState.QUEUED,
        reason="Held: release it to have it placed." if request.held else "",
        command=request.command,
        environment=request.environment,
        parameters=request.parameters,
        spec=spec.name,
        cpus=spec.cpus,
        memory_bytes=spec.memory_bytes,
        accelerators=spec.accelerators,
        accelerator_kind=spec.accelerator_kind,
        processes=request.processes,
        priority=request.priority,
        max_duration=request.max_duration,
        grace=request.grace,
        retries=request.retries,
        attempts=0,
        losses=0,
        snapshot_id=code.id if code else None,
        datasets=requests.datasets(tx, home, request.datasets),
        work={"checkpoints": request.checkpoints, "metric_patterns": patterns},
        key=request.key,
        submitted_by=caller.user_id,
        created_at=ctx.clock(),
        started_at=None,
        ended_at=None,
        exit_code=None,
        cause=None,
        stop_at=None,
        stop_reason="",
    )
    return views.run(ctx, run, project=home.name, submitted_by=caller.name, snapshot=code)


def metric_patterns(given: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Patterns with keys in lower case, as the runner takes them.

    Raises UsageError for a missing or unknown key, or an expression that is wrong or has not exactly one group.
    """
    found = []
    for pattern in given:
        lower = {k.lower(): v for k, v in pattern.items()}
        if set(lower) != {"name", "regex"}:
            raise UsageError(f"metric_patterns: {dict(pattern)} is no pattern.", "Give each a Name and a Regex.")
        try:
            groups = re.compile(lower["regex"]).groups
        except re.error as error:
            raise UsageError(
                f"metric_patterns: {lower['regex']!r} is no regular expression: {error}.", "Correct it."
            ) from error
        if groups != 1:
            raise UsageError(
                f"metric_patterns: {lower['regex']!r} has {groups} groups.", "Put brackets around the number alone."
            )
        found.append(lower)
    return found


def listing(ctx: Services, caller: Caller, project: str, *, before: int | None, limit: int) -> list[JobView]:
    """Newest first."""
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.VIEW)
        found = tx.runs.listing(project_id=home.id, owner=OWNER, before=before, limit=limit)
        return _views(ctx, tx, found)


def get(ctx: Services, caller: Caller, project: str, job: int) -> JobView:
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.VIEW)
        return _views(ctx, tx, [find(tx, home, job)])[0]


def find(tx: Transaction, home: Project, job: int) -> Run:
    """Raises NotFoundError when the project has no such job."""
    found = tx.runs.get(job)
    if found is None or found.project_id != home.id or found.owner != OWNER:
        raise NotFoundError(f"Project {home.name} has no job {job}.", "`headway job ls` lists jobs.")
    return found


def _views(ctx: Services, tx: Transaction, found: Sequence[Run]) -> list[JobView]:
    counts = tx.products.checkpoint_counts([r.id for r in found])
    made: list[JobView] = []
    for run, view in zip(found, views.runs(ctx, tx, found), strict=True):
        fields: dict[str, Any] = dict(view)
        made.append(
            JobView(**fields, checkpoints=counts.get(run.id, 0), metrics=metrics.last_values(ctx, run.id, run.attempts))
        )
    return made
