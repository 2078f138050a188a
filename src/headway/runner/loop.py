"""Waiting: what is readable is handed to its handler; a busy output rests for a moment so that reading stays cheap."""

from __future__ import annotations

import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: how long an output rests that was read a moment ago: a script that prints line by line costs one read for many lines
REST_SECONDS = 0.1
#: two reads closer than this make it busy
BUSY_SECONDS = 0.02


class Loop:
    """`select.poll` with handlers. One thread."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._handlers: dict[int, Callable[[int], object]] = {}
        self._resting: dict[int, float] = {}
        self._read_at: dict[int, float] = {}

    def add(self, fd: int, handler: Callable[[int], object]) -> None:
        """`handler(fd)` is called while `fd` is readable or at its end."""
        os.set_blocking(fd, False)
        self._handlers[fd] = handler
        self._poll.register(fd, select.POLLIN)

    def remove(self, fd: int) -> None:
        """Forgets `fd` and closes it."""
        if fd not in self._resting:
            self._poll.unregister(fd)
        for known in (self._handlers, self._resting, self._read_at):
            known.pop(fd, None)
        os.close(fd)

    def rest(self, fd: int) -> None:
        """Told after each read of `fd`: leaves it alone for a moment if it was read a moment ago."""
        now = time.monotonic()
        if now - self._read_at.get(fd, 0.0) < BUSY_SECONDS and fd not in self._resting:
            self._resting[fd] = now + REST_SECONDS
            self._poll.unregister(fd)
        self._read_at[fd] = now

    def wake(self) -> None:
        """Ends all rests: something ended, and what it said last is wanted now."""
        for fd in self._resting:
            self._poll.register(fd, select.POLLIN)
        self._resting.clear()

    def turn(self, until: float) -> None:
        """Waits for something readable, at most until the monotonic time `until`, and hands it on."""
        if self._resting:
            now = time.monotonic()
            for fd in [fd for fd, at in self._resting.items() if at <= now]:
                del self._resting[fd]
                self._poll.register(fd, select.POLLIN)
            until = min([until, *self._resting.values()])
        # rounded up: a wait that ends a fraction too early would spin
        wait = max(0, int((until - time.monotonic()) * 1000) + 1)
        for fd, _ in self._poll.poll(wait):
            # a handler before may have closed it
            if handler := self._handlers.get(fd):
                handler(fd)
