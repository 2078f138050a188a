"""Evaluations, their cells and outputs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from headway.api.dependencies import Ctx, Streams, Who
from headway.api.ranges import RangedFile
from headway.rules.states import EvaluationState
from headway.services import adoptions, cell_checks, evaluations
from headway.wire.evaluations import (
    Adopted,
    AdoptRequest,
    CellView,
    EvaluationPlan,
    EvaluationProof,
    EvaluationReport,
    EvaluationRequest,
    EvaluationView,
    TargetRequest,
    VerifyRequest,
)

#: that an answer is held back at most
MOST_SECONDS = 60.0
router = APIRouter(prefix="/projects/{project}/evaluations", tags=["evaluations"])


@router.post("")
def create_evaluation(ctx: Ctx, who: Who, project: str, request: EvaluationRequest) -> EvaluationView:
    """Evaluates checkpoints on cases. What is done in the project already is not run again."""
    return evaluations.create(ctx, who, project, request)


@router.post("/plan")
def plan_evaluation(ctx: Ctx, who: Who, project: str, request: EvaluationRequest) -> EvaluationPlan:
    """What an evaluation would be, and how much of it is done already; nothing is recorded."""
    return evaluations.plan(ctx, who, project, request)


@router.get("")
def list_evaluations(
    ctx: Ctx, who: Who, project: str, limit: Annotated[int, Query(ge=1, le=1000)] = 100
) -> list[EvaluationView]:
    """Evaluations, newest first."""
    return evaluations.listing(ctx, who, project, limit=limit)


@router.get("/{evaluation}")
async def evaluation(
    ctx: Ctx,
    who: Who,
    live: Streams,
    project: str,
    evaluation: int,
    wait: Annotated[float, Query(ge=0, le=MOST_SECONDS)] = 0.0,
    held: Annotated[list[EvaluationState] | None, Query(alias="while")] = None,
) -> EvaluationView:
    """One evaluation with the counts of its cells.

    With `wait` the answer comes when its state is none of those in `while` any more, or after so many seconds.
    """
    states = {state.value for state in held or ()}
    return await live.held(
        lambda: evaluations.get(ctx, who, project, evaluation), lambda view: view.state in states, wait
    )


@router.get("/{evaluation}/cells")
def cells(
    ctx: Ctx,
    who: Who,
    project: str,
    evaluation: int,
    state: Annotated[list[str] | None, Query()] = None,
    after: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=evaluations.MOST_CELLS)] = evaluations.MOST_CELLS,
) -> list[CellView]:
    """Cells with their scores and outputs, behind the cell `after`; of the given states, or all."""
    return evaluations.cells(ctx, who, project, evaluation, states=state or (), after=after, limit=limit)


@router.get("/{evaluation}/report")
def evaluation_report(ctx: Ctx, who: Who, project: str, evaluation: int) -> EvaluationReport:
    """All that a report shows: rows, columns, cells, training curves, what it was made of."""
    return evaluations.report(ctx, who, project, evaluation)


@router.get("/{evaluation}/cells/{cell}/files/{name:path}", response_class=RangedFile)
def cell_file(ctx: Ctx, who: Who, project: str, evaluation: int, cell: int, name: str) -> RangedFile:
    """An output file, or the ranges of it that are asked for; 416 where none of them is in the file."""
    # an output may be a page or a picture with a script in it: whoever shows it must not run it as ours
    headers = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox"}
    return RangedFile(evaluations.file(ctx, who, project, evaluation, cell, name), headers=headers)


@router.post("/{evaluation}/stop")
def stop_evaluation(ctx: Ctx, who: Who, project: str, evaluation: int) -> EvaluationView:
    """Stops the evaluation and its workers; valid cells stay."""
    return evaluations.stop(ctx, who, project, evaluation)


@router.post("/{evaluation}/retry")
def retry_evaluation(ctx: Ctx, who: Who, project: str, evaluation: int) -> EvaluationView:
    """Tries the cells that are not valid again."""
    return evaluations.retry(ctx, who, project, evaluation)


@router.post("/{evaluation}/target")
def change_target(ctx: Ctx, who: Who, project: str, evaluation: int, request: TargetRequest) -> EvaluationView:
    """Sends the outputs that are still to come to another folder."""
    return evaluations.target(ctx, who, project, evaluation, request)


@router.post("/{evaluation}/verify")
def verify_evaluation(ctx: Ctx, who: Who, project: str, evaluation: int, request: VerifyRequest) -> EvaluationProof:
    """Reads outputs again and compares them with the record; ask on until `next` is null."""
    return cell_checks.verify(ctx, who, project, evaluation, request)


@router.post("/{evaluation}/adopt")
def adopt_outputs(ctx: Ctx, who: Who, project: str, evaluation: int, request: AdoptRequest) -> Adopted:
    """Registers outputs from before that are valid; ask on until `next` is null."""
    return adoptions.adopt(ctx, who, project, evaluation, request)
