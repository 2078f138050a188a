"""The nodes' caches of data: what they hold, and what is to be fetched ahead of time."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from headway.wire.base import Answer, Request


class CacheView(Answer):
    """As the last run on the node left it, or the last command there."""

    node: str
    folder: str
    at: datetime
    units: int
    bytes: int
    files: int
    #: of live runs: they are not evicted
    pinned_units: int
    pinned_bytes: int
    #: watermarks
    high_bytes: int
    low_bytes: int
    #: files that were there when a run asked, and that had to be fetched
    hits: int
    hit_bytes: int
    misses: int
    miss_bytes: int
    #: share of what was asked for that was there; None: nothing was asked for
    hit_rate: float | None
    #: files that got no room
    refused: int
    refused_bytes: int
    #: files that were damaged, and were fetched again
    corrupt: int
    evicted_units: int
    evicted_bytes: int


class WarmRequest(Request):
    """Fetches a version into the caches of nodes: a short run on each."""

    #: "digits", "digits@3"
    dataset: str = Field(min_length=1)
    #: empty: every node that is up
    nodes: list[str] = Field(default=[], max_length=1000)
    #: cache: files for runs in mode cache; stream: packs for runs in mode stream
    mode: Literal["cache", "stream"] = "cache"
    spec: str = "small"
