"""The routes: which replicas and tokens every endpoint has, as the api said last.

They are fetched at a hint and every few seconds. While the api is away the last ones stand.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headway.errors import HeadwayError, NotFoundError, UnauthorizedError
from headway.gateway.answers import GatewayError
from headway.gateway.upstream import Upstream, UpstreamError
from headway.protocol import hints
from headway.rules.nearest import advice

log = logging.getLogger("headway.gateway")

PATH = b"/api/v1/gateway/routes"
#: seconds between two looks without a hint
INTERVAL = 5.0
#: as long as no routes have ever come
_FIRST_INTERVAL = 0.5
#: an unknown token or endpoint makes the gateway look again at once, but not more often than this
_MISS_INTERVAL = 0.25


@dataclass(frozen=True)
class Replica:
    run: int
    #: "host:port"
    address: str
    secret: str


@dataclass(frozen=True)
class Token:
    #: SHA-256 of the token, hex
    hash: str
    #: seconds since the epoch; None: never
    expires_at: float | None
    revoked: bool


@dataclass(frozen=True)
class Route:
    endpoint: str
    state: str
    replicas: tuple[Replica, ...]
    #: by hash
    tokens: dict[str, Token]


def parse(content: bytes) -> dict[str, Route]:
    """The body of an answer as routes by endpoint. Raises ValueError when it is none."""
    try:
        found = {}
        for raw in json.loads(content)["routes"]:
            replicas = tuple(Replica(int(r["run"]), str(r["address"]), str(r["secret"])) for r in raw["replicas"])
            tokens = {t["hash"]: Token(t["hash"], t["expires_at"], bool(t["revoked"])) for t in raw["tokens"]}
            found[raw["endpoint"]] = Route(raw["endpoint"], raw["state"], replicas, tokens)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"these are no routes: {type(error).__name__} {error}") from error
    return found


def check_token(route: Route, authorization: bytes | None, now: float) -> None:
    """Raises UnauthorizedError, with a code of its own for each of: none, wrong, revoked, expired.

    authorization: the header's value. now: seconds since the epoch.
    """
    scheme, _, given = (authorization or b"").partition(b" ")
    given = given.strip()
    if scheme.lower() != b"bearer" or not given:
        raise UnauthorizedError(
            f"Endpoint {route.endpoint} wants a token.",
            "Send `Authorization: Bearer TOKEN`; `headway endpoint token` makes one.",
            code="token_missing",
        )
    # the hash hides the token's own bytes, so a lookup by it tells nothing through its timing
    token = route.tokens.get(hashlib.sha256(given).hexdigest())
    if token is None:
        raise UnauthorizedError(
            f"This is no token of endpoint {route.endpoint}.",
            "Make one with `headway endpoint token`.",
            code="token_wrong",
        )
    if token.revoked:
        raise UnauthorizedError(
            f"This token of endpoint {route.endpoint} was revoked.",
            "Make a new one with `headway endpoint token`.",
            code="token_revoked",
        )
    if token.expires_at is not None and token.expires_at <= now:
        raise UnauthorizedError(
            f"This token of endpoint {route.endpoint} has expired.",
            "Make a new one with `headway endpoint token`.",
            code="token_expired",
        )


class RouteTable:
    """Keeps the routes fresh. `start` and `stop` within a running event loop."""

    def __init__(self, upstream: Upstream, api: str, token: str, where: Path | None) -> None:
        """api: "host:port". token: the gateway's own. where: folder of hint sockets; None: no hints come."""
        self._upstream = upstream
        self._api = api
        self._token = token
        self._where = where
        self._routes: dict[str, Route] | None = None
        self._listener: hints.Listener | None = None
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._lock = asyncio.Lock()
        self._tried = 0.0
        self._complaint = ""
        #: called after every change of the routes
        self.changed: Callable[[dict[str, Route]], None] = lambda routes: None

    async def start(self) -> None:
        if self._where is not None:
            try:
                self._listener = hints.Listener(self._where, "gateway")
                asyncio.get_running_loop().add_reader(self._listener.fileno(), self._hinted, self._listener)
            except OSError as error:
                log.warning("No hints come (%s); routes are fetched every %g s.", error, INTERVAL)
        self._task = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener.fileno())
            self._listener.close()

    async def authorised(self, endpoint: str, authorization: bytes | None) -> Route:
        """The route of an endpoint for a caller with this Authorization header.

        Raises NotFoundError, UnauthorizedError, or GatewayError while no routes have ever come.
        """
        try:
            return self._check(endpoint, authorization)
        except HeadwayError as error:
            # a new endpoint or token may be younger than the last look
            if error.code == "token_missing" or not await self._again():
                raise
        return self._check(endpoint, authorization)

    def _check(self, endpoint: str, authorization: bytes | None) -> Route:
        if self._routes is None:
            raise GatewayError(503, "unreachable", "The api has not told the routes yet.", "Try again.", retry_after=1)
        route = self._routes.get(endpoint)
        if route is None:
            raise NotFoundError(
                f"There is no endpoint {endpoint!r}.", advice(endpoint, self._routes), code="unknown_endpoint"
            )
        check_token(route, authorization, time.time())
        return route

    def _hinted(self, listener: hints.Listener) -> None:
        if any(topic in ("routes", "endpoint") for topic, _ in listener.receive()):
            self._wake.set()

    async def _keep(self) -> None:
        while True:
            self._wake.clear()
            async with self._lock:
                await self._fetch()
            pause = INTERVAL if self._routes is not None else _FIRST_INTERVAL
            try:
                await asyncio.wait_for(self._wake.wait(), pause)
            except asyncio.TimeoutError:
                pass

    async def _again(self) -> bool:
        """Looks once more, with all others who wait for it; whether the routes are newer than this call."""
        asked = time.monotonic()
        async with self._lock:
            if self._tried < asked:
                # slows down those who guess tokens, too
                await asyncio.sleep(max(0.0, self._tried + _MISS_INTERVAL - time.monotonic()))
                return await self._fetch()
            return not self._complaint

    async def _fetch(self) -> bool:
        self._tried = time.monotonic()
        try:
            routes = parse(await self._get())
        except (UpstreamError, ValueError) as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.warning("Routes could not be fetched: %s.", error)
            return False
        if self._complaint:
            self._complaint = ""
            log.info("Routes are fetched again.")
        if routes != self._routes:
            self._routes = routes
            self.changed(routes)
        return True

    async def _get(self) -> bytes:
        headers = [
            (b"host", self._api.encode()),
            (b"authorization", b"Bearer " + self._token.encode()),
            (b"accept", b"application/json"),
        ]
        connection = await self._upstream.connect(self._api)
        try:
            connection.start("GET", PATH, headers, chunked=False, body=b"", end=True)
            connection.expect(5.0)
            head = await connection.head()
            content = bytearray()
            while piece := await connection.chunk():
                content += piece
        finally:
            self._upstream.release(connection)
        if head.status != 200:
            raise ValueError(f"the api answered {head.status}")
        return bytes(content)
