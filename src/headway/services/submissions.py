"""From a job request to the columns of its run, every contradiction said before anything is kept; and back again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from headway.errors import NotFoundError, RefusedError, UsageError
from headway.rules import jobs as rules
from headway.rules.access import Action, Caller
from headway.rules.datasets import Mode, Reference, parse_reference
from headway.rules.expressions import bounded
from headway.rules.records import Project, Run, Snapshot, Spec
from headway.rules.scheduling import shape
from headway.rules.states import Billing, RunState
from headway.services import access, requests, snapshots
from headway.services.context import MICROS, Services
from headway.store.base import Transaction
from headway.wire.runs import JobRequest

OWNER = "job"
#: seconds of silence without work after which a run hangs, unless its limits say otherwise; 0 there: never
HANG_SECONDS = 1800.0
_BAD_AFTER = (RunState.FAILED, RunState.STOPPED)


def check(ctx: Services, caller: Caller, project: str, request: JobRequest) -> None:
    """All that can be said without a transaction that writes. Raises UsageError, NotFoundError, ForbiddenError."""
    requests.check_words(request.command, request.environment)
    metric_patterns(request.metric_patterns)
    rules.check_durations(request.max_duration, request.max_wait, request.limits.model_dump())
    spot(request)
    rules.check_retry_rules(request.retry_rules)
    rules.check_tags(request.tags)
    used = [parse_reference(d) for d in request.datasets]
    channels = {d.channel or d.name for d in used}
    rules.check_patterns(request.checkpoints, channels)
    if rules.entry_of(request.command) is None:
        return
    if request.snapshot is None:
        rules.check_entry(request.command, None)
        return
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.WORK)
        code = requests.snapshot(tx, home, request.snapshot)
    files = snapshots.files(ctx, code)
    if files is not None:
        rules.check_entry(request.command, files)


def spot(request: JobRequest) -> dict[str, Any]:
    given = request.spot
    return rules.spot(
        request.billing,
        given.model_dump() if given is not None else None,
        given.model_fields_set if given is not None else (),
    )


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
        except (re.error, RecursionError, OverflowError) as error:
            raise UsageError(
                f"metric_patterns: {lower['regex']!r} is no regular expression: {error}.", "Correct it."
            ) from error
        bounded(lower["regex"], "metric_patterns")
        if groups != 1:
            raise UsageError(
                f"metric_patterns: {lower['regex']!r} has {groups} groups.", "Put brackets around the number alone."
            )
        found.append(lower)
    return found


# -- into the record


def values(
    ctx: Services, tx: Transaction, caller: Caller, home: Project, request: JobRequest, *, avoid: Sequence[str] = ()
) -> tuple[dict[str, Any], Snapshot | None]:
    """The columns of a new run but its id, and its code. The request has passed `check`. avoid: nodes."""
    spec, least = _resources(tx, home, request)
    code = requests.snapshot(tx, home, request.snapshot) if request.snapshot else None
    after, blocked = check_after(tx, home, request.after)
    now = ctx.clock()
    bid = spot(request)
    found: dict[str, Any] = {
        "project_id": home.id,
        "owner": OWNER,
        "owner_id": None,
        "name": request.name,
        "state": RunState.HELD if request.held else RunState.QUEUED,
        "reason": "Held: release it to have it placed." if request.held else "",
        "command": request.command,
        "environment": request.environment,
        "parameters": request.parameters,
        "spec": spec.name,
        "cpus": spec.cpus,
        "memory_bytes": spec.memory_bytes,
        "accelerators": spec.accelerators,
        "accelerator_kind": spec.accelerator_kind,
        "processes": request.processes,
        "priority": request.priority,
        "max_duration": request.max_duration,
        "grace": request.grace,
        "retries": request.retries,
        "attempts": 0,
        "losses": 0,
        "snapshot_id": code.id if code else None,
        "datasets": requests.datasets(ctx, tx, home, request.datasets),
        "work": _work(request),
        "key": request.key,
        "submitted_by": caller.user_id,
        "created_at": now,
        "started_at": None,
        "ended_at": None,
        "exit_code": None,
        "cause": None,
        "stop_at": None,
        "stop_reason": "",
        "nodes": request.nodes,
        "least": least,
        "billing": Billing(request.billing),
        "spot": bid,
        "max_wait": request.max_wait,
        "after": after,
        "blocked": blocked,
        "position": now,
        "queued_at": now,
        "avoid": list(avoid),
        "limits": limits(request.limits.model_dump(exclude_none=True)),
        "retry_rules": {cause: rule.model_dump() for cause, rule in request.retry_rules.items()},
        "tags": request.tags,
        "template": request.template,
        "reclaims": 0,
        "pause_at": None,
    }
    found["shape"] = shape(
        nodes=request.nodes,
        least=least,
        cpus=spec.cpus,
        memory_bytes=spec.memory_bytes,
        accelerators=spec.accelerators,
        accelerator_kind=spec.accelerator_kind,
        owner=OWNER,
        billing=request.billing,
        spot=bid,
        avoid=list(avoid),
        max_duration=request.max_duration,
    )
    return found, code


def limits(given: Mapping[str, Any]) -> dict[str, Any]:
    """`Run.limits`: what was given, and the usual limit of a hang."""
    found = {k: v for k, v in given.items() if v is not None and v is not False}
    found.setdefault("hang", HANG_SECONDS)
    return found


def _work(request: JobRequest) -> dict[str, Any]:
    return {
        "checkpoints": request.checkpoints,
        "metric_patterns": metric_patterns(request.metric_patterns),
        "retention": request.retention.model_dump(exclude_none=True),
        "compat": request.compat,
        "view": request.view,
    }


def _resources(tx: Transaction, home: Project, request: JobRequest) -> tuple[Spec, dict[str, Any]]:
    """(upper ends, lower ends)."""
    asked = requests.asked(
        tx,
        request.spec,
        cpus=request.cpus,
        memory_bytes=request.memory_bytes,
        accelerators=request.accelerators,
        accelerator_kind=request.accelerator_kind,
    )
    most = {
        "nodes": request.nodes,
        "cpus": asked.cpus,
        "memory_bytes": asked.memory_bytes,
        "accelerators": asked.accelerators,
    }
    least = rules.least(request.least.model_dump(), most)
    requests.require_room(tx, asked, count=request.nodes, least=least)
    _check_project_limits(home, {**most, **least})
    return asked, least


def _check_project_limits(home: Project, need: Mapping[str, Any]) -> None:
    """Raises RefusedError when the project's limits could never hold the run, so that it would wait for ever."""
    nodes = need["nodes"]
    wanted = {"nodes": nodes, "runs": 1, **{k: need[k] * nodes for k in ("cpus", "memory_bytes", "accelerators")}}
    for name, amount in wanted.items():
        limit = home.limits.get(name)
        if limit is not None and amount > limit:
            raise RefusedError(
                f"It asks for {amount:g} {name}; project {home.name} may use {limit:g}.",
                "Ask for less, or ask an admin for a higher limit.",
                code="over_limit",
            )


