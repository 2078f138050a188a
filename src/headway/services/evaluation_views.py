"""Evaluations and cells as the wire has them, and all of one for its report."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from headway.rules import cells as cell_rules
from headway.rules.access import Action, Caller
from headway.rules.records import Cell, Checkpoint, Evaluation
from headway.rules.states import CellState, EvaluationState
from headway.services import access, metrics
from headway.services.context import Services, moment, moment_or_none, money
from headway.storage import indexes
from headway.storage.full import TargetFullError
from headway.store.base import Transaction
from headway.wire.evaluations import (
    CellView,
    ColumnView,
    Counts,
    EvaluationReport,
    EvaluationView,
    Provenance,
    RowView,
)

_log = logging.getLogger(__name__)
OWNER = "evaluation"
MOST_RUNS = 10_000
#: points of a training curve in a report
CURVE_POINTS = 500


def evaluation(ctx: Services, tx: Transaction, found: Evaluation, project: str) -> EvaluationView:
    totals = tx.evaluations.totals(found.id)
    workers = [r.id for r in tx.runs.listing(owner=OWNER, owner_id=found.id, limit=MOST_RUNS)]
    columns = len(found.plan.get("cases", ())) * int(found.plan.get("repeats", 1))
    count = sum(totals.counts.values())
    return EvaluationView(
        id=found.id,
        project=project,
        name=found.name,
        state=found.state.value,
        reason=found.reason,
        remedy=found.remedy,
        cause=found.cause,
        job=found.jobs[0],
        jobs=found.jobs,
        rows=count // columns if columns else 0,
        columns=columns,
        cells=count,
        waiting=totals.counts.get(CellState.WAITING, 0),
        running=totals.counts.get(CellState.RUNNING, 0),
        valid=totals.counts.get(CellState.VALID, 0),
        invalid=totals.counts.get(CellState.INVALID, 0),
        reused=totals.reused,
        ran=totals.ran,
        pauses=found.pauses,
        runs=sorted(workers),
        cost=money(sum(tx.ledger.amounts(workers).values())),
        bytes=totals.bytes,
        files=totals.files,
        score=found.plan.get("score"),
        better=found.plan.get("better", "higher"),
        follow=found.follow,
        policy=found.policy,
        workers=int(found.plan.get("workers", 1)),
        path=str(ctx.root / found.path),
        target=str(ctx.root / cell_rules.outputs_folder(found)),
        forecast=found.forecast,
        created_at=moment(found.created_at),
        ended_at=moment_or_none(found.ended_at),
    )


def cells(ctx: Services, found: Iterable[Cell], checkpoints: Mapping[int, Checkpoint]) -> list[CellView]:
    """checkpoints: those of the cells, by id."""
    return [_cell(ctx, cell, checkpoints[cell.checkpoint_id]) for cell in found]


def _cell(ctx: Services, cell: Cell, checkpoint: Checkpoint) -> CellView:
    return CellView(
        id=cell.id,
        checkpoint=checkpoint.name,
        job=checkpoint.run_id,
        row=cell.row,
        case=cell.case_id,
        repeat=cell.repeat,
        state=cell.state.value,
        score=cell.score,
        scores=cell.scores,
        outputs=cell.outputs,
        path=str(ctx.root / cell.path),
        ran=cell.ran,
        tries=cell.tries,
        reason=cell.reason,
        cause=cell.cause,
        seconds=cell.seconds,
        bytes=cell.bytes,
        files=cell.files,
        run=cell.run_id,
        key=cell.key,
        ended_at=moment_or_none(cell.ended_at),
    )


def publish_index(ctx: Services, evaluation_id: int) -> None:
    """Writes the index of one that has ended anew; of others the controller does it. Logs when it cannot be written."""
    with ctx.store.read() as tx:
        found = tx.evaluations.get(evaluation_id)
        if found is None or found.state in (EvaluationState.RUNNING, EvaluationState.PAUSED):
            return
        rows = tx.evaluations.index(evaluation_id)
    try:
        indexes.publish(ctx.root / cell_rules.index_folder(found), rows)
    except (TargetFullError, OSError) as error:
        _log.warning("the index of evaluation %d was not written: %s", evaluation_id, error)


def report(
    ctx: Services, caller: Caller, project: str, found: Evaluation, curves: dict[str, list[list[float]]]
) -> EvaluationReport:
    """All of an evaluation that a report or a page of it shows, from one moment."""
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.VIEW)
        view = evaluation(ctx, tx, tx.evaluations.get(found.id) or found, home.name)
        made_of = provenance(ctx, tx, found)
        checkpoints = tx.evaluations.checkpoints(found.id)
        own = tx.evaluations.cells(found.id)
        coverage = tx.evaluations.coverage(found.id)
    rows = {cell.checkpoint_id: cell.row for cell in own}
    order = {job: at for at, job in enumerate(found.jobs)}
    ordered = sorted(
        checkpoints.values(), key=lambda c: (order.get(c.run_id, len(order)), c.step or 0, c.epoch or 0, c.id)
    )
    return EvaluationReport(
        evaluation=view,
        provenance=made_of,
        rows=[_row(c, rows[c.id], coverage.rows.get(c.id, {})) for c in ordered],
        columns=[
            _column(case, coverage.columns.get((case["id"], case["repeat"]), {}))
            for case in cell_rules.effective_cases(found.plan)
        ],
        cells=cells(ctx, own, checkpoints),
        scores=_score_names(own, view.score),
        score=view.score,
        better=view.better,
        curves=curves,
    )


def provenance(ctx: Services, tx: Transaction, found: Evaluation) -> Provenance:
    """What it was made of; of the workers' variables the names alone, as values may be secrets."""
    plan = found.plan
    code = tx.runs.snapshot_by_id(plan["snapshot_id"])
    return Provenance(
        by=tx.people.names([found.submitted_by]).get(found.submitted_by, ""),
        cases_sha256=cell_rules.plan_digest("cases", (column.digest for column in cell_rules.columns(plan))),
        worker=plan.get("worker"),
        command=plan.get("command"),
        check=plan.get("check"),
        scorer=plan.get("scorer"),
        snapshot=code.digest if code else "",
        commit=code.commit if code else None,
        dirty=code is not None and code.dirty,
        datasets=[f"{used['dataset']}@{used['version']}" for used in plan.get("datasets") or []],
        environment=sorted(plan.get("environment") or {}),
        spec=plan["spec"],
        currency=ctx.currency,
    )


