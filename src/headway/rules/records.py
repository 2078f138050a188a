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
    Billing,
    CellState,
    EndpointState,
    EvaluationState,
    NodeState,
    ObjectState,
    PushState,
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
    #: share of what is contended for, against the other projects' weights
    weight: float = 1.0
    #: most that its runs may occupy together: any of "cpus", "memory_bytes", "accelerators", "nodes", "runs"
    limits: Json = field(default_factory=dict)
    #: URL that its data lies under; None: the platform's own objects
    storage: str | None = None
    #: credentials, endpoint and region of that URL
    connection_id: int | None = None
    #: that its data may lie in; []: any
    regions: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Connection:
    """How an object store is reached, and with whose rights."""

    id: int
    name: str
    #: "s3", "oss", "obs", "gcs" or "azure"
    kind: str
    endpoint: str
    region: str
    options: Json
    #: encrypted JSON (Fernet)
    secret: str
    created_by: int
    created_at: float
    changed_at: float


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
    state: NodeState = NodeState.UP
    #: why it is not up
    reason: str = ""
    #: file or URL that exists once the machine is about to be taken away; None: it gives no notice
    notice: str | None = None


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
    #: processes on each node
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
    #: nodes it runs on at once, all or none; `cpus`, `memory_bytes` and `accelerators` are those of each
    nodes: int = 1
    #: lower ends of what was asked as a range: any of "nodes", "cpus", "memory_bytes", "accelerators"; the columns of
    #: the same names hold the upper ends. What an attempt really has is in its placement.
    least: Json = field(default_factory=dict)
    billing: Billing = Billing.ON_DEMAND
    #: of a spot run: {"bid": "market" | "cap", "max_price": micros an hour | None, "max_discount": 0..1 | None (least
    #: part of the on-demand price that is saved), "protection": seconds within which our scheduler never reclaims}
    spot: Json = field(default_factory=dict)
    #: seconds of waiting and running together; None: no limit
    max_wait: float | None = None
    #: runs that must have succeeded before this one is placed
    after: list[int] = field(default_factory=list)
    #: whether one of `after` has not ended yet; the scheduler leaves it alone
    blocked: bool = False
    #: place in the queue among runs of the same priority, smallest first; the time of submission unless moved by hand
    position: float = 0.0
    #: digest of all that decides where and when it may be placed but its turn; runs of one shape are interchangeable
    shape: str = ""
    #: when it last began to wait
    queued_at: float = 0.0
    #: when it was submitted, or last retried by hand: `max_wait` counts from here
    asked_at: float = 0.0
    #: nodes that it is not placed on again if there are others
    avoid: list[str] = field(default_factory=list)
    #: what else ends it; see `protocol.launch.Launch.limits`
    limits: Json = field(default_factory=dict)
    #: cause -> {"action": "stop" | "again" | "elsewhere", "times": int}, instead of the usual rule
    retry_rules: Json = field(default_factory=dict)
    #: how often its place was reclaimed
    reclaims: int = 0
    #: set when somebody asked to pause it
    pause_at: float | None = None
    tags: dict[str, str] = field(default_factory=dict)
    #: "ddp@2": what it was submitted from
    template: str | None = None


@dataclass(frozen=True, kw_only=True)
class Attempt:
    #: "<run>-<number>"
    id: str
    run_id: int
    number: int
    state: AttemptState
    engine: str
    #: [{"node": str, "address": str, "accelerators": [int], "cpus": float, "memory_bytes": int}], one a node
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
    #: when its place was asked back, and why
    reclaim_at: float | None = None
    reclaim_reason: str = ""
    #: seconds that it was given then; None: what its run's `spot` says
    reclaim_grace: float | None = None


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
    #: "torch", "safetensors", "safetensors_index", "distributed" or "deepspeed"; the last three are folders
    format: str
    valid: bool
    reason: str
    created_at: float
    #: files of a folder; 1 for a file
    files: int = 1
    #: how long saving took, and how much of that training stood still; None: not told
    save_seconds: float | None = None
    blocked_seconds: float | None = None
    #: when the retention rule removed its bytes; the row stays
    removed_at: float | None = None