def check_after(tx: Transaction, home: Project, after: Sequence[int], job: int | None = None) -> tuple[list[int], bool]:
    """(ids, each once; whether one of them has not succeeded yet). job: that waits for them, unless it is new.

    Raises NotFoundError (no such job), RefusedError (one that failed, or a cycle), UsageError (itself).
    """
    wanted = list(dict.fromkeys(after))
    if not wanted:
        return [], False
    found = {r.id: r for r in tx.runs.many(wanted) if r.project_id == home.id and r.owner == OWNER}
    if job is not None:
        rules.check_after(job, wanted, _depends(tx, found))
    for number in wanted:
        first = found.get(number)
        if first is None:
            raise NotFoundError(f"after: project {home.name} has no job {number}.", "`headway job ls` lists jobs.")
        if first.state in _BAD_AFTER:
            raise RefusedError(
                f"after: job {number} {first.state.value}; a job after it would never start.",
                f"Run it again with `headway job retry {number}`, or leave it out.",
                code="dependency_failed",
            )
    return wanted, any(r.state is not RunState.SUCCEEDED for r in found.values())


def _depends(tx: Transaction, found: Mapping[int, Run]) -> dict[int, list[int]]:
    """What each of the jobs waits for, and those in turn."""
    depends = {number: run.after for number, run in found.items()}
    while missing := {n for after in depends.values() for n in after} - set(depends):
        more = {r.id: r.after for r in tx.runs.many(missing)}
        depends.update({n: more.get(n, []) for n in missing})
    return depends


# -- back again


def request_of(tx: Transaction, run: Run) -> JobRequest:
    """The request that makes this run once more: what its spec says is left to the spec."""
    code = tx.runs.snapshot_by_id(run.snapshot_id) if run.snapshot_id is not None else None
    spec = tx.runs.spec(run.spec)
    own = {
        name: getattr(run, name)
        for name in ("cpus", "memory_bytes", "accelerators", "accelerator_kind")
        if spec is None or getattr(run, name) != getattr(spec, name)
    }
    price = run.spot.get("max_price")
    return JobRequest.model_validate(
        {
            "command": run.command,
            "name": run.name,
            "environment": run.environment,
            "parameters": run.parameters,
            "spec": run.spec,
            **own,
            "processes": run.processes,
            "nodes": run.nodes,
            "least": run.least,
            "priority": run.priority,
            "billing": run.billing.value,
            "spot": {**run.spot, "max_price": price / MICROS if price is not None else None} if run.spot else None,
            "max_duration": run.max_duration,
            "max_wait": run.max_wait,
            "grace": run.work.get("grace", run.grace),
            "retries": run.retries,
            "retry_rules": run.retry_rules,
            "limits": {k: v for k, v in run.limits.items() if (k, v) != ("hang", HANG_SECONDS)},
            "snapshot": code.digest if code else None,
            "datasets": [reference(d) for d in run.datasets],
            "checkpoints": run.work.get("checkpoints") or [],
            "retention": run.work.get("retention") or {},
            "metric_patterns": run.work.get("metric_patterns") or [],
            "after": run.after,
            "tags": run.tags,
            "compat": run.work.get("compat"),
            "view": run.work.get("view"),
            "template": run.template,
        }
    )


def reference(use: Mapping[str, Any]) -> str:
    """As it was asked for, with its version: `digits@1`, `train=digits@1:stream`."""
    mode = Mode(use.get("mode") or Mode.CACHE)
    return str(Reference(use["dataset"], int(use["version"]), str(use.get("channel") or ""), mode))
