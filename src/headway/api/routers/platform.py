"""Health, the caller, specs, nodes, the bill, and the gateway's routes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query

from headway import __version__
from headway.api.dependencies import Ctx, Who
from headway.services import endpoints, people, platform
from headway.wire.people import Health, Me
from headway.wire.products import Routes
from headway.wire.runs import Bill, NodeView, SpecView

router = APIRouter(tags=["platform"])


@router.get("/health")
def health(ctx: Ctx) -> Health:
    """Whether the api and its record answer, and a controller leads. Needs no token."""
    return platform.health(ctx, __version__)


@router.get("/me")
def me(ctx: Ctx, who: Who) -> Me:
    """Whose token this is, and its role in each project."""
    return people.me(ctx, who)


@router.get("/specs")
def specs(ctx: Ctx, who: Who) -> list[SpecView]:
    """Amounts of resources that can be asked for, cheapest first."""
    return platform.specs(ctx, who)


@router.get("/nodes")
def nodes(ctx: Ctx, who: Who) -> list[NodeView]:
    """Machines and what is free on them."""
    return platform.nodes(ctx, who)


@router.get("/projects/{project}/bill")
def bill(
    ctx: Ctx,
    who: Who,
    project: str,
    since: datetime | None = None,
    run: int | None = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> Bill:
    """What each attempt cost, newest first."""
    return platform.bill(ctx, who, project, since=since, run=run, limit=limit)


@router.get("/gateway/routes")
def routes(ctx: Ctx, who: Who) -> Routes:
    """What the gateway needs to serve every endpoint. For the gateway and admins."""
    return endpoints.routes(ctx, who)
