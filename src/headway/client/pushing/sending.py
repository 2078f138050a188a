"""Sends packs and parts, several at once: straight to the object store where that works, else through the api."""

from __future__ import annotations

import mmap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Literal, TypeVar

from headway.client.pushing.direct import SILENCE, Direct, LostError, NoWayError
from headway.client.pushing.packing import Content, digest
from headway.client.pushing.progress import Tracker
from headway.client.transport import Transport
from headway.errors import FailedError, RefusedError, UnreachableError
from headway.wire.datasets import PushView

#: bodies under way at once, and buffers: one more is filled meanwhile
CONNECTIONS, BUFFERS = 2, 3
#: tries of one request, with growing pauses: about a minute in all
_TRIES = 9
FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0
_SLICE = 1 << 20
#: connections to the object store that may break before the api is taken instead
_LOSSES = 3
#: refusals that pass: an object is just being removed, or did not arrive
_PASSING = ("removing", "not_there")

T = TypeVar("T")
Kind = Literal["pack", "part"]


class Stopped(Exception):
    """Another body failed, or the user stopped it: this one is given up."""


def persistently(act: Callable[[], T], *, tries: int = _TRIES, stopped: Callable[[], bool] = lambda: False) -> T:
    """`act()`, again after what may pass: no server, a fault of the server's, an object that is being removed."""
    for attempt in range(1, tries + 1):
        try:
            return act()
        except (UnreachableError, FailedError, RefusedError) as error:
            passing = not isinstance(error, RefusedError) or error.code in _PASSING
            if not passing or attempt == tries or stopped():
                raise
        time.sleep(min(_LONGEST_PAUSE, FIRST_PAUSE * 2 ** (attempt - 1)))
    raise AssertionError("unreachable")


class Sender:
    """For one push. Bodies lie in its buffers: `buffer` gives one that is free, `send` gives it back in the end."""

    def __init__(self, transport: Transport, path: str, push: PushView, tracker: Tracker) -> None:
        """path: of the push in the api."""
        self._transport, self._path, self._tracker = transport, path, tracker
        self._direct: Direct | None = Direct() if push.direct else None
        self._free: SimpleQueue[memoryview] = SimpleQueue()
        size = max(push.pack_bytes, push.part_bytes)
        for _ in range(BUFFERS):
            # takes memory only as far as it is filled
            self._free.put(memoryview(mmap.mmap(-1, size)))
        self._pool = ThreadPoolExecutor(CONNECTIONS, "headway-push")
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._under_way: set[str] = set()
        self._open: list[Future[str]] = []
        self._losses = 0

    def close(self) -> None:
        """Gives up what is not sent."""
        self._error = self._error or Stopped()
        self._pool.shutdown(cancel_futures=True)

    def buffer(self) -> memoryview:
        """A free one; waits for it. Raises what a body failed with."""
        free = self._free.get()
        self.check()
        return free

    def give_back(self, buffer: memoryview) -> None:
        self._free.put(buffer)

    def check(self) -> None:
        """Raises what a body failed with."""
        if self._error is not None:
            raise self._error

    def under_way(self) -> set[str]:
        """Contents in packs that are being sent."""
        with self._lock:
            return set(self._under_way)

    def send(self, kind: Kind, body: memoryview, buffer: memoryview, contents: Sequence[Content] = ()) -> Future[str]:
        """Begins to send; its SHA-256 once the store has it. Counts it then."""
        with self._lock:
            self._under_way.update(c.sha256 for c in contents)
        sending = self._pool.submit(self._send, kind, body, buffer, contents)
        self._open = [s for s in self._open if not s.done()] + [sending]
        return sending

    def wait(self) -> None:
        """Until everything is sent. Raises what a body failed with."""
        for sending in self._open:
            self.result(sending)
        self._open = []

    def result(self, sending: Future[str]) -> str:
        try:
            return sending.result()
        except Stopped:
            self.check()
            raise

    # -- in the threads

    def _send(self, kind: Kind, body: memoryview, buffer: memoryview, contents: Sequence[Content]) -> str:
        try:
            sha256 = digest(body)
            self._attempt(kind, sha256, body, contents)
            with self._lock:
                self._under_way.difference_update(c.sha256 for c in contents)
            size = sum(c.bytes for c in contents) if kind == "pack" else len(body)
            self._tracker.has(len(contents), size)
            return sha256
        except BaseException as error:
            self._error = self._error or error
            raise
        finally:
            self.give_back(buffer)

    def _attempt(self, kind: Kind, sha256: str, body: memoryview, contents: Sequence[Content]) -> None:
        def act() -> None:
            if self._error is not None:
                raise Stopped
            if self._direct is None or not self._straight(self._direct, kind, sha256, body, contents):
                self._through_api(kind, sha256, body)

        persistently(act, stopped=lambda: self._error is not None)

    def _straight(self, direct: Direct, kind: Kind, sha256: str, body: memoryview, contents: Sequence[Content]) -> bool:
        """Whether the store has it now and the record knows; False: the way through the api is to be taken."""
        went = 0

        def told(size: int) -> None:
            nonlocal went
            if self._error is not None:
                raise Stopped
            went += size
            self._tracker.sent(size)

        said = {"kind": kind, "sha256": sha256, "bytes": len(body)}
        granted = self._transport.call("POST", f"{self._path}/grants", body={"objects": [said]})
        url = granted["urls"][0]
        if url is None:
            return True
        try:
            direct.put(url, body, told)
        except (LostError, NoWayError) as error:
            self._tracker.sent(-went)
            self._losses += 1
            if isinstance(error, NoWayError) or self._losses > _LOSSES:
                self._direct = None
                return False
            raise FailedError(f"The object store did not take a {kind} ({error}).", "Push again.") from None
        index = {**said, "contents": [(c.sha256, c.offset, c.bytes) for c in contents]}
        self._transport.call("POST", f"{self._path}/sent", body={"objects": [index]}, timeout=SILENCE * 5)
        return True

    def _through_api(self, kind: Kind, sha256: str, body: memoryview) -> None:
        if kind == "part":
            known = self._transport.call("POST", f"{self._path}/known", body={"parts": [sha256]})
            if known["parts"]:
                return
        went = 0

        def pieces() -> Iterator[bytes]:
            nonlocal went
            self._tracker.sent(-went)
            went = 0
            for start in range(0, len(body), _SLICE):
                if self._error is not None:
                    raise Stopped
                yield bytes(body[start : start + _SLICE])
                size = min(_SLICE, len(body) - start)
                went += size
                self._tracker.sent(size)

        path = f"{self._path}/{kind}s/{sha256}"
        try:
            self._transport.call("PUT", path, content=pieces, timeout=SILENCE * 5)
        except BaseException:
            self._tracker.sent(-went)
            raise
