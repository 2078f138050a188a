"""Models and endpoints."""

from __future__ import annotations

from fastapi import APIRouter

from headway.api.dependencies import Ctx, Who
from headway.services import endpoints, models
from headway.wire.people import NewToken, TokenRequest, TokenView
from headway.wire.products import (
    EndpointRequest,
    EndpointView,
    ModelRequest,
    ModelVersionView,
)

router = APIRouter(prefix="/projects/{project}", tags=["products"])


@router.get("/models")
def list_models(ctx: Ctx, who: Who, project: str) -> list[ModelVersionView]:
    """The newest version of each model."""
    return models.listing(ctx, who, project)


@router.post("/models/{name}/versions")
def register(ctx: Ctx, who: Who, project: str, name: str, request: ModelRequest) -> ModelVersionView:
    """Registers a checkpoint as a version; it is checked before it is ready."""
    return models.register(ctx, who, project, name, request)


@router.get("/models/{name}/versions")
def model_versions(ctx: Ctx, who: Who, project: str, name: str) -> list[ModelVersionView]:
    """A model's versions, oldest first."""
    return models.versions(ctx, who, project, name)


@router.post("/endpoints")
def deploy(ctx: Ctx, who: Who, project: str, request: EndpointRequest) -> EndpointView:
    """Serves a model version: a new endpoint, or a new revision of one."""
    return endpoints.deploy(ctx, who, project, request)


@router.get("/endpoints")
def list_endpoints(ctx: Ctx, who: Who, project: str) -> list[EndpointView]:
    """Endpoints by name."""
    return endpoints.listing(ctx, who, project)


@router.get("/endpoints/{name}")
def endpoint(ctx: Ctx, who: Who, project: str, name: str) -> EndpointView:
    """One endpoint with its replicas."""
    return endpoints.get(ctx, who, project, name)


@router.delete("/endpoints/{name}")
def stop_endpoint(ctx: Ctx, who: Who, project: str, name: str) -> EndpointView:
    """Stops the endpoint and its replicas."""
    return endpoints.stop(ctx, who, project, name)


@router.get("/endpoints/{name}/tokens")
def endpoint_tokens(ctx: Ctx, who: Who, project: str, name: str) -> list[TokenView]:
    """The endpoint's tokens, without their secrets."""
    return endpoints.tokens(ctx, who, project, name)


@router.post("/endpoints/{name}/tokens")
def add_endpoint_token(ctx: Ctx, who: Who, project: str, name: str, request: TokenRequest) -> NewToken:
    """A new token; its secret is in this answer and nowhere else."""
    return endpoints.add_token(ctx, who, project, name, request)


@router.delete("/endpoints/{name}/tokens/{token}", status_code=204)
def revoke_endpoint_token(ctx: Ctx, who: Who, project: str, name: str, token: int) -> None:
    """Makes a token worthless."""
    endpoints.revoke_token(ctx, who, project, name, token)
