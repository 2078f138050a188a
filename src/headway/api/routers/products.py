"""Evaluations, models, endpoints."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from headway.api.dependencies import Ctx, Who
from headway.services import endpoints, evaluations, models
from headway.wire.people import NewToken, TokenRequest, TokenView
from headway.wire.products import (
    CellView,
    EndpointRequest,
    EndpointView,
    EvaluationRequest,
    EvaluationView,
    ModelRequest,
    ModelVersionView,
)

router = APIRouter(prefix="/projects/{project}", tags=["products"])


@router.post("/evaluations")
def create_evaluation(ctx: Ctx, who: Who, project: str, request: EvaluationRequest) -> EvaluationView:
    """Evaluates checkpoints of a job on cases."""
    return evaluations.create(ctx, who, project, request)


@router.get("/evaluations")
def list_evaluations(
    ctx: Ctx, who: Who, project: str, limit: Annotated[int, Query(ge=1, le=1000)] = 100
) -> list[EvaluationView]:
    """Evaluations, newest first."""
    return evaluations.listing(ctx, who, project, limit=limit)


@router.get("/evaluations/{evaluation}")
def evaluation(ctx: Ctx, who: Who, project: str, evaluation: int) -> EvaluationView:
    """One evaluation with the counts of its cells."""
    return evaluations.get(ctx, who, project, evaluation)


@router.get("/evaluations/{evaluation}/cells")
def cells(ctx: Ctx, who: Who, project: str, evaluation: int) -> list[CellView]:
    """Every cell with its score and outputs."""
    return evaluations.cells(ctx, who, project, evaluation)


@router.post("/evaluations/{evaluation}/stop")
def stop_evaluation(ctx: Ctx, who: Who, project: str, evaluation: int) -> EvaluationView:
    """Stops the evaluation and its workers; valid cells stay."""
    return evaluations.stop(ctx, who, project, evaluation)


@router.post("/evaluations/{evaluation}/retry")
def retry_evaluation(ctx: Ctx, who: Who, project: str, evaluation: int) -> EvaluationView:
    """Tries the cells that are not valid again."""
    return evaluations.retry(ctx, who, project, evaluation)


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
