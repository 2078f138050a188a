"""A small HTTP/1.1 client over asyncio and httptools: streams both ways, buffers little, keeps connections.

It exists because the gateway must know exactly how far a request got: refused (nothing was sent, another replica may
take it), lost (it may have been carried out) or silent.
"""

from __future__ import annotations

import asyncio
import select
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import httptools

from headway.gateway.hygiene import Headers

#: bytes of an answer held here before its sender is slowed down
_HIGH = 256 << 10
#: seconds after which an unused connection is not trusted any more: uvicorn closes after five
_IDLE = 2.0
_KEPT = 32


class UpstreamError(Exception):
    """The request got no (whole) answer."""


class Refused(UpstreamError):
    """No connection: nothing was sent."""


class Lost(UpstreamError):
    """The connection ended, or what came was not HTTP. `reused`: it had served before and gave no byte this time."""

    def __init__(self, message: str, *, reused: bool = False) -> None:
        super().__init__(message)
        self.reused = reused


class Silent(UpstreamError):
    """No answer in time."""


@dataclass(frozen=True)
class Head:
    status: int
    headers: Headers


class Connection(asyncio.Protocol):
    """One connection, one exchange at a time: `start`, `send`* , `finish`, `head`, `chunk`* , `Upstream.release`."""

    def __init__(self, upstream: Upstream, address: str) -> None:
        self.upstream = upstream
        self.address = address
        self.transport: Any = None
        self.idle_since = 0.0
        self.served = 0
        self._loop = asyncio.get_running_loop()
        self._writable: asyncio.Future[None] | None = None
        self._paused = False
        self._closed = False
        self._reset("GET")

    def _reset(self, method: str) -> None:
        self._method = method
        self._parser = httptools.HttpResponseParser(self)
        self._head: asyncio.Future[Head] = self._loop.create_future()
        # a failure that nobody waits for (the caller left) is not worth a warning
        self._head.add_done_callback(lambda f: f.cancelled() or f.exception())
        self._headers: Headers = []
        self._chunks: deque[bytes] = deque()
        self._held = 0
        self._reader: asyncio.Future[None] | None = None
        self._error: UpstreamError | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._interim = False
        self._answered = False
        self._complete = False
        self._keep = False
        self._sent = False
        self._framed = False

    # -- the request

    def start(self, method: str, target: bytes, headers: Headers, *, chunked: bool, body: bytes, end: bool) -> None:
        """Sends the head and the first of the body in one write. end: nothing follows."""
        self._reset(method)
        self._chunked = chunked
        lines = [method.encode("ascii"), b" ", target, b" HTTP/1.1\r\n"]
        for name, value in headers:
            lines += [name, b": ", value, b"\r\n"]
        if chunked:
            lines.append(b"transfer-encoding: chunked\r\n")
        lines.append(b"\r\n")
        self.transport.write(b"".join(lines) + self._framing(body, end))
        self._sent = end

    async def send(self, body: bytes, end: bool) -> None:
        """Sends more of the body; waits while the other end is slow. Raises UpstreamError once it is gone."""
        if self._error is not None:
            raise self._error
        if self._closed:
            raise Lost("the connection was closed")
        if data := self._framing(body, end):
            self.transport.write(data)
        self._sent = end
        if self._paused:
            self._writable = self._loop.create_future()
            await self._writable

    def _framing(self, body: bytes, end: bool) -> bytes:
        if not self._chunked:
            return body
        framed = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
        return framed + b"0\r\n\r\n" if end else framed

    def expect(self, seconds: float | None) -> None:
        """From now on the head of the answer must come within `seconds`."""
        if seconds is not None and not self._head.done():
            self._timer = self._loop.call_later(seconds, self._fail, Silent(f"no answer within {seconds:g} s"))

    # -- the answer

    async def head(self) -> Head:
        """Status and headers. Raises UpstreamError."""
        return await self._head

    async def chunk(self) -> bytes:
        """The next of the body as soon as any is there; b"" at its end. Raises Lost when it was cut off."""
        while not self._chunks:
            if self._error is not None:
                raise self._error
            if self._complete:
                return b""
            self._reader = self._loop.create_future()
            await self._reader
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        if self._held > _HIGH and not self._closed:
            self.transport.resume_reading()
        self._held = 0
        return data

    @property
    def reusable(self) -> bool:
        return self._complete and self._keep and self._sent and not self._closed and self._error is None

    def abort(self) -> None:
        """Ends the connection now; whoever waits for its answer gets Lost."""
        self._fail(Lost("the request was given up"))

    def stale(self) -> bool:
        """Whether an idle connection must not be used: too old, or the other end has said something (its goodbye)."""
        if self._closed or time.monotonic() - self.idle_since > _IDLE:
            return True
        poll = select.poll()
        poll.register(self.transport.get_extra_info("socket").fileno(), select.POLLIN | select.POLLRDHUP)
        return bool(poll.poll(0))

    def close(self) -> None:
        self._closed = True
        if self.transport is not None:
            self.transport.close()

    # -- asyncio.Protocol

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._answered = True
        if self._complete or self._error is not None:
            # nobody asked for this
            self._keep = False
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(Lost("it wanted another protocol"))
        except httptools.HttpParserError as error:
            self._fail(Lost(f"its answer is not HTTP ({error})"))

    def connection_lost(self, error: Exception | None) -> None:
        self._closed = True
        self.upstream.forget(self)
        if self._head.done() and not self._head.cancelled() and not self._framed and self._error is None:
            self._done()
        if not self._complete:
            fresh = "" if error is None else f" ({error})"
            self._fail(Lost(f"the connection ended{fresh}", reused=self.served > 0 and not self._answered))
        self.resume_writing()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    # -- httptools

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        self._interim = 100 <= status < 200
        if self._interim:
            self._headers = []
            return
        self._framed = any(k in (b"content-length", b"transfer-encoding") for k, _ in self._headers)
        self._keep = bool(self._parser.should_keep_alive())
        if self._timer is not None:
            self._timer.cancel()
        if not self._head.done():
            self._head.set_result(Head(status, self._headers))
        if self._method == "HEAD":
            # the parser does not know that no body follows: this connection ends here
            self._keep = False
            self._done()

    def on_body(self, body: bytes) -> None:
        if self._complete:
            return
        self._chunks.append(body)
        before, self._held = self._held, self._held + len(body)
        if before <= _HIGH < self._held:
            self.transport.pause_reading()
        self._wake()

    def on_message_complete(self) -> None:
        if self._interim:
            self._interim = False
        else:
            self._done()

    # -- within

    def _done(self) -> None:
        self._complete = True
        self._wake()

    def _fail(self, error: UpstreamError) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._error is None and not self._complete:
            self._error = error
        if not self._head.done():
            self._head.set_exception(error)
        self._wake()
        self._closed = True
        self.transport.abort()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


