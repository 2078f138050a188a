"""The record's rows as frozen values: what the store returns and the rules decide on.

Field for field the tables of `store.tables`. Times are seconds since the epoch (UTC), money is micros, memory bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headway.protocol.exits import Cause
from headway.rules.access import Role
from headway.rules.states import (
    AttemptState,
    CellState,
    EndpointState,
    EvaluationState,
    RunState,
    VersionState,
)

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class User:
    id: int
    name: str
    is_admin: bool
    is_service: bool
    created_at: float


@dataclass(frozen=True, kw_only=True)
class Token:
    """A token's secret is shown once; only its SHA-256 (hexadecimal) is kept."""

    id: int
    user_id: int
    name: str
    hash: str
    created_at: float
    expires_at: float | None
    revoked_at: float | None


@dataclass(frozen=True, kw_only=True)
class Project:
    id: int
    name: str
    #: bytes and files that the project's vouched-for outputs may take; None: no limit
    quota_bytes: int | None
    quota_files: int | None
    created_at: float


@dataclass(frozen=True, kw_only=True)
class Member:
    project_id: int
    user_id: int
    role: Role


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A named amount of resources with its price."""

    name: str
    cpus: float
    memory_bytes: int
    accelerators: int
    #: kind that the accelerators must be of; None: any
    accelerator_kind: str | None
    #: micros an hour
    price_hour: int


@dataclass(frozen=True, kw_only=True)
class Node:
    name: str
    engine: str
    address: str
    cpus: float
    memory_bytes: int
    #: [{"index": int, "kind": str, "memory_bytes": int, "uuid": str}]
    accelerators: list[Json]
    #: declared by a node file, not found
    declared: bool
    seen_at: float


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A run's code: a tar, known by the SHA-256 of its manifest."""

    id: int
    project_id: int
    digest: str
    #: path under the root
    path: str
    files: int
    bytes: int
    #: commit of the folder's Git checkout; None outside one
    commit: str | None
    #: whether tracked or untracked files differed from that commit
    dirty: bool
    created_at: float


@dataclass(frozen=True, kw_only=True)
class Run:
    id: int
    project_id: int
    #: "job", "evaluation" or "endpoint": the module that knows what it is for
    owner: str
    #: id of the evaluation or endpoint; None for a job, whose id is the run's
    owner_id: int | None
    name: str
    state: RunState
    #: one sentence: why it waits, or how it ended
    reason: str
    command: list[str]
    environment: dict[str, str]
    parameters: Json
    spec: str
    cpus: float
    memory_bytes: int
    accelerators: int
    accelerator_kind: str | None
    #: processes on the node
    processes: int
    #: 1 (last) to 9 (first); 5 by default
    priority: int
    #: seconds of running; None: no limit
    max_duration: float | None
    grace: float
    #: how often a lost attempt is placed again
    retries: int
    #: attempts made
    attempts: int
    #: attempts that count against `retries`; reset when retried by hand
    losses: int
    snapshot_id: int | None
    #: [{"dataset": name, "version": int, "version_id": int}]
    datasets: list[Json]
    #: what the owner wants the helper to do, and its own settings; see `controller.launches`
    work: Json
    #: within a project a second submit with the same key returns the first run
    key: str | None
    submitted_by: int
    created_at: float
    #: start of the first attempt
    started_at: float | None
    ended_at: float | None
    exit_code: int | None
    cause: Cause | None
    #: set when somebody asked to stop
    stop_at: float | None
    stop_reason: str


