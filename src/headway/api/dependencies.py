"""What routes are given: the services, the caller, and a refusal of query parameters that nobody knows."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant

from headway.api.live import Live
from headway.errors import UsageError
from headway.rules.access import Caller
from headway.rules.nearest import unknown
from headway.services import access
from headway.services.context import Services

# Those that wait for nothing are coroutines: a plain function would cost each request a trip to the thread pool.


async def services(request: Request) -> Services:
    return cast(Services, request.app.state.services)


async def live(request: Request) -> Live:
    return cast(Live, request.app.state.live)


def caller(request: Request, ctx: Annotated[Services, Depends(services)]) -> Caller:
    """Raises UnauthorizedError."""
    return access.authenticate(ctx, request.headers.get("authorization"))


async def known_query(request: Request) -> None:
    """Raises UsageError, with the nearest known name, for a query parameter that the route does not have."""
    given = request.query_params.keys()
    if given:
        known = _query_names(request.scope["route"].dependant)
        for name in given:
            if name not in known:
                raise unknown("parameter", name, known)
    if any("\0" in value for _, value in request.query_params.multi_items()):
        raise UsageError("A parameter holds a zero byte.", "Take it out.")


def _query_names(dependant: Dependant) -> set[str]:
    found = {p.alias for p in dependant.query_params}
    return found.union(*(_query_names(d) for d in dependant.dependencies))


Ctx = Annotated[Services, Depends(services)]
Who = Annotated[Caller, Depends(caller)]
Streams = Annotated[Live, Depends(live)]
