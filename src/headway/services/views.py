"""Records as the wire shows them. Lists are made with a fixed number of queries, however long they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headway.diagnosis import explain
from headway.protocol.causes import Cause
from headway.rules.records import Attempt, Checkpoint, Run, Snapshot
from headway.rules.states import RunState
from headway.services.context import Services, moment, moment_or_none, money
from headway.store.base import Transaction
from headway.wire.runs import AttemptView, CheckpointView, RunView


def runs(ctx: Services, tx: Transaction, found: Sequence[Run]) -> list[RunView]:
    """Views of runs of any projects, in the order given."""
    if not found:
        return []
    ids = [r.id for r in found]
    projects = {p: tx.people.project_by_id(p).name for p in {r.project_id for r in found}}
    names = tx.people.names({r.submitted_by for r in found})
    latest = tx.runs.latest_attempts(ids)
    amounts = tx.ledger.amounts(ids)
    snapshots = tx.runs.snapshots_by_id({r.snapshot_id for r in found if r.snapshot_id is not None})
    waits = waiting(tx, found)
    return [
        run(
            ctx,
            r,
            project=projects[r.project_id],
            submitted_by=names[r.submitted_by],
            snapshot=snapshots.get(r.snapshot_id) if r.snapshot_id is not None else None,
            attempt=latest.get(r.id),
            amount=amounts.get(r.id, 0),
            waits=waits.get(r.id, ""),
        )
        for r in found
    ]


def waiting(tx: Transaction, found: Sequence[Run]) -> dict[int, str]:
    """Why each of those that wait does: one sentence. The scheduler writes that of the first of each kind alone."""
    queued = [r for r in found if r.state is RunState.QUEUED]
    ahead = tx.runs.ahead([r.id for r in queued if not r.blocked and not r.reason])
    firsts = {r.id: r for r in tx.runs.many({n for r in queued if r.blocked for n in r.after})}
    said = {r.id: r.reason for r in found if r.state is RunState.HELD}
    for run in queued:
        if run.blocked:
            open_ = [firsts[n] for n in run.after if n in firsts and firsts[n].state is not RunState.SUCCEEDED]
            jobs = " and ".join(f"job {r.id} ({r.state.value})" for r in open_[:3])
            said[run.id] = f"waits for {jobs or 'other jobs'} to succeed"
        elif run.reason:
            said[run.id] = run.reason
        else:
            # of the first of its kind the scheduler will say it
            first = ahead.get(run.id, run.id)
            said[run.id] = f"waits behind {'job' if run.owner == 'job' else 'run'} {first}" if first != run.id else ""
    return said


def run(
    ctx: Services,
    run: Run,
    *,
    project: str,
    submitted_by: str,
    snapshot: Snapshot | None,
    attempt: Attempt | None = None,
    amount: int = 0,
    waits: str = "",
) -> RunView:
    """amount: micros billed so far; waits: see `waiting`."""
    return RunView(
        id=run.id,
        project=project,
        owner=run.owner,
        owner_id=run.owner_id,
        name=run.name,
        state=run.state.value,
        reason=waits or run.reason,
        command=run.command,
        parameters=run.parameters,
        spec=run.spec,
        cpus=run.cpus,
        memory_bytes=run.memory_bytes,
        accelerators=run.accelerators,
        processes=run.processes,
        priority=run.priority,
        max_duration=run.max_duration,
        grace=run.grace,
        attempts=run.attempts,
        placement=attempt.placement if attempt else [],
        datasets=[f"{d['dataset']}@{d['version']}" for d in run.datasets],
        snapshot=snapshot.digest if snapshot else None,
        commit=snapshot.commit if snapshot else None,
        dirty=snapshot.dirty if snapshot else None,
        submitted_by=submitted_by,
        created_at=moment(run.created_at),
        started_at=moment_or_none(run.started_at),
        ended_at=moment_or_none(run.ended_at),
        exit_code=run.exit_code,
        cause=run.cause.value if run.cause else None,
        cost=money(amount),
        output_path=str(output_path(ctx, project, run.id)),
        attempt=attempt.id if attempt else None,
        nodes=run.nodes,
        least=run.least,
        accelerator_kind=run.accelerator_kind,
        environment=run.environment,
        billing=run.billing.value,
        spot=_spot(run),
        max_wait=run.max_wait,
        retries=run.retries,
        retry_rules=run.retry_rules,
        limits=run.limits,
        checkpoint_patterns=run.work.get("checkpoints") or [],
        retention=run.work.get("retention") or {},
        compat=run.work.get("compat"),
        after=run.after,
        blocked=run.blocked,
        tags=run.tags,
        template=run.template,
        reclaims=run.reclaims,
        queued_at=moment_or_none(run.queued_at or None),
        pause_at=moment_or_none(run.pause_at),
        waits=waits,
        remedy=remedy(run.id, run.cause) if run.state is RunState.FAILED else "",
    )


def _spot(run: Run) -> dict[str, Any]:
    price = run.spot.get("max_price")
    return {**run.spot, "max_price": money(price)} if price is not None else run.spot


def remedy(run_id: int, cause: Cause | None) -> str:
    """What to do about an end with this cause."""
    return explain(cause).remedy.replace("RUN", str(run_id)) if cause is not None else ""


def attempt(found: Attempt, amount: int) -> AttemptView:
    """amount: micros."""
    finding = explain(found.cause, found.message) if found.cause is not None else None
    return AttemptView(
        id=found.id,
        number=found.number,
        state=found.state.value,
        nodes=[str(p["node"]) for p in found.placement],
        placement=found.placement,
        created_at=moment(found.created_at),
        started_at=moment_or_none(found.started_at),
        launched_at=moment_or_none(found.launched_at),
        ended_at=moment_or_none(found.ended_at),
        exit_code=found.exit_code,
        signal=found.signal,
        cause=found.cause.value if found.cause else None,
        message=finding.sentence if finding else found.message,
        remedy=finding.remedy.replace("RUN", str(found.run_id)) if finding else "",
        reclaim_at=moment_or_none(found.reclaim_at),
        reclaim_reason=found.reclaim_reason,
        cost=money(amount),
    )


def output_path(ctx: Services, project: str, run_id: int) -> Path:
    """The run's OUTPUT_PATH, the same over all its attempts."""
    return ctx.project_folder(project) / "jobs" / str(run_id) / "output"


def checkpoint(ctx: Services, found: Checkpoint) -> CheckpointView:
    return CheckpointView(
        id=found.id,
        name=found.name,
        path=str(ctx.root / found.path) if found.path else "",
        step=found.step,
        epoch=found.epoch,
        metrics=found.metrics,
        bytes=found.bytes,
        sha256=found.sha256,
        format=found.format,
        valid=found.valid,
        reason=found.reason,
        created_at=moment(found.created_at),
        files=found.files,
        save_seconds=found.save_seconds,
        blocked_seconds=found.blocked_seconds,
        removed_at=moment_or_none(found.removed_at),
    )
