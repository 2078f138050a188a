"""How an attempt ended: the closed list of causes, and what `exit.json` holds."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any


class Cause(str, Enum):
    """Why an attempt ended. Closed: a new cause is a new rule in `rules.retries`."""

    #: every user process returned 0
    DONE = "done"
    #: a user process returned something else than 0
    EXIT = "exit"
    #: a user process died of a signal that headway did not send
    KILLED = "killed"
    #: the command could not be started at all (no such program, not executable)
    NOT_STARTED = "not_started"
    #: data, code or environment could not be made ready
    PREPARE_FAILED = "prepare_failed"
    #: ended because somebody asked (`headway stop`)
    STOPPED = "stopped"
    #: ran longer than its `max_duration`
    TIME_LIMIT = "time_limit"
    #: used more memory than it may
    OOM_KILL = "oom_kill"
    #: a later attempt of the same run exists
    FENCED = "fenced"
    #: the runner died and left no exit.json (told by the engine, never written by a runner)
    RUNNER_LOST = "runner_lost"
    #: the node does not answer any more (told by the engine)
    NODE_LOST = "node_lost"


@dataclass(frozen=True)
class Exit:
    """The content of `exit.json`, written last. Times are seconds since the epoch, UTC."""

    cause: Cause
    #: exit code of the first process that failed, else 0; None when there was no process
    code: int | None
    #: signal that ended the first process that failed
    signal: int | None
    #: rank of the first process that failed
    rank: int | None
    #: one sentence for people, with the offending value
    message: str
    #: when the runner began
    started: float
    #: when the user processes began; None when they never did
    launched: float | None
    ended: float
    #: {"cpu_seconds", "max_rss_bytes"} summed over user processes
    usage: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "cause": self.cause.value}

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Exit:
        """Raises ValueError or TypeError on a shape that is not an exit."""
        return cls(**{**raw, "cause": Cause(raw["cause"])})
