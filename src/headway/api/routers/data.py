"""Code snapshots and datasets: the routes that take bytes in."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from headway.api.dependencies import Ctx, Who
from headway.api.uploads import received
from headway.services import datasets, snapshots
from headway.wire.products import (
    DatasetVersionView,
    KnownAnswer,
    KnownRequest,
    PackView,
    VerifyView,
    VersionRequest,
)
from headway.wire.runs import SnapshotView

router = APIRouter(prefix="/projects/{project}", tags=["data"])
Sha256 = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]
_TAR = {"requestBody": {"content": {"application/x-tar": {"schema": {"type": "string", "format": "binary"}}}}}


@router.put("/snapshots/{digest}", openapi_extra=_TAR)
async def put_snapshot(
    ctx: Ctx,
    who: Who,
    request: Request,
    project: str,
    digest: Sha256,
    commit: Annotated[str | None, Query(max_length=100)] = None,
    dirty: bool = False,
) -> SnapshotView:
    """Takes in a folder of code as a tar whose SHA-256 is `digest`."""
    await run_in_threadpool(snapshots.check, ctx, who, project)
    async with received(request, ctx.root, snapshots.LIMIT) as body:
        return await run_in_threadpool(
            lambda: snapshots.put(ctx, who, project, digest, body, commit=commit, dirty=dirty)
        )


@router.get("/snapshots/{digest}", response_class=StreamingResponse)
def get_snapshot(ctx: Ctx, who: Who, project: str, digest: Sha256) -> StreamingResponse:
    """The tar of a code snapshot."""
    return StreamingResponse(snapshots.content(ctx, who, project, digest), media_type="application/x-tar")


@router.post("/datasets/known")
def known(ctx: Ctx, who: Who, project: str, request: KnownRequest) -> KnownAnswer:
    """Which of these file contents need not be sent again."""
    return datasets.known(ctx, who, project, request)


@router.put("/packs/{sha256}", openapi_extra=_TAR)
async def put_pack(ctx: Ctx, who: Who, request: Request, project: str, sha256: Sha256) -> PackView:
    """Takes in contents of files as a tar."""
    await run_in_threadpool(datasets.check, ctx, who, project)
    async with received(request, ctx.root, datasets.LIMIT) as body:
        return await run_in_threadpool(datasets.put_pack, ctx, who, project, sha256, body)


@router.get("/datasets")
def list_datasets(ctx: Ctx, who: Who, project: str) -> list[DatasetVersionView]:
    """The newest version of each dataset."""
    return datasets.listing(ctx, who, project)


@router.post("/datasets/{name}/versions")
def publish(ctx: Ctx, who: Who, project: str, name: str, request: VersionRequest) -> DatasetVersionView:
    """Publishes a version of files whose contents are in packs; the same files return the newest version."""
    return datasets.publish(ctx, who, project, name, request)


@router.get("/datasets/{name}/versions")
def versions(ctx: Ctx, who: Who, project: str, name: str) -> list[DatasetVersionView]:
    """A dataset's versions, oldest first."""
    return datasets.versions(ctx, who, project, name)


@router.post("/datasets/{name}/versions/{version}/verify")
def verify(ctx: Ctx, who: Who, project: str, name: str, version: int) -> VerifyView:
    """Reads every file of a version and compares it with the manifest."""
    return datasets.verify(ctx, who, project, name, version)