@dataclass(frozen=True, kw_only=True)
class Dataset:
    id: int
    project_id: int
    name: str
    created_at: float
    #: the highest that a version of it was ever given: none is given twice
    numbers: int = 0


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
    #: versions that it came after: ["digits@1"]
    parents: list[str] = field(default_factory=list)
    #: what its push had to send
    sent_bytes: int = 0
    #: whether a look at its files found some that are not what they were; pushing them again mends it
    damaged: bool = False


@dataclass(frozen=True, kw_only=True)
class StoredObject:
    """An object of the project's data, known before it is written and until it is removed."""

    id: int
    project_id: int
    #: "pack", "part", "manifest" or "version"; see `storage.layout`
    kind: str
    #: its SHA-256, the manifest's digest, or "<dataset>/<version>"
    name: str
    bytes: int
    #: contents of a pack
    files: int
    state: ObjectState
    created_at: float
    #: when a push last counted on it: who removes it must find this unchanged
    touched_at: float


@dataclass(frozen=True, kw_only=True)
class Content:
    """A content that the project holds: in a pack, or as a large file in parts."""

    project_id: int
    #: 32 bytes
    sha256: bytes
    bytes: int
    pack_id: int | None
    offset: int | None
    #: ids of the parts' rows, in order
    parts: list[int] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Push:
    id: int
    project_id: int
    #: dataset
    name: str
    source: str
    created_by: int
    created_at: float
    touched_at: float
    state: PushState
    #: that it became
    version_id: int | None
    sent_bytes: int


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    id: int
    project_id: int
    name: str
    state: EvaluationState
    reason: str
    #: what to do about a pause
    remedy: str
    #: a pause's cause: no_space, no_inodes, over_quota, read_only, no_permission, io_error, ...
    cause: str | None
    #: the first of `jobs`
    job_id: int | None
    #: the request with snapshot and datasets pinned; see `services.evaluation_requests`
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
    #: jobs whose checkpoints it evaluates
    jobs: list[int] = field(default_factory=list)
    #: of what was asked for and the keys of its cells: asked for again, it is the same evaluation
    digest: str = ""
    #: takes each new valid checkpoint of the jobs
    follow: bool = False
    #: absolute folder that the user gave for its outputs; None: its own, see `rules.cells.outputs_folder`
    target: str | None = None
    #: {} or {"cells", "bytes", "files", "needed_bytes", "needed_files", "fits": bool, "sentence"}
    forecast: Json = field(default_factory=dict)
    #: side_by_side, spare or after_training
    policy: str = "side_by_side"


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
    #: [{"name", "bytes", "sha256", "kind", ...what the kind's check told}]
    outputs: list[Json]
    #: under the root, or absolute where its evaluation's outputs are elsewhere
    path: str
    #: id of the publication that made it valid
    publication: str | None
    #: outputs published for it, ever
    ran: int
    tries: int
    reason: str
    seconds: float | None
    ended_at: float | None
    #: folder name of its checkpoint, unique in the evaluation
    row: str = ""
    repeat: int = 0
    #: of all that is published
    bytes: int = 0
    files: int = 0
    #: what a failure is grouped by ("exit", "exception", "timeout", "killed", "oom_kill", "invalid_output", "no_score",
    #: "load", "check", "damaged"), or "adopted"
    cause: str | None = None


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


@dataclass(frozen=True, kw_only=True)
class Template:
    """A saved job form. Shipped ones are no rows: see `headway.templates`."""

    id: int
    project_id: int
    name: str
    created_at: float


@dataclass(frozen=True, kw_only=True)
class TemplateVersion:
    id: int
    template_id: int
    version: int
    description: str
    #: {"parameters": {name: {"default", "required", "choices", "help"}}, "job": fields of a job request}
    body: Json
    snapshot_id: int | None
    created_by: int
    created_at: float