def curves(ctx: Services, caller: Caller, job: int) -> dict[str, list[list[float]]]:
    """The job's metrics by step, some hundred points of each; where ranks tell the same, the first one's."""
    found = {}
    for series in metrics.series(ctx, caller, job, points=CURVE_POINTS):
        first = min((point.rank for point in series.points), default=0)
        found[series.name] = [[point.step, point.value] for point in series.points if point.rank == first]
    return found


def _row(checkpoint: Checkpoint, row: str, counts: Mapping[CellState, int]) -> RowView:
    return RowView(
        checkpoint=checkpoint.id,
        name=checkpoint.name,
        row=row,
        job=checkpoint.run_id,
        step=checkpoint.step,
        epoch=checkpoint.epoch,
        metrics=checkpoint.metrics,
        sha256=checkpoint.sha256,
        created_at=moment(checkpoint.created_at),
        counts=_counts(counts),
    )


def _column(case: Mapping[str, Any], counts: Mapping[CellState, int]) -> ColumnView:
    return ColumnView(
        case=case["id"],
        repeat=case["repeat"],
        inputs=case["inputs"],
        parameters=case["parameters"],
        expected=case["expected"],
        tags=case["tags"],
        counts=_counts(counts),
    )


def _counts(counts: Mapping[CellState, int]) -> Counts:
    return Counts(**{state.value: count for state, count in counts.items()})


def _score_names(own: Iterable[Cell], main: str | None) -> list[str]:
    known = {name for cell in own if cell.state is CellState.VALID for name in cell.scores}
    first = [main] if main is not None and (main in known or not known) else []
    return first + sorted(known - set(first))
