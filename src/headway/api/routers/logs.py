"""Logs of runs: pages, the stream, the download."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from headway.api.dependencies import Ctx, Streams, Who
from headway.api.routers.runs import events
from headway.services import logs
from headway.wire.runs import LogPage

router = APIRouter(tags=["logs"])


async def wanted(
    grep: Annotated[str, Query(description="Text, or a regular expression between slashes.")] = "",
    since: Annotated[float | None, Query(description="Seconds since the epoch.")] = None,
    until: Annotated[float | None, Query(description="Seconds since the epoch.")] = None,
    rank: Annotated[int | None, Query(ge=0)] = None,
    stream: Annotated[str | None, Query(description="out, err or headway.")] = None,
) -> logs.Filter:
    """The lines that are asked for. Raises UsageError."""
    return logs.make_filter(grep, since, until, rank, stream)


Wanted = Annotated[logs.Filter, Depends(wanted)]


@router.get("/runs/{run}/logs")
def get_logs(
    ctx: Ctx,
    who: Who,
    run: int,
    want: Wanted,
    kind: str = "run",
    after: str = "",
    limit: Annotated[int, Query(ge=1, le=logs.MOST)] = logs.USUAL,
    tail: Annotated[int | None, Query(ge=0, le=logs.MOST)] = None,
) -> LogPage:
    """Lines of the run log or the diagnostic log behind the cursor `after`, or the last `tail` ones.

    One answer looks through a bounded part of the log: while it says `more`, ask again behind its cursor.
    """
    return logs.page(ctx, who, run, kind=kind, after=after, limit=limit, tail=tail, want=want)


@router.get("/runs/{run}/logs/stream", response_class=StreamingResponse)
async def stream_logs(
    ctx: Ctx,
    who: Who,
    live: Streams,
    run: int,
    want: Wanted,
    kind: str = "run",
    after: str = "",
    last_event_id: Annotated[str, Header()] = "",
) -> StreamingResponse:
    """Server-sent events: a LogLineView each, and `end` once the run has ended. Goes on from `Last-Event-ID`."""
    # what is wrong is answered with a status, before the stream begins
    found = await run_in_threadpool(logs.open_log, ctx, who, run, kind)
    start = last_event_id or after
    logs.check_cursor(found, start)
    return events(live.log(who, run, kind, start, want))


@router.get("/runs/{run}/logs/download", response_class=StreamingResponse)
def download_logs(
    ctx: Ctx,
    who: Who,
    run: int,
    want: Wanted,
    kind: str = "run",
    raw: Annotated[bool, Query(description="Without time, rank and stream.")] = False,
) -> StreamingResponse:
    """The log of all attempts up to now as a text file."""
    found = logs.open_log(ctx, who, run, kind)
    headers = {"Content-Disposition": f'attachment; filename="run-{run}.{kind}.log"', "Cache-Control": "no-cache"}
    pieces = logs.download(found, want, raw=raw)
    return StreamingResponse(pieces, media_type="text/plain; charset=utf-8", headers=headers)
