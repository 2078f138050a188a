"""Sends large files in parts, each an object of its own."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from concurrent.futures import Future

from headway.client.pushing import reading
from headway.client.pushing.desk import Desk
from headway.client.pushing.entries import Entry, Source
from headway.client.pushing.progress import Tracker
from headway.client.pushing.sending import Sender

_TRIES = 3
#: large files whose parts may be under way at once
_OPEN = 64


class Parts:
    def __init__(self, source: Source, sender: Sender, desk: Desk, tracker: Tracker, size: int) -> None:
        """size: bytes of a part."""
        self._source, self._sender, self._desk, self._tracker, self._size = source, sender, desk, tracker, size
        self._open: deque[tuple[Entry, str, list[Future[str]]]] = deque()

    def add(self, entry: Entry) -> tuple[Entry, str]:
        """The entry as it was read, and its SHA-256; its parts are sent or under way.

        Raises UsageError when it changes again and again, or cannot be read.
        """
        for _ in range(_TRIES):
            fd = reading.opened(self._source, entry)
            try:
                found = reading.as_it_is(fd, entry)
                whole, parts = hashlib.sha256(), list[Future[str]]()
                for start in range(0, found.bytes, self._size):
                    buffer = self._sender.buffer()
                    view = buffer[: min(self._size, found.bytes - start)]
                    if not reading.fill(fd, view, found, start):
                        self._sender.give_back(buffer)
                        break
                    whole.update(view)
                    parts.append(self._sender.send("part", view, buffer))
                if reading.as_it_is(fd, found) == found and len(parts) == -(-found.bytes // self._size):
                    self._open.append((found, whole.hexdigest(), parts))
                    self._register(_OPEN)
                    return found, whole.hexdigest()
            finally:
                os.close(fd)
            # parts that were sent for nothing count no more
            done = [self._sender.result(part) for part in parts]
            self._tracker.has(0, -min(found.bytes, len(done) * self._size))
        raise reading.changed(entry)

    def close(self) -> None:
        """Tells the server of all that are not told yet."""
        self._register(0)

    def _register(self, most: int) -> None:
        files = []
        while len(self._open) > most:
            found, sha256, parts = self._open.popleft()
            said = [self._sender.result(p) for p in parts]
            files.append({"sha256": sha256, "bytes": found.bytes, "parts": said})
            self._tracker.has(1, 0)
        if files:
            self._desk.add_large(files)
