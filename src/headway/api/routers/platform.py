"""Health, the caller, specs, nodes, the bill, and the gateway's routes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Body, Query

from headway import __version__
from headway.api.dependencies import Ctx, Who
from headway.services import endpoints, limits, people, platform, queue
from headway.services import nodes as services_nodes
from headway.wire.people import Health, Me
from headway.wire.platform import (
    DrainRequest,
    LimitsRequest,
    LimitsView,
    MoveRequest,
    NodeView,
    PriceView,
    QueueView,
    ReclaimRequest,
    ReclaimView,
)
from headway.wire.products import Routes
from headway.wire.runs import Bill, RunView, SpecView

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
    """Machines, what is free on them, what runs there and until when."""
    return services_nodes.listing(ctx, who)


@router.post("/nodes/{node}/drain")
def drain(ctx: Ctx, who: Who, node: str, request: Annotated[DrainRequest | None, Body()] = None) -> NodeView:
    """Places nothing new on a node; what runs there goes on. For admins."""
    return services_nodes.drain(ctx, who, node, request or DrainRequest())


@router.post("/nodes/{node}/undrain")
def undrain(ctx: Ctx, who: Who, node: str) -> NodeView:
    """Lets a drained node take runs again. For admins."""
    return services_nodes.undrain(ctx, who, node)


@router.post("/nodes/{node}/reclaim")
def reclaim(ctx: Ctx, who: Who, node: str, request: Annotated[ReclaimRequest | None, Body()] = None) -> ReclaimView:
    """The drill: asks the spot runs on a node to save and leave, as its machine would. For admins."""
    return services_nodes.reclaim(ctx, who, node, request or ReclaimRequest())


@router.get("/prices")
def prices(ctx: Ctx, who: Who) -> list[PriceView]:
    """What each spec costs on the spot market now."""
    return platform.prices(ctx, who)


@router.get("/projects/{project}/queue")
def waiting(ctx: Ctx, who: Who, project: str, limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> QueueView:
    """What waits in a project, next first, and why."""
    return queue.listing(ctx, who, project, limit=limit)


@router.post("/runs/{run}/move")
def move(ctx: Ctx, who: Who, run: int, request: MoveRequest) -> RunView:
    """Changes a waiting run's place among those of its project and priority."""
    return queue.move(ctx, who, run, request)


@router.get("/projects/{project}/limits")
def project_limits(ctx: Ctx, who: Who, project: str) -> LimitsView:
    """What a project may occupy at once, and does."""
    return limits.get(ctx, who, project)


@router.put("/projects/{project}/limits")
def set_project_limits(ctx: Ctx, who: Who, project: str, request: LimitsRequest) -> LimitsView:
    """Sets the limits and the weight that are given; null takes a limit away. For admins."""
    return limits.change(ctx, who, project, request)


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
