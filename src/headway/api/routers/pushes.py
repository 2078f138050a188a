"""Pushes of datasets: opened, told what there is, sent what is missing, told its rows, published."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.concurrency import run_in_threadpool

from headway.api.dependencies import Ctx, Who
from headway.api.uploads import received_file
from headway.rules.datasets import PART_BYTES
from headway.services import publishing, pushes
from headway.wire.datasets import (
    DatasetVersionView,
    GrantAnswer,
    GrantRequest,
    KnownAnswer,
    KnownRequest,
    LargeRequest,
    ObjectView,
    PublishRequest,
    PushRequest,
    PushView,
    RowsRequest,
    SentRequest,
)

router = APIRouter(prefix="/projects/{project}/pushes", tags=["data"])
Sha256 = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_TAR = {"requestBody": {"content": {"application/x-tar": _BINARY}}}
_BYTES = {"requestBody": {"content": {"application/octet-stream": _BINARY}}}


@router.post("")
def create(ctx: Ctx, who: Who, project: str, request: PushRequest) -> PushView:
    """Opens a push; nothing is seen of it before it is published."""
    return pushes.create(ctx, who, project, request)


@router.post("/{push}/known")
def known_contents(ctx: Ctx, who: Who, project: str, push: int, request: KnownRequest) -> KnownAnswer:
    """Which of these contents and parts the project holds already."""
    return pushes.known(ctx, who, project, push, request)


@router.put("/{push}/packs/{sha256}", openapi_extra=_TAR)
async def send_pack(ctx: Ctx, who: Who, request: Request, project: str, push: int, sha256: Sha256) -> ObjectView:
    """Takes in a pack of small files; what is in it is found out here."""
    folder = await run_in_threadpool(pushes.receiving, ctx, who, project, push)
    async with received_file(request, folder, pushes.PACK_LIMIT) as (path, _):
        return await run_in_threadpool(pushes.put_pack, ctx, who, project, push, sha256, path)


@router.put("/{push}/parts/{sha256}", openapi_extra=_BYTES)
async def send_part(ctx: Ctx, who: Who, request: Request, project: str, push: int, sha256: Sha256) -> ObjectView:
    """Takes in a part of a large file."""
    folder = await run_in_threadpool(pushes.receiving, ctx, who, project, push)
    async with received_file(request, folder, PART_BYTES) as (path, found):
        return await run_in_threadpool(pushes.put_part, ctx, who, project, push, sha256, path, found)


@router.post("/{push}/grants")
def grants(ctx: Ctx, who: Who, project: str, push: int, request: GrantRequest) -> GrantAnswer:
    """Signed URLs to send packs and parts straight to the store."""
    return pushes.grants(ctx, who, project, push, request)


@router.post("/{push}/sent", status_code=204)
def sent(ctx: Ctx, who: Who, project: str, push: int, request: SentRequest) -> None:
    """Tells what was sent straight to the store."""
    pushes.sent(ctx, who, project, push, request)


@router.post("/{push}/large", status_code=204)
def large(ctx: Ctx, who: Who, project: str, push: int, request: LargeRequest) -> None:
    """Tells what large files the parts make."""
    pushes.large(ctx, who, project, push, request)


@router.post("/{push}/rows", status_code=204)
def rows(ctx: Ctx, who: Who, project: str, push: int, request: RowsRequest) -> None:
    """Tells rows of the version to be."""
    pushes.rows(ctx, who, project, push, request)


@router.post("/{push}/publish")
def publish_push(ctx: Ctx, who: Who, project: str, push: int, request: PublishRequest) -> DatasetVersionView:
    """Publishes the version; the same files return the newest one."""
    return publishing.publish(ctx, who, project, push, request)
