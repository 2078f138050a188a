"""What the gateway itself answers: errors in headway's one shape, and a page while the console starts."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from headway.errors import HeadwayError
from headway.gateway.hygiene import REQUEST_ID, Headers

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]

_WAITING = """<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="2">
<title>headway</title></head><body style="font-family:system-ui,sans-serif;margin:4rem;color:#333">
<h1 style="font-weight:600">headway</h1><p>The console is starting. This page looks again by itself.</p>
<p lang="zh">控制台正在启动，本页会自动刷新。</p></body></html>"""


class GatewayError(HeadwayError):
    """An answer of the gateway's own. `status`: the HTTP status; `retry_after`: seconds, where waiting helps."""

    def __init__(
        self, status: int, code: str, message: str, remedy: str = "", *, retry_after: int | None = None
    ) -> None:
        super().__init__(message, remedy, code=code)
        self.status = status
        self.retry_after = retry_after


async def send_error(scope: dict[str, Any], send: Send, error: HeadwayError, identity: bytes) -> None:
    """Answers an HTTP request, or refuses a WebSocket before it is accepted."""
    headers: Headers = [(b"content-type", b"application/json")]
    if error.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    retry_after = getattr(error, "retry_after", None)
    if retry_after is not None:
        headers.append((b"retry-after", str(retry_after).encode()))
    body = json.dumps({"error": error.as_dict()}, ensure_ascii=False).encode()
    await send_whole(scope, send, error.status, headers, body, identity)


async def send_waiting(scope: dict[str, Any], send: Send, identity: bytes) -> None:
    """The page for a browser that comes before the console is there."""
    headers: Headers = [(b"content-type", b"text/html; charset=utf-8"), (b"retry-after", b"2")]
    headers.append((b"cache-control", b"no-store"))
    await send_whole(scope, send, 503, headers, _WAITING.encode(), identity)


async def send_whole(
    scope: dict[str, Any], send: Send, status: int, headers: Headers, body: bytes, identity: bytes
) -> None:
    kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    headers = [*headers, (b"content-length", str(len(body)).encode()), (REQUEST_ID, identity)]
    if scope.get("method") == "HEAD":
        body = b""
    await send({"type": f"{kind}.start", "status": status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})
