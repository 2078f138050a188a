"""How every loop works: observe outside any transaction, decide by rules, apply under the lease's guard."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headway.engines.base import Engine
from headway.rules.records import Lease
from headway.services.context import Services
from headway.store.base import LeaseLostError, Transaction


@dataclass
class Desk:
    """What all loops of one controller share. `lease` is None while another controller leads."""

    services: Services
    engine: Engine
    #: URL of the object store and folder of the node's cache, for the helpers of runs
    objects_url: str
    cache: Path
    lease: Lease | None = None
    #: attempts whose runner said something since they were last looked at
    said: set[str] = field(default_factory=set)

    def now(self) -> float:
        return self.services.clock()

    @contextmanager
    def apply(self) -> Iterator[Transaction]:
        """A transaction that commits only while this controller holds the lease. Raises LeaseLostError."""
        if self.lease is None:
            raise LeaseLostError("this controller does not lead")
        with self.services.store.begin() as tx:
            tx.leases.guard(self.lease)
            yield tx


class Loop(ABC):
    #: word in the log
    name: str
    #: hints that wake it
    topics: frozenset[str]
    #: seconds after which it looks by itself
    interval: float

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    @abstractmethod
    def step(self) -> set[str]:
        """One pass. Returns the hint topics that follow from what it changed. Raises LeaseLostError."""
