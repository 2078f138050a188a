"""Real servers on loopback: an api, a console, replicas and the gateway in front of them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headway import asgi
from headway.gateway import GatewaySettings, create_app

SERVICE_TOKEN = "hw_gateway"


class Served:
    """An ASGI application on a uvicorn server in a thread of its own."""

    def __init__(self, app: Any, *, port: int = 0, lifespan: bool = False) -> None:
        self.app = app
        self.listener = asgi.listen("127.0.0.1", port)
        self.port = self.listener.getsockname()[1]
        ready = threading.Event()
        self.server = asgi.QuietServer(asgi.config(app, websockets=True, drain=0.2, lifespan=lifespan), ready.set)
        self.thread = threading.Thread(target=self.server.run, args=([self.listener],), daemon=True)
        self.thread.start()
        assert ready.wait(10)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def stop(self) -> None:
        self.server.stop()
        self.thread.join(10)
        assert not self.thread.is_alive()


class Backend:
    """Says what it was asked. Paths that end in a known word do something else."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen: list[dict[str, Any]] = []
        self.step = threading.Event()
        self.left = threading.Event()
        self.bodies: list[bytes] = []

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        self.seen.append(scope)
        act = getattr(self, "do_" + scope["path"].rpartition("/")[2], self.echo)
        if scope["type"] == "websocket":
            act = self.websocket
        await act(scope, receive, send)

    async def echo(self, scope: dict[str, Any], receive: Any, send: Any, status: int = 200, extra: Any = ()) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        said = {
            "by": self.name,
            "method": scope["method"],
            "path": scope["raw_path"].decode(),
            "query": scope["query_string"].decode(),
            "headers": [[k.decode(), v.decode()] for k, v in scope["headers"]],
            "bytes": len(body),
            "sha256": hashlib.sha256(body).hexdigest(),
        }
        content = json.dumps(said).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode()), *extra]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def do_hops(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        extra = [(b"keep-alive", b"timeout=9"), (b"x-private", b"1"), (b"connection", b"x-private"), (b"x-kept", b"1")]
        extra += [(b"set-cookie", b"a=b"), (b"server", b"secret/1")]
        await self.echo(scope, receive, send, extra=extra)

    async def do_events(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Two server-sent events; the second only after the test has seen the first."""
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"data: one\n\n", "more_body": True})
        await asyncio.to_thread(self.step.wait, 10)
        await send({"type": "http.response.body", "body": b"data: two\n\n", "more_body": False})

    async def do_forever(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answers its head, or (query) nothing at all, and notes when the caller leaves."""
        if scope["query_string"] != b"mute":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        self.left.set()

    async def do_upload(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Takes the body piece by piece and says when the first one came."""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.left.set()
                return
            self.bodies.append(message.get("body", b""))
            self.step.set()
            if not message.get("more_body"):
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(sum(map(len, self.bodies))).encode()})

    async def do_early(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Refuses before it has read anything."""
        await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"3")]})
        await send({"type": "http.response.body", "body": b"big"})

    async def do_cut(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"100")]})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})

    async def do_empty(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def websocket(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        await receive()
        if scope["path"].endswith("/refused"):
            headers = [(b"content-type", b"text/plain")]
            await send({"type": "websocket.http.response.start", "status": 418, "headers": headers})
            await send({"type": "websocket.http.response.body", "body": b"teapot"})
            return
        chosen = scope["subprotocols"][-1] if scope["subprotocols"] else None
        await send({"type": "websocket.accept", "subprotocol": chosen})
        while True:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                self.seen.append({"code": message["code"]})
                self.left.set()
                return
            if message.get("text") == "close":
                await send({"type": "websocket.close", "code": 4321, "reason": "enough"})
                return
            if message.get("text") is not None:
                await send({"type": "websocket.send", "text": message["text"][::-1]})
            else:
                await send({"type": "websocket.send", "bytes": message["bytes"]})

    def headers(self, index: int = -1) -> dict[str, str]:
        return {k.decode(): v.decode() for k, v in self.seen[index]["headers"]}


class Api(Backend):
    """The routes besides, for the right service token."""

    def __init__(self) -> None:
        super().__init__("api")
        self.routes: list[dict[str, Any]] = []
        self.fetched = 0

    async def do_routes(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        allowed = dict(scope["headers"]).get(b"authorization") == f"Bearer {SERVICE_TOKEN}".encode()
        content = json.dumps({"routes": self.routes} if allowed else {"error": {}}).encode()
        await send({"type": "http.response.start", "status": 200 if allowed else 401, "headers": []})
        await send({"type": "http.response.body", "body": content})
        self.fetched += 1

    def add(self, endpoint: str, *replicas: str, tokens: dict[str, dict[str, Any]] | None = None) -> None:
        tokens = {"right": {}} if tokens is None else tokens
        self.routes.append(
            {
                "endpoint": endpoint,
                "state": "ready" if replicas else "starting",
                "replicas": [{"run": n, "address": a, "secret": f"s{n}"} for n, a in enumerate(replicas, 1)],
                "tokens": [
                    {
                        "hash": hashlib.sha256(k.encode()).hexdigest(),
                        "expires_at": v.get("expires_at"),
                        "revoked": v.get("revoked", False),
                    }
                    for k, v in tokens.items()
                ],
            }
        )


class Town:
    """All of them, and how to ask the gateway."""

    def __init__(self, hints: Path) -> None:
        self.hints = hints
        self.api_app = Api()
        self.console_app = Backend("console")
        self.api = Served(self.api_app)
        self.console = Served(self.console_app)
        self.others: list[Served] = []
        self._gateway: Served | None = None
        self._client: httpx.Client | None = None
        self.timeout = 60.0

    def replica(self, name: str) -> tuple[Backend, str]:
        served = self.serve(Backend(name))
        return served.app, served.address

    def serve(self, app: Any, port: int = 0) -> Served:
        served = Served(app, port=port)
        self.others.append(served)
        return served

    @staticmethod
    def code(answer: httpx.Response) -> str:
        """The code of an error in headway's one shape."""
        error = answer.json()["error"]
        assert set(error) == {"code", "message", "remedy"}
        return error["code"]

    @staticmethod
    def until(what: Callable[[], Any], seconds: float = 10.0) -> Any:
        """Waits for something that happens in another thread."""
        deadline = time.monotonic() + seconds
        while not (found := what()):
            assert time.monotonic() < deadline, "it did not happen"
            threading.Event().wait(0.01)
        return found

    @property
    def gateway(self) -> Served:
        """Started at first use, when the test has arranged the routes."""
        if self._gateway is None:
            settings = GatewaySettings(
                self.api.url, self.console.url, SERVICE_TOKEN, self.hints, endpoint_timeout=self.timeout
            )
            self._gateway = Served(create_app(settings), lifespan=True)
        return self._gateway

    @property
    def client(self) -> httpx.Client:
        if self._client is None:
            self._client = httpx.Client(base_url=self.gateway.url, timeout=20)
        return self._client

    def ask(self, path: str, token: str | None = "right", method: str = "POST", **more: Any) -> httpx.Response:
        headers = {**more.pop("headers", {})}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return self.client.request(method, path, headers=headers, **more)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        for served in [self._gateway, self.api, self.console, *self.others]:
            if served is not None and served.thread.is_alive():
                served.stop()


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    town = Town(tmp_path / "hints")
    yield town
    town.close()
