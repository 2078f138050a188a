"""`launch.json`: all that a runner needs to know, written once before the start."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from headway.protocol.layout import LAUNCH_VERSION

VERSION = LAUNCH_VERSION


@dataclass(frozen=True)
class Launch:
    """One attempt as the runner sees it. Paths are absolute; durations are seconds."""

    attempt: str
    run: int
    number: int
    project: str
    #: program and arguments; a first word without a slash is looked up in the PATH of `environment`
    command: list[str]
    #: the user process's whole environment but for what the runner adds (ranks, sockets, rendezvous)
    environment: dict[str, str]
    #: working folder; made by the runner when missing
    cwd: str
    #: processes on each node
    processes: int = 1
    #: "process": one process a rank, with torch's meaning of RANK and WORLD_SIZE; "node": one launcher (torchrun,
    #: accelerate, deepspeed) a node, for which RANK and WORLD_SIZE count nodes and NPROC_PER_NODE is `processes`
    view: str = "process"
    #: [{"name": str, "address": str, "accelerators": [int, ...], "notice": path or URL | None, "notice_grace": seconds,
    #: "environment": {...}, "command": [...] | None}], each with a runner of its own; all but the name may be missing.
    #: notice: exists, or answers 200, once the machine is about to be taken away, `notice_grace` before that.
    #: environment, command: what differs from the others on this node
    nodes: list[dict[str, Any]] = field(default_factory=list)
    #: running time after which the runner ends the attempt; None: no limit
    max_duration: float | None = None
    #: from SIGTERM to SIGKILL
    grace: float = 30.0
    #: resident memory over all processes after which the runner ends the attempt; None: not watched
    memory_bytes: int | None = None
    #: what else ends it; every key may be missing. "idle_output": seconds without a line; "hang": seconds without a
    #: line and without work; "no_progress": {"metric", "seconds", "mode": "min" | "max"}; "nan": True or a list of
    #: metrics; "disk_bytes": most that it may have under its folders; "oom": "process": of too much memory it loses the
    #: largest process that a rank has started, and goes on
    limits: dict[str, Any] = field(default_factory=dict)
    #: command before a process id that prints the stacks of that process; None: none is printed
    stacks: list[str] | None = None
    #: command of the MLflow-compatible endpoint, started at its first connection; None: there is none
    tracking: list[str] | None = None
    #: metric patterns for run.log: [{"name": str, "regex": str}] with one group; built-in ones apply besides
    metric_patterns: list[dict[str, str]] = field(default_factory=list)
    #: command of the helper process (headway's own interpreter); None: this attempt needs none
    helper: list[str] | None = None
    #: what the helper has to do; see `headway.helper`. `wait_for`: a folder; the helper is started only when something
    #: appears in it, so that a run that never needs it does not wait for its start
    plan: dict[str, Any] = field(default_factory=dict)
    #: folder of hint sockets; see `protocol.hints`
    hints: str | None = None
    #: bytes of run.log after which lines are dropped with a notice
    log_limit: int = 1 << 30
    version: int = VERSION

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Launch:
        """Raises ValueError when `raw` is of another version."""
        if raw.get("version") != VERSION:
            raise ValueError(f"launch.json has version {raw.get('version')!r}; this runner reads {VERSION}")
        return cls(**raw)
