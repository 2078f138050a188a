"""The gateway: /api to the api, /e/<endpoint> to its replicas, the rest to the console."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headway.errors import HeadwayError, UsageError
from headway.gateway import sockets
from headway.gateway.answers import GatewayError, Receive, Send, send_error, send_waiting
from headway.gateway.balance import Balance
from headway.gateway.forward import Exchange
from headway.gateway.hygiene import checked_path, get, inward, request_id, to_replica
from headway.gateway.routes import Replica, Route, RouteTable
from headway.gateway.upstream import Refused, Silent, Upstream, UpstreamError

log = logging.getLogger("headway.gateway")


@dataclass(frozen=True)
class GatewaySettings:
    #: "http://127.0.0.1:8401"
    api_url: str
    #: None: this gateway has no console behind it
    console_url: str | None
    #: for GET /api/v1/gateway/routes
    service_token: str
    #: folder of hint sockets; None: none come, and routes are fetched every few seconds
    hints: Path | None
    #: seconds that a replica may take to begin its answer
    endpoint_timeout: float = 60.0
    #: seconds that the api or the console may take to begin an answer; publishing a large dataset takes its time
    timeout: float = 600.0


def create_app(settings: GatewaySettings) -> Gateway:
    """The ASGI application. Raises UsageError for an address that is none."""
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    return Gateway(settings)


def run(
    settings: GatewaySettings,
    host: str = "127.0.0.1",
    port: int = 0,
    ready: Callable[[int], None] | None = None,
    *,
    listener: socket.socket | None = None,
    drain: float = 3.0,
) -> None:
    """Serves until SIGINT or SIGTERM, then returns. Raises OSError when the port cannot be had.

    port: 0 for a free one. ready: called with the port once connections are accepted. listener: a listening socket to
    use instead of host and port. drain: seconds that requests in flight get at the end.
    """
    from headway import asgi

    if listener is None:
        listener = asgi.listen(host, port)
    bound = int(listener.getsockname()[1])
    tell = None if ready is None else lambda: ready(bound)
    asgi.serve(create_app(settings), listener, ready=tell, websockets=True, drain=drain)


class Gateway:
    """Called by the server for every connection; the lifespan starts and stops the route table."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.settings = settings
        self._api = _address(settings.api_url)
        self._console = None if settings.console_url is None else _address(settings.console_url)
        self._upstream = Upstream()
        self.balance = Balance()
        self._table: RouteTable | None = None

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        identity = request_id(scope["headers"])
        if scope["type"] == "websocket":
            await receive()  # websocket.connect
        try:
            await self._route(scope, receive, send, identity)
        except HeadwayError as error:
            await send_error(scope, send, error, identity)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                settings = self.settings
                # made here: on Python 3.10 its locks belong to the loop that they are made in
                self._table = RouteTable(self._upstream, self._api, settings.service_token, settings.hints)
                self._table.changed = self.balance.keep
                await self._table.start()
                await send({"type": "lifespan.startup.complete"})
            else:
                assert self._table is not None
                await self._table.stop()
                self._upstream.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _route(self, scope: dict[str, Any], receive: Receive, send: Send, identity: bytes) -> None:
        raw: bytes = scope["raw_path"]
        segments = checked_path(raw)
        if segments[0] == b"e":
            await self._to_endpoint(scope, receive, send, identity, segments)
            return
        to_api = segments[0] == b"api"
        address = self._api if to_api else self._console
        if address is None:
            raise GatewayError(404, "no_console", "This gateway has no console behind it.", "The api is under /api.")
        if scope["type"] == "websocket":
            sockets.check_origin(scope["headers"])
        try:
            await self._carry(scope, receive, send, identity, address, _target(scope, raw))
        except UpstreamError as error:
            if not to_api and b"text/html" in (get(scope["headers"], b"accept") or b""):
                await send_waiting(scope, send, identity)
                return
            raise _problem("api" if to_api else "console", error) from error

    async def _carry(
        self, scope: dict[str, Any], receive: Receive, send: Send, identity: bytes, address: str, target: bytes
    ) -> None:
        headers = inward(scope, identity)
        if scope["type"] == "websocket":
            await sockets.forward(scope, receive, send, address, target, headers, identity)
            return
        exchange = Exchange(scope, receive, send, identity, self.settings.timeout)
        await exchange.forward(self._upstream, address, target, headers)

    async def _to_endpoint(
        self, scope: dict[str, Any], receive: Receive, send: Send, identity: bytes, segments: list[bytes]
    ) -> None:
        assert self._table is not None
        name = segments[1].decode("ascii") if len(segments) > 1 else ""
        route = await self._table.authorised(name, get(scope["headers"], b"authorization"))
        target = _target(scope, b"/" + b"/".join(segments[2:]))
        exchange = Exchange(scope, receive, send, identity, self.settings.endpoint_timeout, from_replica=True)
        for replica in self.balance.order(route):
            try:
                with self.balance.using(replica):
                    await self._to_replica(exchange, route, replica, target)
                return
            except Refused as error:
                # nothing was sent, so another one may take it
                self.balance.refused(replica)
                log.info("Run %d of endpoint %s: %s.", replica.run, name, error)
            except UpstreamError as error:
                raise _problem(f"replica (run {replica.run})", error) from error
        raise GatewayError(
            503,
            "no_replica",
            f"Endpoint {name} has no replica that answers; it is {route.state}.",
            f"Try again soon, or look at `headway endpoint show {name}`.",
            retry_after=2,
        )

    async def _to_replica(self, exchange: Exchange, route: Route, replica: Replica, target: bytes) -> None:
        scope = exchange.scope
        headers = to_replica(scope, exchange.identity, route.endpoint, replica.secret)
        if scope["type"] == "websocket":
            await sockets.forward(
                scope, exchange.receive, exchange.send, replica.address, target, headers, exchange.identity
            )
            return
        await exchange.forward(self._upstream, replica.address, target, headers)


def _is_news(record: logging.LogRecord) -> bool:
    # uvicorn's complaints of what the gateway does on purpose: refusing a WebSocket, cutting off what was cut off
    return not record.getMessage().startswith("ASGI callable returned without completing")


def _target(scope: dict[str, Any], path: bytes) -> bytes:
    query: bytes = scope["query_string"]
    return path + b"?" + query if query else path


def _address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise UsageError(f"{url!r} is no address that the gateway can use.", "Give one like http://127.0.0.1:8401.")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{host}:{parts.port or 80}"


def _problem(what: str, error: UpstreamError) -> GatewayError:
    if isinstance(error, Refused):
        return GatewayError(503, "unreachable", f"The {what} does not answer.", "Try again soon.", retry_after=1)
    if isinstance(error, Silent):
        return GatewayError(504, "too_slow", f"The {what} gave {error}.", "Ask for less at once, or look at its log.")
    return GatewayError(
        502, "upstream_lost", f"The {what} broke off: {error}.", "The request may have been carried out; look first."
    )
