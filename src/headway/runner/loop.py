"""Waiting: what is readable is handed to its handler; a busy output rests for a moment so that reading stays cheap."""

from __future__ import annotations

import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: how long an output rests that was read a moment ago: a script that prints line by line costs one read for many lines.
#: Not longer, as a burst that begins meanwhile has only the room of the pipe
REST_SECONDS = 0.05
#: bytes that may come while it rests: a quarter of a pipe
REST_BYTES = 1 << 16


class Loop:
    """`select.poll` with handlers. One thread."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._handlers: dict[int, Callable[[int], object]] = {}
        self._resting: dict[int, float] = {}
        self._read_at: dict[int, float] = {}
        self._due: dict[int, float] = {}
        #: what is left to do when nothing is readable, in small pieces; gives whether there is more
        self.idle: Callable[[], bool] | None = None
        #: monotonic time before which it is not wanted
        self.idle_at = 0.0

    def add(self, fd: int, handler: Callable[[int], object]) -> None:
        """`handler(fd)` is called while `fd` is readable or at its end."""
        os.set_blocking(fd, False)
        self._handlers[fd] = handler
        self._poll.register(fd, select.POLLIN)

    def remove(self, fd: int) -> None:
        """Forgets `fd` and closes it."""
        if fd not in self._resting:
            self._poll.unregister(fd)
        for known in (self._handlers, self._resting, self._read_at, self._due):
            known.pop(fd, None)
        os.close(fd)

    def rest(self, fd: int, size: int = 0, seconds: float = REST_SECONDS) -> None:
        """Told after each read of `fd`: leaves it alone for `seconds` if it was read a moment ago.

        size: bytes that were read; where they came so quickly that its pipe may be full before, it does not rest.
        """
        now = time.monotonic()
        since = now - self._read_at.get(fd, 0.0)
        quick = size * seconds > REST_BYTES * since
        # two reads closer than this make it busy: one that was left alone for a moment still is
        if since < 2 * seconds and not quick and fd not in self._resting:
            self._resting[fd] = now + seconds
            self._poll.unregister(fd)
        self._read_at[fd] = now

    def again(self, fd: int, at: float) -> None:
        """Calls the handler of `fd` at the monotonic time `at` as well, readable or not."""
        self._due[fd] = at

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
        if self._due:
            until = min([until, *self._due.values()])
        if self.idle is not None:
            until = min(until, self.idle_at)
        # rounded up: a wait that ends a fraction too early would spin
        wait = int((until - time.monotonic()) * 1000) + 1
        ready = self._poll.poll(max(0, wait))
        if not ready and self.idle is not None and time.monotonic() >= self.idle_at and not self.idle():
            self.idle = None
        for fd, _ in ready:
            # a handler before may have closed it
            if handler := self._handlers.get(fd):
                handler(fd)
        if self._due:
            now = time.monotonic()
            for fd in [fd for fd, at in self._due.items() if at <= now]:
                del self._due[fd]
                self._handlers[fd](fd)
