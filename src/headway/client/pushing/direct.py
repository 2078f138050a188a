"""Bodies that go straight to an object store, by URLs that the server signed."""

from __future__ import annotations

import base64
import hashlib
import http.client
import ssl
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

from headway.client.transport import is_loopback

#: bytes handed to the connection at once: so much must move within the time below
_SLICE = 1 << 20
#: seconds without a byte after which a connection counts as lost
SILENCE = 60.0
_CONNECT = 10.0


class NoWayError(Exception):
    """The store cannot be reached from here, or does not take what was signed."""


class LostError(Exception):
    """The connection broke, or the store had a passing trouble: worth another try."""


class Direct:
    """A connection a thread, kept open."""

    def __init__(self) -> None:
        self._own = threading.local()

    def put(self, url: str, body: memoryview, told: Callable[[int], None]) -> None:
        """told: bytes that went. Raises NoWayError or LostError."""
        parts = urlsplit(url)
        connection = self._connection(parts.scheme, parts.netloc)
        try:
            is_new = connection.sock is None
            if is_new:
                connection.timeout = _CONNECT
                try:
                    connection.connect()
                except (OSError, http.client.HTTPException) as error:
                    raise NoWayError(str(error)) from None
                connection.sock.settimeout(SILENCE)
            response = self._send(connection, f"{parts.path}?{parts.query}", url, body, told)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise LostError(str(error) or type(error).__name__) from None
        except BaseException:
            connection.close()
            raise
        if response.status >= 500 or response.status in (408, 429):
            raise LostError(f"it answered {response.status}")
        if response.status not in (200, 201, 204):
            raise NoWayError(f"it answered {response.status} {response.reason}")
        if not response.headers.get("ETag"):
            # every store gives one; something on the way that answers in its place does not
            raise NoWayError("its answer has no ETag")

    def _connection(self, scheme: str, place: str) -> http.client.HTTPConnection:
        at: tuple[str, str, http.client.HTTPConnection] | None = getattr(self._own, "at", None)
        if at is None or at[:2] != (scheme, place):
            if at is not None:
                at[2].close()
            made: http.client.HTTPConnection
            if scheme == "https":
                made = http.client.HTTPSConnection(place, context=ssl.create_default_context())
            else:
                made = http.client.HTTPConnection(place)
            at = self._own.at = (scheme, place, made)
        return at[2]

    def _send(
        self,
        connection: http.client.HTTPConnection,
        target: str,
        url: str,
        body: memoryview,
        told: Callable[[int], None],
    ) -> http.client.HTTPResponse:
        connection.putrequest("PUT", target, skip_accept_encoding=True)
        connection.putheader("Content-Length", str(len(body)))
        if not is_loopback(url):
            connection.putheader(
                "Content-MD5", base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
            )
        connection.endheaders()
        for start in range(0, len(body), _SLICE):
            piece = body[start : start + _SLICE]
            connection.send(piece)
            told(len(piece))
        response = connection.getresponse()
        response.read()
        return response
