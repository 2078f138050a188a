"""How an attempt ended: the closed list of causes, and what `exit.json` holds."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from headway.protocol.causes import Cause

__all__ = ["Cause", "Exit"]


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
