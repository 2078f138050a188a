"""Code snapshots and datasets: the routes that take bytes in."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from headway.api.dependencies import Ctx, Who
from headway.api.ranges import ranged
from headway.api.uploads import received
from headway.rules.datasets import PAGE_ROWS
from headway.services import dataset_diff, dataset_looks, datasets, snapshots
from headway.storage import layout
from headway.wire.datasets import (
    DatasetVersionView,
    DiffView,
    FilesPage,
    PlacesPage,
    StatisticsRequest,
    VerifyRequest,
    VerifyView,
)
from headway.wire.runs import SnapshotView

router = APIRouter(prefix="/projects/{project}", tags=["data"])
Sha256 = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]
Range = Annotated[str | None, Header()]
_BYTES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
}
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


@router.get("/datasets")
def list_datasets(ctx: Ctx, who: Who, project: str) -> list[DatasetVersionView]:
    """The newest version of each dataset."""
    return datasets.listing(ctx, who, project)


@router.get("/datasets/{name}/versions")
def versions(ctx: Ctx, who: Who, project: str, name: str) -> list[DatasetVersionView]:
    """A dataset's versions, oldest first."""
    return datasets.versions(ctx, who, project, name)


@router.get("/datasets/{name}/diff")
def diff(ctx: Ctx, who: Who, project: str, name: str, older: int, newer: int, older_name: str = "") -> DiffView:
    """What differs between two versions of a dataset; older_name: the older one is a version of that dataset."""
    return dataset_diff.diff(ctx, who, project, (older_name or name, older), (name, newer))


@router.post("/datasets/{name}/versions/{version}/verify")
def verify(
    ctx: Ctx, who: Who, project: str, name: str, version: int, request: VerifyRequest | None = None
) -> VerifyView:
    """Reads the files of a version, all or a sample, and compares them with the manifest."""
    return datasets.verify(ctx, who, project, name, version, request.sample if request else None)


@router.put("/datasets/{name}/versions/{version}/statistics")
def put_statistics(
    ctx: Ctx, who: Who, project: str, name: str, version: int, request: StatisticsRequest
) -> DatasetVersionView:
    """Keeps statistics of a version, in place of those that it has."""
    return datasets.put_statistics(ctx, who, project, name, version, request.statistics)


@router.get("/datasets/{name}/versions/{version}/files")
def files(
    ctx: Ctx,
    who: Who,
    project: str,
    name: str,
    version: int,
    prefix: str = "",
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_ROWS)] = 1000,
) -> FilesPage:
    """Files of a version, in order; `prefix`: those below that folder."""
    return dataset_looks.files(ctx, who, project, name, version, prefix=prefix, after=after, limit=limit)


@router.get("/datasets/{name}/versions/{version}/places")
def places(
    ctx: Ctx, who: Who, project: str, name: str, version: int, page: Annotated[int, Query(ge=0)] = 0
) -> PlacesPage:
    """A page of a version's files with the places of their contents."""
    return dataset_looks.places(ctx, who, project, name, version, page)


@router.get("/datasets/{name}/versions/{version}/content", response_class=StreamingResponse, responses=_BYTES)
def content(ctx: Ctx, who: Who, project: str, name: str, version: int, path: str, range: Range = None) -> Response:
    """One file of a version, or a range of it."""
    found = dataset_looks.content(ctx, who, project, name, version, path)
    return ranged(range, found.size, found.read)


@router.get("/packs/{sha256}", response_class=StreamingResponse, responses=_BYTES)
def get_pack(ctx: Ctx, who: Who, project: str, sha256: Sha256, range: Range = None) -> Response:
    """A pack, or a range of it."""
    found = dataset_looks.stored(ctx, who, project, layout.PACK, sha256)
    return ranged(range, found.size, found.read)


@router.get("/parts/{sha256}", response_class=StreamingResponse, responses=_BYTES)
def get_part(ctx: Ctx, who: Who, project: str, sha256: Sha256, range: Range = None) -> Response:
    """A part of a large file, or a range of it."""
    found = dataset_looks.stored(ctx, who, project, layout.PART, sha256)
    return ranged(range, found.size, found.read)
