"""Jobs: training runs and what they made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from headway.errors import NotFoundError, RefusedError, UsageError
from headway.rules import jobs as rules
from headway.rules.access import Action, Caller
from headway.rules.nearest import unknown
from headway.rules.records import Project, Run
from headway.services import access, metrics, requests, submissions, views
from headway.services.context import Services
from headway.services.runs import states_of
from headway.services.submissions import OWNER
from headway.store.base import ConflictError, Transaction
from headway.wire.base import keys_at
from headway.wire.runs import CloneRequest, JobRequest, JobView, RunView

#: of each node; a spec has them all
_AMOUNTS = ("cpus", "memory_bytes", "accelerators", "accelerator_kind")


def submit(ctx: Services, caller: Caller, project: str, request: JobRequest) -> RunView:
    """Puts a run into the record; the controller places it. With a key that was used before, the first run.

    Raises UsageError, NotFoundError (dataset, snapshot), RefusedError (too_large), ForbiddenError.
    """
    submissions.check(ctx, caller, project, request)
    try:
        with ctx.store.begin() as tx:
            home = access.project(tx, caller, project, Action.WORK)
            if request.key is not None and (first := tx.runs.by_key(home.id, request.key)):
                return views.runs(ctx, tx, [first])[0]
            values, code = submissions.values(ctx, tx, caller, home, request)
            requests.hold(tx, values["datasets"])
            run = tx.runs.add(**values)
            view = views.run(ctx, run, project=home.name, submitted_by=caller.name, snapshot=code, waits=run.reason)
    except ConflictError:
        # somebody else submitted with the same key at the same moment
        assert request.key is not None
        with ctx.store.read() as tx:
            first = tx.runs.by_key(access.project(tx, caller, project, Action.WORK).id, request.key)
            assert first is not None
            return views.runs(ctx, tx, [first])[0]
    ctx.hint("run", view.id)
    return view


def clone(ctx: Services, caller: Caller, run_id: int, request: CloneRequest) -> RunView:
    """A new job with the request of another one, some of it changed. Raises as `submit` does."""
    project, made = cloned(ctx, caller, run_id, request)
    return submit(ctx, caller, project, made)


def cloned(ctx: Services, caller: Caller, run_id: int, request: CloneRequest) -> tuple[str, JobRequest]:
    """(project, the request that a clone submits). Raises UsageError, NotFoundError, RefusedError."""
    with ctx.store.read() as tx:
        run, home = access.run(tx, caller, run_id, Action.WORK)
        if run.owner != OWNER:
            raise RefusedError(
                f"Run {run_id} belongs to {run.owner} {run.owner_id} and cannot be cloned.", "Clone a job."
            )
        base = submissions.request_of(tx, run)
    changes, before = request.job, base.model_dump(exclude_unset=True)
    if "spec" in changes:
        # another spec brings its own amounts
        before = {k: v for k, v in before.items() if k not in _AMOUNTS}
        before["least"] = {k: v for k, v in before["least"].items() if k == "nodes"}
    # an amount that is given anew is no longer the upper end of an old range
    before["least"] = {k: v for k, v in before["least"].items() if k not in changes}
    if changes.get("billing", "spot") != "spot":
        before["spot"] = None
    fields = rules.merged(before, changes)
    if "command" not in changes and isinstance(changes.get("parameters"), dict):
        fields["command"] = rules.with_parameters(base.command, base.parameters, changes["parameters"])
    return home.name, validated({**fields, "key": request.key}, f"clone of job {run_id}")


def validated(fields: dict[str, Any], where: str) -> JobRequest:
    """Raises UsageError, with the nearest key for one that no job has."""
    try:
        return JobRequest.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            parents = [str(part) for part in first["loc"][:-1]]
            known = [".".join([*parents, key]) for key in keys_at(JobRequest, parents)]
            raise unknown("key", path, known, where) from None
        raise UsageError(f"{where}: {path}: {first['msg']} (got {first.get('input')!r}).", "Correct it.") from None


def listing(
    ctx: Services,
    caller: Caller,
    project: str,
    *,
    before: int | None = None,
    limit: int = 100,
    state: str | None = None,
    tags: Sequence[str] = (),
    name: str | None = None,
) -> list[JobView]:
    """Newest first. state: one, or live, ended, open; tags: "key=value", or "key" with any value, all of them;
    name: a part of it.
    """
    states = states_of(state) if state else None
    wanted = dict(tag.partition("=")[::2] for tag in tags)
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.VIEW)
        found = tx.runs.listing(
            project_id=home.id, owner=OWNER, states=states, before=before, limit=limit, name=name, tags=wanted
        )
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
