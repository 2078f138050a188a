"""Nodes and what is done to them, the queue, project limits, prices."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field, model_validator

from headway.errors import UsageError
from headway.wire.base import Answer, Request


class NodeRunView(Answer):
    """What a run has of a node."""

    run: int
    attempt: str
    #: job, evaluation or endpoint
    owner: str
    billing: str
    cpus: float
    memory_bytes: int
    accelerators: list[int]
    #: when its place is free at the latest; None: it has no limit
    until: datetime | None
    #: whether it was asked to leave
    leaving: bool


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
    #: "up", "drained" (takes nothing new) or "lost"
    state: str = "up"
    #: why it is not up
    reason: str = ""
    #: file or URL by which its machine says that it will be taken away
    notice: str | None = None
    runs: list[NodeRunView] = []


class DrainRequest(Request):
    reason: str = Field(default="", max_length=500)


class ReclaimRequest(Request):
    """A drill: the machine wants places back. None: what each run says of itself, 120 s where it says nothing."""

    #: seconds from the notice to the kill
    grace: float | None = Field(default=None, ge=0, le=86400)
    #: only this run; None: every spot run there
    run: int | None = None
    reason: str = Field(default="", max_length=500)


class ReclaimView(Answer):
    node: str
    #: runs that are asked to leave now, and those that were asked before
    asked: list[int]
    already: list[int]
    #: runs on it that keep their place, as they are not on spot
    stay: list[int]


class QueueEntry(Answer):
    #: 1 is next; None of one that comes after a run that has not succeeded
    place: int | None
    run: int
    owner: str
    name: str
    priority: int
    #: what it has gained by waiting
    effective_priority: int
    billing: str
    queued_at: datetime
    #: one sentence
    waits: str


class QueueView(Answer):
    """What waits in a project, next first, then what comes after others."""

    #: how many wait in all
    total: int
    entries: list[QueueEntry]


class MoveRequest(Request):
    """Exactly one of the three."""

    #: right before this run, of the same project and priority
    before: int | None = None
    #: before, or behind, all of the same project and priority
    first: bool = False
    last: bool = False

    @model_validator(mode="after")
    def _one(self) -> MoveRequest:
        """Raises UsageError."""
        if (self.before is not None) + self.first + self.last != 1:
            raise UsageError("Where to is not clear.", "Give one of before, first and last.")
        return self


class LimitsRequest(Request):
    """A value given is set (None: no limit); one that is left out stays."""

    weight: float = Field(default=1.0, gt=0, le=1e6)
    cpus: float | None = Field(default=None, ge=0)
    memory_bytes: int | None = Field(default=None, ge=0)
    accelerators: int | None = Field(default=None, ge=0)
    nodes: int | None = Field(default=None, ge=0)
    runs: int | None = Field(default=None, ge=0)


class LimitsView(Answer):
    """What a project may occupy at once, and does. A resource that is not among `limits` has none."""

    project: str
    weight: float
    limits: dict[str, float]
    used: dict[str, float]
    #: runs that wait
    waiting: int


class PriceView(Answer):
    """What a spec costs on the spot market. Units of currency an hour."""

    spec: str
    on_demand: float
    #: the on-demand price where no source knows another
    spot: float
    #: whether a source knows it, and since when it holds
    known: bool
    since: datetime | None
    #: lowest and highest of the last 24 hours
    low: float
    high: float
