"""Runs and jobs; their logs, metrics and checkpoints; streams."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Body, Query
from fastapi.responses import Response, StreamingResponse
from pydantic import TypeAdapter
from starlette.concurrency import run_in_threadpool

from headway.api.dependencies import Ctx, Streams, Who
from headway.services import changes, jobs, metrics, previews, runs, usage
from headway.wire.metrics import MetricSeries, UsageSeries
from headway.wire.runs import (
    AttemptView,
    ChangeRequest,
    CheckpointView,
    CloneRequest,
    DryRunView,
    JobRequest,
    JobView,
    RunView,
    StopRequest,
)

router = APIRouter(tags=["runs"])
Limit = Annotated[int, Query(ge=1, le=1000)]


@router.post("/projects/{project}/jobs")
def submit(ctx: Ctx, who: Who, project: str, request: JobRequest, dry_run: bool = False) -> RunView | DryRunView:
    """Submits a training run. With `dry_run` it only says what that would do (DryRunView)."""
    return previews.submit(ctx, who, project, request) if dry_run else jobs.submit(ctx, who, project, request)


@router.get("/projects/{project}/jobs")
def list_jobs(
    ctx: Ctx,
    who: Who,
    project: str,
    state: str | None = None,
    tag: Annotated[list[str] | None, Query()] = None,
    name: str | None = None,
    before: int | None = None,
    limit: Limit = 100,
) -> list[JobView]:
    """Training runs, newest first, with the last value of each metric. `tag`: key=value, or key; may be repeated."""
    return jobs.listing(ctx, who, project, before=before, limit=limit, state=state, tags=tag or (), name=name)


@router.get("/projects/{project}/jobs/{job}")
def job(ctx: Ctx, who: Who, project: str, job: int) -> JobView:
    """One training run."""
    return jobs.get(ctx, who, project, job)


@router.get("/projects/{project}/runs")
def list_runs(
    ctx: Ctx,
    who: Who,
    project: str,
    state: str | None = None,
    owner: str | None = None,
    owner_id: int | None = None,
    before: int | None = None,
    limit: Limit = 100,
) -> list[RunView]:
    """Everything that occupies or wants resources, newest first. `state`: one, or live, ended, open."""
    return runs.listing(ctx, who, project, state=state, owner=owner, owner_id=owner_id, before=before, limit=limit)


@router.get("/runs/{run}")
def get(ctx: Ctx, who: Who, run: int) -> RunView:
    """One run."""
    return runs.get(ctx, who, run)


@router.post("/runs/{run}/stop")
def stop(ctx: Ctx, who: Who, run: int, request: Annotated[StopRequest | None, Body()] = None) -> RunView:
    """Asks a run to end: SIGTERM, the grace period, SIGKILL."""
    return runs.stop(ctx, who, run, request or StopRequest())


@router.patch("/runs/{run}")
def change(ctx: Ctx, who: Who, run: int, request: ChangeRequest) -> RunView:
    """Changes priority, limits and the like of a job that waits or runs."""
    return runs.change(ctx, who, run, request)


@router.post("/runs/{run}/clone")
def clone(
    ctx: Ctx, who: Who, run: int, request: Annotated[CloneRequest | None, Body()] = None, dry_run: bool = False
) -> RunView | DryRunView:
    """Submits a job with the request of another one, some of it changed. `dry_run`: as for a submit."""
    asked = request or CloneRequest()
    return previews.clone(ctx, who, run, asked) if dry_run else jobs.clone(ctx, who, run, asked)


@router.post("/runs/{run}/pause")
def pause(ctx: Ctx, who: Who, run: int) -> RunView:
    """Has a job save and leave its place until it is released."""
    return runs.pause(ctx, who, run)


@router.post("/runs/{run}/hold")
def hold(ctx: Ctx, who: Who, run: int) -> RunView:
    """Keeps a run that waits from being placed."""
    return runs.hold(ctx, who, run)


@router.post("/runs/{run}/release")
def release(ctx: Ctx, who: Who, run: int) -> RunView:
    """Lets a held or paused run be placed."""
    return runs.release(ctx, who, run)


@router.post("/runs/{run}/retry")
def retry(ctx: Ctx, who: Who, run: int) -> RunView:
    """Places a job that failed or was stopped once more."""
    return runs.retry(ctx, who, run)


@router.get("/runs/{run}/attempts")
def attempts(ctx: Ctx, who: Who, run: int) -> list[AttemptView]:
    """Every placement of a run and how it ended, first one first."""
    return runs.attempts(ctx, who, run)


@router.get("/runs/{run}/checkpoints")
def checkpoints(ctx: Ctx, who: Who, run: int) -> list[CheckpointView]:
    """Published checkpoints by step."""
    return runs.checkpoints(ctx, who, run)


_SERIES = TypeAdapter(list[MetricSeries])


@router.get("/runs/{run}/metrics", response_model=list[MetricSeries])
def get_metrics(
    ctx: Ctx,
    who: Who,
    run: int,
    name: Annotated[list[str] | None, Query(description="only these metrics; may be given again")] = None,
    first: Annotated[float | None, Query(description="only from this step or time on")] = None,
    last: Annotated[float | None, Query(description="only up to this step or time")] = None,
    points: Annotated[int, Query(ge=4, le=metrics.MOST, description="most points of each metric")] = metrics.MOST,
    by: Annotated[str, Query(description="what first and last are: step, or time in seconds")] = "step",
) -> Response:
    """Every metric's points. Of more than `points` the lowest and the highest of each stretch: no peak is lost."""
    found = metrics.series(ctx, who, run, names=name or (), first=first, last=last, points=points, by=by)
    # as bytes: thousands of points would take longer through the usual way than all else
    return Response(_SERIES.dump_json(found), media_type="application/json")


@router.get("/runs/{run}/usage")
def get_usage(
    ctx: Ctx,
    who: Who,
    run: int,
    first: Annotated[float | None, Query(description="seconds since the epoch")] = None,
    last: Annotated[float | None, Query(description="seconds since the epoch")] = None,
    points: Annotated[int, Query(ge=1, le=usage.MOST, description="most samples of each node")] = 500,
) -> list[UsageSeries]:
    """CPU, memory, disk, network and accelerators over time, of each attempt and node."""
    return usage.series(ctx, who, run, first=first, last=last, points=points)


@router.get("/projects/{project}/stream", response_class=StreamingResponse)
async def stream_project(ctx: Ctx, who: Who, live: Streams, project: str) -> StreamingResponse:
    """Server-sent events `run` (RunView) and `evaluation` (EvaluationView): all as they are, then each change."""
    await run_in_threadpool(changes.Watch(ctx, who, project).check)
    return events(live.project(who, project))


def events(source: AsyncIterator[bytes]) -> StreamingResponse:
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(source, media_type="text/event-stream", headers=headers)
