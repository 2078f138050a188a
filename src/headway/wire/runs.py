"""Runs, jobs, logs, metrics, checkpoints, nodes, specs, the bill."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from headway.wire.base import Answer, Request


class Least(Request):
    """Lower ends of what is asked as a range; the job's own fields hold the upper ends."""

    nodes: int | None = Field(default=None, ge=1)
    cpus: float | None = Field(default=None, gt=0)
    memory_bytes: int | None = Field(default=None, gt=0)
    accelerators: int | None = Field(default=None, ge=0)


class Spot(Request):
    """How a spot run bids, and how it is asked to leave."""

    #: "market": pays what it costs; "cap": is reclaimed above `max_price` or below `max_discount`
    bid: Literal["market", "cap"] = "market"
    #: currency units an hour
    max_price: float | None = Field(default=None, gt=0)
    #: least part of the on-demand price that must be saved, 0 to 1
    max_discount: float | None = Field(default=None, gt=0, lt=1)
    #: seconds from its start within which our own scheduler never reclaims it
    protection: float = Field(default=3600, ge=0)
    #: seconds from the notice to the kill
    grace: float = Field(default=120, ge=0)


class NoProgress(Request):
    """Ends a run whose metric has become no better for so long."""

    metric: str = Field(min_length=1)
    seconds: float = Field(gt=0)
    mode: Literal["min", "max"] = "min"


class Limits(Request):
    """What else ends a run. None: not looked at; `hang` has a default of 30 minutes, 0 switches it off."""

    #: seconds without a line
    idle_output: float | None = Field(default=None, gt=0)
    #: seconds without a line and without work
    hang: float | None = Field(default=None, ge=0)
    no_progress: NoProgress | None = None
    #: ends it when a metric (True: any; or the names of some) becomes NaN or infinite
    nan: bool | list[str] | None = None
    #: most that it may have under its folders
    disk_bytes: int | None = Field(default=None, gt=0)


class RetryRule(Request):
    """What follows one cause, instead of the usual rule."""

    action: Literal["stop", "again", "elsewhere"]
    times: int = Field(default=3, ge=0, le=1000)


class KeepBest(Request):
    n: int = Field(ge=1)
    metric: str = Field(min_length=1)
    mode: Literal["min", "max"] = "max"


class Retention(Request):
    """Which checkpoints are kept; what any rule keeps stays, and so does all when there is no rule."""

    keep_last: int | None = Field(default=None, ge=1)
    keep_best: KeepBest | None = None
    #: every so many steps (epochs where there are no steps)
    keep_every: int | None = Field(default=None, ge=1)


class JobRequest(Request):
    """A training run. `cpus`, `memory_bytes` and `accelerators`, of each node, override what `spec` says."""

    command: list[str] = Field(min_length=1)
    name: str = Field(default="", max_length=100)
    environment: dict[str, str] = {}
    parameters: dict[str, Any] = {}
    spec: str = "small"
    cpus: float | None = Field(default=None, gt=0)
    memory_bytes: int | None = Field(default=None, gt=0)
    accelerators: int | None = Field(default=None, ge=0)
    accelerator_kind: str | None = None
    #: on each node
    processes: int = Field(default=1, ge=1, le=1024)
    #: all or none
    nodes: int = Field(default=1, ge=1, le=4096)
    least: Least = Least()
    priority: int = Field(default=5, ge=1, le=9)
    billing: Literal["on_demand", "spot", "subscription"] = "on_demand"
    #: only with billing spot
    spot: Spot | None = None
    #: seconds of running
    max_duration: float | None = Field(default=None, gt=0)
    #: seconds of waiting and running together
    max_wait: float | None = Field(default=None, gt=0)
    grace: float = Field(default=30, ge=0)
    retries: int = Field(default=3, ge=0)
    #: cause -> rule
    retry_rules: dict[str, RetryRule] = {}
    limits: Limits = Limits()
    #: digest of an uploaded snapshot; None: the command runs in an empty folder
    snapshot: str | None = None
    #: "digits@1" or "digits" (newest), or "train=digits@1" to have it in a channel of that name; versions are pinned
    datasets: list[str] = []
    #: patterns under CHECKPOINT_PATH that are checkpoints, files or folders; with a slash at the end only folders
    checkpoints: list[str] = ["*.pt", "*.pth", "*.safetensors", "*/"]
    retention: Retention = Retention()
    #: [{"Name": str, "Regex": str}] with one group; keys in lower case do as well
    metric_patterns: list[dict[str, str]] = []
    #: jobs that must have succeeded before this one is placed
    after: list[int] = []
    tags: dict[str, str] = {}
    #: names of another platform that its script looks for
    compat: Literal["pai", "modelarts", "sagemaker"] | None = None
    #: "process": one process a rank; "node": one launcher a node. None: as the command and `compat` tell
    view: Literal["process", "node"] | None = None
    #: what it was made from: "ddp@0"
    template: str | None = Field(default=None, max_length=200)
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
    #: what was asked of each node, and how many of them; `least` has the lower ends of ranges
    nodes: int = 1
    least: dict[str, Any] = {}
    accelerator_kind: str | None = None
    environment: dict[str, str] = {}
    billing: str = "on_demand"
    #: of a spot run; max_price in currency units an hour
    spot: dict[str, Any] = {}
    max_wait: float | None = None
    retries: int = 0
    retry_rules: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    #: patterns
    checkpoint_patterns: list[str] = []
    retention: dict[str, Any] = {}
    compat: str | None = None
    #: jobs that it comes after, and whether one of them has not succeeded yet
    after: list[int] = []
    blocked: bool = False
    tags: dict[str, str] = {}
    template: str | None = None
    #: how often its place was reclaimed
    reclaims: int = 0
    #: when it last began to wait
    queued_at: datetime | None = None
    #: when it was asked to pause
    pause_at: datetime | None = None
    #: one sentence why it is not running; empty when it is, or has ended
    waits: str = ""
    #: one sentence of what to do about its end; empty where nothing is wrong
    remedy: str = ""


