"""The machine's own notice that it is about to be taken away: a file that appears, or a URL that answers 200."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: how often a URL is asked, and how long it may take
ASK_SECONDS, WAIT_SECONDS = 5.0, 1.0
#: how often a path is looked at
LOOK_SECONDS = 3.0


class Notice:
    """`come()` costs a look at a file, or at what a thread found out."""

    def __init__(self, where: str) -> None:
        """where: a path, or an http(s) URL that is asked by a thread of its own: it may hang, the loop may not."""
        self.where = where
        self._come = False
        self._path = None if where.startswith(("http://", "https://")) else where
        if self._path is None:
            import _thread

            _thread.start_new_thread(self._ask, ())

    def come(self) -> bool:
        if self._path is not None:
            self._come = os.path.exists(self._path)
        return self._come

    def _ask(self) -> None:
        while not self._come:
            try:
                self._come = answers(self.where)
            except Exception:
                self._come = False  # a machine without that address has given none
            if not self._come:
                time.sleep(ASK_SECONDS)


def answers(url: str) -> bool:
    """Whether `url` answers 200 within a moment. Raises OSError, ValueError."""
    scheme, _, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    host, _, port = place.partition(":")
    import socket

    connection: Any = socket.create_connection((host, int(port or (443 if scheme == "https" else 80))), WAIT_SECONDS)
    with connection:
        if scheme == "https":
            import ssl

            connection = ssl.create_default_context().wrap_socket(connection, server_hostname=host)
        connection.settimeout(WAIT_SECONDS)
        connection.sendall(f"GET {slash or '/'}{path} HTTP/1.0\r\nHost: {place}\r\nAccept: */*\r\n\r\n".encode())
        head = b""
        while b"\n" not in head and len(head) < 1024 and (block := connection.recv(1024)):
            head += block
    return head.split(b"\n")[0].split()[1:2] == [b"200"]
