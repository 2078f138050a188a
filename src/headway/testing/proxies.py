"""A TCP proxy that cuts every connection through it when told, or after so many bytes, or holds them there."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

_BLOCK = 1 << 16


class Proxy:
    """Between clients and the server at the URL `target`, which may be changed for connections to come."""

    def __init__(self, target: str, cuts: Sequence[int] = ()) -> None:
        """cuts: numbers of bytes from the clients at which every connection is cut."""
        self.target = target
        self._cuts = list(cuts)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        #: a connection on which a client sends this is cut; b"": none
        self.barred = b""
        #: bytes that came from clients, and how often they were cut
        self.sent = self.done = 0
        #: one for each connection that the target did not take
        self.turned_away = threading.Semaphore(0)
        self._hold_at: int | None = None
        #: set while so many bytes as `hold` said have come: no more are taken
        self.held = threading.Event()
        self._go_on = threading.Event()
        self._ended = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self, more: int) -> None:
        """After `more` further bytes from clients none is taken before `release`."""
        with self._lock:
            self._hold_at = self.sent + more
            self._go_on.clear()
            self.held.clear()

    def release(self) -> None:
        with self._lock:
            self._hold_at = None
            self.held.clear()
            self._go_on.set()

    def cut_after(self, *more: int) -> None:
        """Cuts every connection after so many further bytes from clients, each counted from now on."""
        with self._lock:
            self._cuts = [self.sent + m for m in sorted(more)]

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
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.release()
        self.cut()

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                inner, _ = self._listener.accept()
            except OSError:
                continue
            address = urlsplit(self.target)
            try:
                outer = socket.create_connection((str(address.hostname), int(address.port or 80)))
            except OSError:
                inner.close()
                self.turned_away.release()
                continue
            with self._lock:
                self._open |= {inner, outer}
            threading.Thread(target=self._carry, args=(inner, outer), daemon=True).start()

    def _carry(self, inner: socket.socket, outer: socket.socket) -> None:
        with contextlib.suppress(OSError), inner, outer:
            while self._pass_on(inner, outer):
                pass
        with self._lock:
            self._open -= {inner, outer}

    def _pass_on(self, inner: socket.socket, outer: socket.socket) -> bool:
        """One block of each side that has one; whether there may be more."""
        ready, _, _ = select.select([inner, outer], [], [])
        for one in ready:
            if one is inner:
                self._wait()
            block = one.recv(_BLOCK)
            if not block or (one is inner and self.barred and self.barred in block):
                return False
            (outer if one is inner else inner).sendall(block)
            if one is inner:
                self._count(len(block))
        return True

    def _wait(self) -> None:
        """While connections are held."""
        with self._lock:
            is_held = self._hold_at is not None and self.sent >= self._hold_at
            if is_held:
                self.held.set()
        if is_held:
            self._go_on.wait()

    def _count(self, size: int) -> None:
        with self._lock:
            self.sent += size
            due = bool(self._cuts) and self.sent >= self._cuts[0]
            if due:
                self._cuts.pop(0)
        if due:
            self.cut()


@contextlib.contextmanager
def proxy(target: str, cuts: Sequence[int] = ()) -> Iterator[Proxy]:
    """A `Proxy` for as long as the block lasts."""
    made = Proxy(target, cuts)
    try:
        yield made
    finally:
        made.close()
