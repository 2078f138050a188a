"""Models, endpoints."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from headway.wire.base import Answer, Request
from headway.wire.people import NAME


class ModelRequest(Request):
    """Registers a version from a job's checkpoint; `checkpoint` is a name, or "best" with `evaluation`."""

    job: int
    checkpoint: str = "best"
    evaluation: int | None = None
    #: case whose score decides; None: the mean over all of them
    case: str | None = None
    #: "predictor.py:Digits", in the snapshot
    predictor: str
    snapshot: str
    key: str | None = Field(default=None, max_length=128)


class ModelVersionView(Answer):
    id: int
    name: str
    version: int
    state: str
    reason: str
    source: dict[str, Any]
    path: str
    format: str
    bytes: int
    sha256: str
    predictor: dict[str, Any]
    created_at: datetime


class EndpointRequest(Request):
    """Deploys: a new endpoint, or a new revision of one that exists."""

    name: str = Field(pattern=NAME)
    #: "digits@1" or "digits" (newest)
    model: str
    replicas: int = Field(default=1, ge=1, le=64)
    spec: str = "small"
    max_duration: float | None = Field(default=None, gt=0)


class ReplicaView(Answer):
    run: int
    state: str
    address: str | None
    ready: bool


class EndpointView(Answer):
    name: str
    project: str
    state: str
    reason: str
    #: path on the public port: /e/<name>
    path: str
    model: str
    revision: int
    replicas: list[ReplicaView]
    spec: str
    cost: float
    created_at: datetime


class RouteReplica(Answer):
    run: int
    address: str
    secret: str


class RouteToken(Answer):
    hash: str
    #: seconds since the epoch
    expires_at: float | None
    revoked: bool


class Route(Answer):
    """What the gateway needs to serve one endpoint."""

    endpoint: str
    state: str
    replicas: list[RouteReplica]
    tokens: list[RouteToken]


class Routes(Answer):
    routes: list[Route]