class AttemptView(Answer):
    """One placement of a run."""

    id: str
    number: int
    state: str
    #: names
    nodes: list[str]
    #: [{"node", "address", "accelerators", "cpus", "memory_bytes"}], one a node
    placement: list[dict[str, Any]]
    created_at: datetime
    #: of the runner, and of the user's processes
    started_at: datetime | None
    launched_at: datetime | None
    ended_at: datetime | None
    exit_code: int | None
    signal: int | None
    cause: str | None
    #: one sentence: why it ended, and what to do about that
    message: str
    remedy: str
    reclaim_at: datetime | None
    reclaim_reason: str
    #: currency units
    cost: float


class CloneRequest(Request):
    """A new job with the request of another one."""

    #: fields of a job request that are to be otherwise. Of `parameters`, `environment`, `tags`, `least`, `limits`,
    #: `spot`, `retention` and `retry_rules` only the keys given change, and null takes one out. A parameter changes
    #: in the command too, where that says `--name value`, `--name=value` or `name=value`.
    job: dict[str, Any] = {}
    #: a second clone with the same key returns the first one
    key: str | None = Field(default=None, max_length=128)


class ChangeRequest(Request):
    """What of a job changes while it is queued or runs; what is not given stays. name and tags change any time."""

    priority: int = Field(default=5, ge=1, le=9)
    #: seconds of running, counted from its start; null: no limit
    max_duration: float | None = Field(default=None, gt=0)
    max_wait: float | None = Field(default=None, gt=0)
    grace: float = Field(default=30, ge=0)
    #: only the keys given change; null takes one out
    limits: Limits = Limits()
    retries: int = Field(default=3, ge=0)
    retry_rules: dict[str, RetryRule] = {}
    #: only while it waits
    after: list[int] = []
    name: str = Field(default="", max_length=100)
    #: takes the place of all tags
    tags: dict[str, str] = {}


class DryRunView(Answer):
    """What a submit would do. Nothing was kept."""

    #: the exact request: defaults filled in, amounts of the spec, dataset versions pinned
    request: dict[str, Any]
    #: "starts", "waits", "blocked" or "held"
    would: str
    #: one sentence
    sentence: str
    #: where it would start now
    nodes: list[str]
    #: as a process of it would find; {run} and {attempt} stand for numbers that it does not have yet
    command: list[str]
    environment: dict[str, str]
    #: "process": one process a rank; "node": one launcher a node
    view: str
    #: units of currency an hour for all nodes, at the present price; None: not known
    price_hour: float | None = None


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
    #: of a folder
    files: int = 1
    save_seconds: float | None = None
    #: for which training stood still
    blocked_seconds: float | None = None
    #: when the retention rule removed its bytes
    removed_at: datetime | None = None


class JobView(RunView):
    checkpoints: int
    #: last value of each metric
    metrics: dict[str, float]


class StopRequest(Request):
    reason: str = Field(default="", max_length=2000)
    #: seconds; None: the run's own
    grace: float | None = Field(default=None, ge=0)


class LogLineView(Answer):
    time: float
    rank: int
    #: "out", "err" or "headway"
    stream: str
    text: str
    attempt: str
    #: position to go on from: "<attempt>:<byte offset>", of several nodes with an offset each
    cursor: str


class LogPage(Answer):
    lines: list[LogLineView]
    #: give it as `after` to go on from here
    cursor: str
    #: whether the run has ended and nothing follows
    complete: bool
    #: whether more can be read behind the cursor now; a search may answer with few lines, or none, before its end
    more: bool = False


class SpecView(Answer):
    name: str
    cpus: float
    memory_bytes: int
    accelerators: int
    accelerator_kind: str | None
    price_hour: float


class BillSegment(Answer):
    begin: datetime
    end: datetime
    price_hour: float


class BillEntry(Answer):
    attempt: str
    run: int
    owner: str
    spec: str
    started_at: datetime
    ended_at: datetime | None
    seconds: float
    #: of all its nodes; of a spot attempt the latest
    price_hour: float
    amount: float
    #: "on_demand", "spot" or "subscription", which costs nothing more
    billing: str = "on_demand"
    #: of a spot attempt: what it cost from when to when
    segments: list[BillSegment] = []


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