@dataclass(frozen=True, kw_only=True)
class Attempt:
    #: "<run>-<number>"
    id: str
    run_id: int
    number: int
    state: AttemptState
    engine: str
    #: [{"node": str, "address": str, "accelerators": [int]}]
    placement: list[Json]
    #: byte offset up to which each node's events.jsonl was taken into the record
    cursors: list[int]
    #: "host:port" of a replica or workspace
    address: str | None
    ready: bool
    #: what the gateway must send to a replica
    secret: str | None
    created_at: float
    #: the runner's own times
    started_at: float | None
    launched_at: float | None
    ended_at: float | None
    #: start of the grace period
    stopping_at: float | None
    exit_code: int | None
    signal: int | None
    cause: Cause | None
    message: str


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    id: int
    run_id: int
    attempt_id: str
    name: str
    #: under the root
    path: str
    step: int | None
    epoch: int | None
    metrics: Json
    bytes: int
    sha256: str
    #: "torch" or "safetensors"
    format: str
    valid: bool
    reason: str
    created_at: float


@dataclass(frozen=True, kw_only=True)
class Dataset:
    id: int
    project_id: int
    name: str
    created_at: float


@dataclass(frozen=True, kw_only=True)
class DatasetVersion:
    id: int
    dataset_id: int
    version: int
    #: SHA-256 of the manifest, which is an object of its own
    digest: str
    files: int
    bytes: int
    #: label counts, pixel statistics, warnings
    statistics: Json
    source: str
    created_by: int
    created_at: float


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    id: int
    project_id: int
    name: str
    state: EvaluationState
    reason: str
    #: what to do about a pause
    remedy: str
    #: a pause's cause: no_space, no_inodes, over_quota, read_only, no_permission, io_error
    cause: str | None
    job_id: int
    #: worker, outputs, score, spec, workers, snapshot_id: see `rules.cells.Plan`
    plan: Json
    #: how often it paused
    pauses: int
    #: worker rounds dealt
    rounds: int
    key: str | None
    #: under the root
    path: str
    submitted_by: int
    created_at: float
    ended_at: float | None


@dataclass(frozen=True, kw_only=True)
class Cell:
    id: int
    evaluation_id: int
    checkpoint_id: int
    case_id: str
    #: digest of all that the output depends on
    key: str
    state: CellState
    #: worker run that it is dealt to
    run_id: int | None
    score: float | None
    scores: Json
    #: [{"name", "bytes", "sha256", "kind"}]
    outputs: list[Json]
    #: under the root
    path: str
    #: id of the publication that made it valid
    publication: str | None
    #: outputs published for it, ever
    ran: int
    tries: int
    reason: str
    seconds: float | None
    ended_at: float | None


@dataclass(frozen=True, kw_only=True)
class Model:
    id: int
    project_id: int
    name: str
    created_at: float


@dataclass(frozen=True, kw_only=True)
class ModelVersion:
    id: int
    model_id: int
    version: int
    state: VersionState
    reason: str
    #: {"job": id, "checkpoint": name, "evaluation": id, "score": ..., "datasets": [...]}: where it came from
    source: Json
    #: folder under the root
    path: str
    #: file in that folder
    weights: str
    format: str
    bytes: int
    sha256: str
    #: {"entry": "predictor.py:Digits"}
    predictor: Json
    snapshot_id: int | None
    key: str | None
    created_by: int
    created_at: float


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    id: int
    project_id: int
    name: str
    state: EndpointState
    reason: str
    #: revision that is served
    revision: int
    created_at: float
    stopped_at: float | None


@dataclass(frozen=True, kw_only=True)
class Revision:
    id: int
    endpoint_id: int
    number: int
    model_version_id: int
    replicas: int
    spec: str
    #: seconds after which a replica ends by itself; None: never
    max_duration: float | None
    created_by: int
    created_at: float


@dataclass(frozen=True, kw_only=True)
class EndpointToken:
    id: int
    endpoint_id: int
    name: str
    hash: str
    created_at: float
    expires_at: float | None
    revoked_at: float | None


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """One attempt on the bill. While it is open, `seconds` and `amount` are as of the last look."""

    id: int
    attempt_id: str
    run_id: int
    project_id: int
    owner: str
    spec: str
    started_at: float
    ended_at: float | None
    seconds: float
    price_hour: int
    amount: int
    details: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Lease:
    """`token` grows by one each time the lease changes hands: a holder with an old one has lost it."""

    name: str
    holder: str
    token: int
    expires_at: float
