"""Runs, jobs, logs, metrics, checkpoints, nodes, specs, the bill."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from headway.wire.base import Answer, Request


class JobRequest(Request):
    """A training run. `cpus`, `memory_bytes` and `accelerators` override what `spec` says."""

    command: list[str] = Field(min_length=1)
    name: str = Field(default="", max_length=100)
    environment: dict[str, str] = {}
    parameters: dict[str, Any] = {}
    spec: str = "small"
    cpus: float | None = Field(default=None, gt=0)
    memory_bytes: int | None = Field(default=None, gt=0)
    accelerators: int | None = Field(default=None, ge=0)
    accelerator_kind: str | None = None
    processes: int = Field(default=1, ge=1, le=1024)
    priority: int = Field(default=5, ge=1, le=9)
    max_duration: float | None = Field(default=None, gt=0)
    grace: float = Field(default=30, ge=0)
    retries: int = Field(default=3, ge=0)
    #: digest of an uploaded snapshot; None: the command runs in an empty folder
    snapshot: str | None = None
    #: "digits@1" or "digits" (newest); the run pins the version
    datasets: list[str] = []
    #: file patterns under CHECKPOINT_PATH that are checkpoints
    checkpoints: list[str] = ["*.pt", "*.pth", "*.safetensors"]
    #: [{"Name": str, "Regex": str}] with one group; keys in lower case do as well
    metric_patterns: list[dict[str, str]] = []
    held: bool = False
    #: a second submit with the same key returns the first run
    key: str | None = Field(default=None, max_length=128)


class RunView(Answer):
    id: int
    project: str
    owner: str
    owner_id: int | None
    name: str
    state: str
    reason: str
    command: list[str]
    parameters: dict[str, Any]
    spec: str
    cpus: float
    memory_bytes: int
    accelerators: int
    processes: int
    priority: int
    max_duration: float | None
    #: seconds from the request to stop to the kill
    grace: float
    attempts: int
    #: node and accelerators of the newest attempt, when it has one
    placement: list[dict[str, Any]]
    datasets: list[str]
    snapshot: str | None
    #: commit of the snapshot and whether it was dirty
    commit: str | None
    dirty: bool | None
    submitted_by: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    exit_code: int | None
    cause: str | None
    #: currency units billed so far
    cost: float
    #: folder on the server's shared root with OUTPUT_PATH
    output_path: str
    #: what carried it out last: "17-1"
    attempt: str | None


class CheckpointView(Answer):
    id: int
    name: str
    #: absolute, on the shared root
    path: str
    step: int | None
    epoch: int | None
    metrics: dict[str, Any]
    bytes: int
    sha256: str
    format: str
    valid: bool
    reason: str
    created_at: datetime


class JobView(RunView):
    checkpoints: int
    #: last value of each metric
    metrics: dict[str, float]


class StopRequest(Request):
    reason: str = ""
    #: seconds; None: the run's own
    grace: float | None = Field(default=None, ge=0)


class LogLineView(Answer):
    time: float
    rank: int
    #: "out", "err" or "headway"
    stream: str
    text: str
    attempt: str
    #: position to go on from: "<attempt>:<byte offset>"
    cursor: str


class LogPage(Answer):
    lines: list[LogLineView]
    #: give it as `after` to go on from here
    cursor: str
    #: whether the run has ended and nothing follows
    complete: bool


class MetricPoint(Answer):
    time: float
    step: int
    value: float
    rank: int = 0


class MetricSeries(Answer):
    name: str
    points: list[MetricPoint]


class SpecView(Answer):
    name: str
    cpus: float
    memory_bytes: int
    accelerators: int
    accelerator_kind: str | None
    price_hour: float


class NodeView(Answer):
    name: str
    engine: str
    cpus: float
    memory_bytes: int
    accelerators: list[dict[str, Any]]
    free_cpus: float
    free_memory_bytes: int
    free_accelerators: list[int]
    declared: bool
    seen_at: datetime


class BillEntry(Answer):
    attempt: str
    run: int
    owner: str
    spec: str
    started_at: datetime
    ended_at: datetime | None
    seconds: float
    price_hour: float
    amount: float


class Bill(Answer):
    currency: str
    total: float
    entries: list[BillEntry]


class SnapshotView(Answer):
    digest: str
    files: int
    bytes: int
    commit: str | None
    dirty: bool