class Upstream:
    """Connections to every upstream, kept for a moment after use."""

    def __init__(self, connect_timeout: float = 5.0) -> None:
        """connect_timeout: seconds."""
        self.connect_timeout = connect_timeout
        self._idle: dict[str, list[Connection]] = {}

    async def connect(self, address: str, *, fresh: bool = False) -> Connection:
        """A connection to "host:port", used or new (`fresh`: new). Raises Refused."""
        idle = self._idle.get(address)
        while idle and not fresh:
            connection = idle.pop()
            if not connection.stale():
                return connection
            connection.close()
        host, port = split(address)
        loop = asyncio.get_running_loop()
        try:
            _, made = await asyncio.wait_for(
                loop.create_connection(lambda: Connection(self, address), host, port), self.connect_timeout
            )
        except (OSError, asyncio.TimeoutError) as error:
            raise Refused(f"{address} does not accept connections ({error or 'no answer'})") from error
        return made

    def release(self, connection: Connection) -> None:
        """Gives a connection back after its exchange: kept if it can serve again, else ended."""
        idle = self._idle.setdefault(connection.address, [])
        if connection.reusable and len(idle) < _KEPT:
            connection.idle_since = time.monotonic()
            connection.served += 1
            idle.append(connection)
        else:
            connection.abort()

    def forget(self, connection: Connection) -> None:
        idle = self._idle.get(connection.address)
        if idle and connection in idle:
            idle.remove(connection)
        if idle is not None and not idle:
            del self._idle[connection.address]

    def close(self) -> None:
        for idle in list(self._idle.values()):
            for connection in list(idle):
                connection.close()
        self._idle.clear()


def split(address: str) -> tuple[str, int]:
    """Host and port of "host:port" or "[v6]:port". Raises ValueError."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
