"""How far a push is, as a value."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

#: seconds between two tellings, and over which the rate is taken
_PAUSE, _WINDOW = 0.1, 10.0


@dataclass(frozen=True)
class Progress:
    stage: Literal["fetch", "scan", "send", "publish"]
    #: that the store has by now, of all
    files: int = 0
    of_files: int = 0
    bytes: int = 0
    of_bytes: int = 0
    #: that went over the network
    sent_bytes: int = 0
    #: bytes a second, of late
    rate: float = 0.0
    #: seconds, by that rate; None: not known yet
    left: float | None = None


Told = Callable[[Progress], None]


class Tracker:
    """Counts, and tells now and then. Safe for threads; `told` is called by one at a time."""

    def __init__(self, told: Told) -> None:
        self._told = told
        self._lock = threading.RLock()
        self._stage: Literal["fetch", "scan", "send", "publish"] = "scan"
        self._files = self._of_files = self._bytes = self._of_bytes = self._sent = 0
        self._last = 0.0
        self._past: deque[tuple[float, int]] = deque()

    @property
    def sent_bytes(self) -> int:
        return self._sent

    def fetching(self, done: int, total: int) -> None:
        with self._lock:
            self._stage, self._bytes, self._of_bytes = "fetch", done, total
            self._tell()

    def scanned(self) -> None:
        """One more file was found."""
        with self._lock:
            self._stage = "scan"
            self._files += 1
            self._tell()

    def begin(self, files: int, size: int) -> None:
        """Everything is found; sending begins, from the start."""
        with self._lock:
            self._stage, self._files, self._bytes, self._past = "send", 0, 0, deque()
            self._of_files, self._of_bytes = files, size
            self._tell(now=True)

    def has(self, files: int, size: int) -> None:
        """The store has these."""
        with self._lock:
            self._files += files
            self._bytes += size
            self._tell()

    def sent(self, size: int) -> None:
        """Bytes went over the network; negative: they have to go again."""
        with self._lock:
            self._sent += size
            self._tell()

    def publishing(self) -> None:
        with self._lock:
            self._stage = "publish"
            self._tell(now=True)

    def _tell(self, *, now: bool = False) -> None:
        moment = time.monotonic()
        if not now and moment - self._last < _PAUSE:
            return
        self._last = moment
        self._past.append((moment, self._bytes))
        while len(self._past) > 2 and moment - self._past[0][0] > _WINDOW:
            self._past.popleft()
        began, before = self._past[0]
        rate = (self._bytes - before) / (moment - began) if moment > began else 0.0
        left = (self._of_bytes - self._bytes) / rate if rate > 0 and self._stage in ("send", "fetch") else None
        self._told(
            Progress(
                self._stage, self._files, self._of_files, self._bytes, self._of_bytes, self._sent, max(0.0, rate), left
            )
        )
