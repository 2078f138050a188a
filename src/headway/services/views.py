"""Records as the wire shows them. Lists are made with a fixed number of queries, however long they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headway.rules.records import Attempt, Checkpoint, Run, Snapshot
from headway.services.context import Services, moment, moment_or_none, money
from headway.store.base import Transaction
from headway.wire.runs import CheckpointView, RunView


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
    return [
        run(
            ctx,
            r,
            project=projects[r.project_id],
            submitted_by=names[r.submitted_by],
            snapshot=snapshots.get(r.snapshot_id) if r.snapshot_id is not None else None,
            attempt=latest.get(r.id),
            amount=amounts.get(r.id, 0),
        )
        for r in found
    ]


def run(
    ctx: Services,
    run: Run,
    *,
    project: str,
    submitted_by: str,
    snapshot: Snapshot | None,
    attempt: Attempt | None = None,
    amount: int = 0,
) -> RunView:
    """amount: micros billed so far."""
    return RunView(
        id=run.id,
        project=project,
        owner=run.owner,
        owner_id=run.owner_id,
        name=run.name,
        state=run.state.value,
        reason=run.reason,
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
