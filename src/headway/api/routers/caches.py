"""The nodes' caches of data."""

from __future__ import annotations

from fastapi import APIRouter

from headway.api.dependencies import Ctx, Who
from headway.services import caches
from headway.wire.caches import CacheView, WarmRequest
from headway.wire.runs import RunView

router = APIRouter(tags=["data"])


@router.get("/caches")
def list_caches(ctx: Ctx, who: Who) -> list[CacheView]:
    """What the cache of each node holds, and how often it had what runs asked for."""
    return caches.listing(ctx, who)


@router.post("/projects/{project}/caches/warm")
def warm(ctx: Ctx, who: Who, project: str, request: WarmRequest) -> list[RunView]:
    """Fetches a version into the caches of nodes ahead of time, by a short run on each."""
    return caches.warm(ctx, who, project, request)
