"""The ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI
from fastapi.responses import HTMLResponse

from headway import __version__
from headway.api import docs, problems
from headway.api.dependencies import known_query
from headway.api.live import Live
from headway.api.routers import (
    caches,
    checkpoints,
    data,
    dataset_keeping,
    evaluations,
    logs,
    people,
    platform,
    products,
    pushes,
    runs,
    storage,
    templates,
)
from headway.services.context import Services
from headway.wire.base import Problem

PREFIX = "/api/v1"


def create_app(services: Services) -> FastAPI:
    """The api over `services`: routes under `/api/v1`, its document at `/api/openapi.json`, a page at `/api/docs`.

    The record must be at this version (see `services.first_start`). The application holds no state of its own but
    open streams, so any number of them may serve one record.
    """
    live = Live(services)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        live.close()

    app = FastAPI(
        title="headway",
        version=__version__,
        description="Every answer that is no success has the shape of `Problem`.",
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.services = services
    app.state.live = live
    problems.install(app)
    responses: dict[int | str, dict[str, object]] = {
        "4XX": {"model": Problem, "description": "The request cannot be carried out; see the error."}
    }
    for module in (
        platform,
        people,
        runs,
        checkpoints,
        logs,
        templates,
        data,
        dataset_keeping,
        pushes,
        caches,
        storage,
        evaluations,
        products,
    ):
        app.include_router(module.router, prefix=PREFIX, dependencies=[Depends(known_query)], responses=responses)

    @app.get("/api/docs", include_in_schema=False, response_class=HTMLResponse)
    def page() -> str:
        """Every route with its parameters and shapes; needs no network but this server."""
        return docs.PAGE

    return app
