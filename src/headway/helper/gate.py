"""The gate before a full target: work waits at it, says so once, and goes on by itself when the cause is gone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from headway.helper.voice import Voice
from headway.protocol import events
from headway.storage.full import TargetFullError

T = TypeVar("T")

#: a refusal because of what others have only reserved is looked at again so soon, for so long, before it counts
_SETTLE_STEP, _SETTLE_SECONDS = 0.02, 10.0
#: a refusal counts when it is met again after this: what filled the quota is then told before the pause is
_SECOND_LOOK = 0.1


class ClosedError(Exception):
    """The work is not wanted any more; nothing was published."""


class Gate:
    """Shared by threads: PAUSED is told when the first of them waits, RESUMED when none does any more."""

    def __init__(self, voice: Voice, seconds: float = 1.0, hold: float | None = None) -> None:
        """seconds: between looks at a full target. hold: waits no longer, says so (`held`) and closes; None: ever."""
        self._voice = voice
        self._seconds = seconds
        self._hold = hold
        self._closed = threading.Event()
        self._lock = threading.Lock()
        #: waiting thread -> cause
        self._waiting: dict[int, str] = {}
        self._told: str | None = None
        self._since: float | None = None
        #: called once when the place is given back
        self.on_held: Callable[[], None] = lambda: None

    @property
    def shut(self) -> bool:
        """Whether somebody waits at it."""
        return self._told is not None

    def close(self) -> None:
        """Whoever waits, or comes to wait, gets ClosedError."""
        self._closed.set()

    def through(self, attempt: Callable[[], T]) -> T:
        """What `attempt` returns, tried until its target is not full. Raises ClosedError, or what `attempt` raises."""
        looks, given_up = 0, False
        settle_until = time.monotonic() + _SETTLE_SECONDS
        try:
            while True:
                try:
                    return attempt()
                except TargetFullError as full:
                    if full.figures.get("waiting") and time.monotonic() < settle_until:
                        self._sleep(_SETTLE_STEP)
                        continue
                    looks += 1
                    if looks == 1:
                        self._sleep(_SECOND_LOOK)
                        continue
                    self._wait(full)
                    self._sleep(self._seconds)
        except ClosedError:
            given_up = True
            raise
        finally:
            self._pass(given_up)

    def _sleep(self, seconds: float) -> None:
        if self._closed.wait(seconds):
            raise ClosedError

    def _wait(self, full: TargetFullError) -> None:
        now = time.monotonic()
        with self._lock:
            if self._closed.is_set():
                raise ClosedError
            self._waiting[threading.get_ident()] = full.cause
            if self._told is None:
                self._since = now
            held = self._hold is not None and self._since is not None and now - self._since >= self._hold
            if held:
                self._voice.event(events.PAUSED, **full.to_json(), held=True)
                self._voice.log("the target takes no writes for so long that this worker gives its place back")
                self._closed.set()
            elif self._told != full.cause:
                self._voice.event(events.PAUSED, **full.to_json())
                self._voice.log(f"paused ({full.cause}): {full.message} {full.remedy}")
            self._told = full.cause
        if held:
            self.on_held()
            raise ClosedError

    def _pass(self, given_up: bool) -> None:
        """What went through after a wait tells its end, closed meanwhile or not: what it did may be told by now."""
        with self._lock:
            waited = self._waiting.pop(threading.get_ident(), None) is not None
            if waited and not given_up and not self._waiting:
                self._told = None
                self._voice.event(events.RESUMED)
                self._voice.log("goes on: the target takes writes again")
