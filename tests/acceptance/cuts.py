"""A TCP proxy that cuts every connection through it when told, or after so many bytes."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

_BLOCK = 1 << 18


class Proxy:
    """Between a browser and `target`; `cuts` are numbers of bytes from the browser at which everything is cut."""

    def __init__(self, target: str, cuts: list[int]) -> None:
        address = urlsplit(target)
        self._target = (str(address.hostname), int(address.port or 80))
        self._cuts = list(cuts)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        #: bytes that came from the browser, and how often they were cut
        self.sent = self.done = 0
        self._ended = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Resets every connection; new ones are taken."""
        with self._lock:
            self.done += 1
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._ended.set()
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                inner, _ = self._listener.accept()
                outer = socket.create_connection(self._target)
            except OSError:
                continue
            with self._lock:
                self._open |= {inner, outer}
            threading.Thread(target=self._carry, args=(inner, outer), daemon=True).start()

    def _carry(self, inner: socket.socket, outer: socket.socket) -> None:
        with contextlib.suppress(OSError), inner, outer:
            while True:
                ready, _, _ = select.select([inner, outer], [], [])
                for one in ready:
                    block = one.recv(_BLOCK)
                    if not block:
                        return
                    (outer if one is inner else inner).sendall(block)
                    if one is inner:
                        self._count(len(block))
        with self._lock:
            self._open -= {inner, outer}

    def _count(self, size: int) -> None:
        with self._lock:
            self.sent += size
            due = bool(self._cuts) and self.sent >= self._cuts[0]
            if due:
                self._cuts.pop(0)
        if due:
            self.cut()


@contextlib.contextmanager
def proxy(target: str, cuts: list[int]) -> Iterator[Proxy]:
    made = Proxy(target, cuts)
    try:
        yield made
    finally:
        made.close()
