"""How every loop works: observe outside any transaction, decide by rules, apply under the lease's guard."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy.exc

from headway.engines.base import Engine
from headway.rules.records import Lease
from headway.services.context import Services
from headway.store.base import LeaseLostError, Transaction

_log = logging.getLogger(__name__)

LEASE = "controller"
LEASE_SECONDS = 15.0
RENEW_SECONDS = 5.0
#: a lease that was not renewed for so long may be somebody else's at any moment: nothing is started or stopped by it
TRUST_SECONDS = LEASE_SECONDS - 3.0
#: the same trouble is logged this often
QUIET_SECONDS = 60.0


class Quiet:
    """Says whether a trouble is due to be logged: when it is new, and then every `QUIET_SECONDS`. For any thread."""

    def __init__(self) -> None:
        self._said: dict[str, float] = {}
        self._lock = threading.Lock()

    def due(self, trouble: str) -> bool:
        now = time.monotonic()
        with self._lock:
            self._said = {t: at for t, at in self._said.items() if now - at < QUIET_SECONDS}
            return self._said.setdefault(trouble, now) == now


@dataclass
class Desk:
    """What all loops of one controller share. `lease` is None while another controller leads."""

    services: Services
    engine: Engine
    #: URL of the object store and folder of the node's cache, for the helpers of runs
    objects_url: str
    cache: Path
    #: of the cache: {"bytes": int | None, "high", "low"}; see `storage.cache.limits`
    cache_limits: dict[str, Any] = field(default_factory=dict)
    lease: Lease | None = None
    #: monotonic time of the lease's last renewal, taken before it was asked for
    renewed: float = field(default_factory=time.monotonic)
    quiet: Quiet = field(default_factory=Quiet)
    _said: set[str] = field(default_factory=set, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def now(self) -> float:
        return self.services.clock()

    def hear(self, attempt: str) -> None:
        """The attempt's runner said something."""
        with self._lock:
            self._said.add(attempt)

    def heard(self) -> set[str]:
        """The attempts whose runner said something since this was last asked."""
        with self._lock:
            said, self._said = self._said, set()
        return said

    def assure(self, tx: Transaction | None = None) -> None:
        """To be called before each effect outside the record. Raises LeaseLostError unless this controller leads.

        Its own clock tells, however long the process slept or the record was away; with `tx`, the record does too.
        """
        lease = self.lease
        if lease is None or time.monotonic() - self.renewed > TRUST_SECONDS:
            raise LeaseLostError("this controller does not lead, or cannot know whether it does")
        if tx is not None:
            current = tx.leases.current(lease.name)
            if current is None or (current.token, current.holder) != (lease.token, lease.holder):
                raise LeaseLostError(f"lease {lease.name} is no longer held by {lease.holder}")

    @contextmanager
    def isolated(self, what: str, tx: Transaction | None = None) -> Iterator[None]:
        """A fault in the block is logged and goes no further; what the block did in `tx` is then undone.

        Raises what concerns all alike: LeaseLostError, and OperationalError when the record cannot be reached.
        """
        try:
            if tx is None:
                yield
            else:
                with tx.connection.begin_nested():
                    yield
        except (LeaseLostError, sqlalchemy.exc.OperationalError):
            raise
        except Exception as error:
            if self.quiet.due(f"{what}: {error!r}"):
                _log.exception("%s failed, the others go on: %r", what, error)

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

    def pause(self) -> float:
        """Seconds after which it looks by itself, asked after a pass."""
        return self.interval
