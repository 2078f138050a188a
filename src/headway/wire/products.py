"""Datasets, evaluations, models, endpoints."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from headway.wire.base import Answer, Request
from headway.wire.people import NAME


class FileEntry(Request):
    """One file of a dataset version and where its bytes are: `bytes` bytes at `offset` of pack `pack`."""

    path: str = Field(min_length=1, max_length=4096)
    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    #: SHA-256 of the tar that holds it
    pack: str = Field(pattern=r"^[0-9a-f]{64}$")
    offset: int = Field(ge=0)


class VersionRequest(Request):
    """Publishes a version. The same files as the newest version return that one."""

    files: list[FileEntry] = Field(min_length=1)
    source: str = ""
    statistics: dict[str, Any] = {}


class KnownRequest(Request):
    """Which of these file contents does the project have already?"""

    sha256: list[str]


class KnownAnswer(Answer):
    #: places of the known ones
    known: dict[str, FileEntry]


class PackView(Answer):
    sha256: str
    bytes: int


class DatasetVersionView(Answer):
    name: str
    version: int
    digest: str
    files: int
    bytes: int
    statistics: dict[str, Any]
    source: str
    created_by: str
    created_at: datetime


class VerifyView(Answer):
    name: str
    version: int
    files: int
    bytes: int
    #: files whose content is not what the manifest says: {"path": reason}
    faults: dict[str, str]


class Case(Request):
    """One case. Everything but `id` goes to the worker as it is."""

    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    parameters: dict[str, Any] = {}
    tags: list[str] = []


class OutputRule(Request):
    """What makes one output file valid."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    #: json, image, safetensors, torch, tar, file (any, not empty)
    kind: str = "file"


class EvaluationRequest(Request):
    name: str = Field(pattern=NAME)
    job: int
    #: "all" or names of checkpoints
    checkpoints: str | list[str] = "all"
    cases: list[Case] = Field(min_length=1)
    #: "evaluate.py:Digits": a class with load(checkpoint) and run(case, out), in the snapshot
    worker: str
    outputs: list[OutputRule] = Field(min_length=1)
    #: JSON output that holds the scores, and the key of the main one
    score_file: str = "score.json"
    score: str = "score"
    snapshot: str
    datasets: list[str] = []
    environment: dict[str, str] = {}
    workers: int = Field(default=1, ge=1, le=256)
    spec: str = "small"
    max_duration: float | None = Field(default=None, gt=0)
    retries: int = Field(default=3, ge=0)
    key: str | None = Field(default=None, max_length=128)


class EvaluationView(Answer):
    id: int
    project: str
    name: str
    state: str
    reason: str
    remedy: str
    cause: str | None
    job: int
    cells: int
    waiting: int
    running: int
    valid: int
    invalid: int
    #: outputs published, ever: more than `valid` only if something valid was run again
    ran: int
    pauses: int
    #: worker runs
    runs: list[int]
    cost: float
    path: str
    created_at: datetime
    ended_at: datetime | None


class CellView(Answer):
    id: int
    checkpoint: str
    case: str
    state: str
    score: float | None
    scores: dict[str, Any]
    outputs: list[dict[str, Any]]
    path: str
    ran: int
    reason: str
    seconds: float | None


class ModelRequest(Request):
    """Registers a version from a job's checkpoint; `checkpoint` is a name, or "best" with `evaluation` and `case`."""

    job: int
    checkpoint: str = "best"
    evaluation: int | None = None
    #: case whose score decides
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
