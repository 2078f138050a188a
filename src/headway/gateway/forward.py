"""Carries one HTTP request to an upstream and its answer back, piece by piece as either comes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from headway.gateway.answers import Receive, Send
from headway.gateway.hygiene import Headers, get, outward
from headway.gateway.upstream import Connection, Head, Lost, Upstream, UpstreamError

log = logging.getLogger("headway.gateway")

#: may be sent a second time when a kept connection turned out to be closed
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass
class Exchange:
    """One request of a caller, which is tried at one upstream after another until one takes the connection."""

    scope: dict[str, Any]
    receive: Receive
    send: Send
    identity: bytes
    #: seconds from the request's last byte to the answer's first; None: any
    timeout: float | None
    from_replica: bool = False
    #: whether the answer has begun, so that no other can be given
    begun: bool = False
    _first: dict[str, Any] | None = None

    async def forward(self, upstream: Upstream, address: str, target: bytes, headers: Headers) -> None:
        """Raises UpstreamError when there was no answer (Refused: nothing was sent); nothing once it has begun."""
        if self._first is None:
            self._first = await self.receive()
        if self._first["type"] == "http.disconnect":
            return
        try:
            await self._try(upstream, address, target, headers, fresh=False)
        except Lost as error:
            if self.begun or not error.reused or self.scope["method"] not in _SAFE:
                raise
            await self._try(upstream, address, target, headers, fresh=True)

    async def _try(self, upstream: Upstream, address: str, target: bytes, headers: Headers, *, fresh: bool) -> None:
        connection = await upstream.connect(address, fresh=fresh)
        try:
            async with self._feeding(connection, target, headers):
                head = await connection.head()
                await self._answer(connection, head)
        finally:
            upstream.release(connection)

    @asynccontextmanager
    async def _feeding(self, connection: Connection, target: bytes, headers: Headers) -> AsyncIterator[None]:
        """Within: the rest of the request goes out, and a caller who leaves ends the connection."""
        assert self._first is not None
        end = not self._first.get("more_body", False)
        chunked = get(self.scope["headers"], b"transfer-encoding") is not None
        if chunked:
            headers = [(k, v) for k, v in headers if k != b"content-length"]
        body = self._first.get("body", b"")
        connection.start(self.scope["method"], target, headers, chunked=chunked, body=body, end=end)
        if end:
            connection.expect(self.timeout)
        feeder = asyncio.create_task(self._feed(connection, end))
        try:
            yield
        finally:
            feeder.cancel()
            # its end must not be lost: a connection half written to is not one to keep
            await asyncio.gather(feeder, return_exceptions=True)

    async def _feed(self, connection: Connection, end: bool) -> None:
        try:
            while True:
                message = await self.receive()
                if message["type"] == "http.disconnect":
                    connection.abort()
                    return
                if not end:
                    end = not message.get("more_body", False)
                    await connection.send(message.get("body", b""), end)
                    if end:
                        connection.expect(self.timeout)
        except UpstreamError:
            # the answer's side hears of it too, and tells the caller; an answer that came early still counts
            pass

    async def _answer(self, connection: Connection, head: Head) -> None:
        headers = outward(head.headers, self.identity, from_replica=self.from_replica)
        self.begun = True
        await self.send({"type": "http.response.start", "status": head.status, "headers": headers})
        try:
            while piece := await connection.chunk():
                await self.send({"type": "http.response.body", "body": piece, "more_body": True})
        except UpstreamError as error:
            # no closing message: the server then ends the caller's connection, who sees that the answer is not whole
            log.info("An answer was cut off: %s.", error)
            return
        await self.send({"type": "http.response.body", "body": b"", "more_body": False})
