"""What every answer of the console carries, and who may connect: an ASGI wrapper."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

#: NiceGUI compiles its templates in the browser, hence 'unsafe-eval'; nothing may come from or go to another host
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'self'; "
    "form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
]


class Guard:
    """Refuses requests that a page of another site makes with its visitor's cookie, and adds security headers."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        acts = scope.get("method") not in ("GET", "HEAD") or scope["path"].startswith("/_nicegui_ws")
        if acts and _foreign(scope["headers"]):
            await _refuse(scope, receive, send)
            return
        # the console lies at the root: where else a caller says it lies must not get into the page
        scope["headers"] = [(k, v) for k, v in scope["headers"] if k != b"x-forwarded-prefix"]

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        await self._app(scope, receive, guarded if scope["type"] == "http" else send)


def _foreign(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether a browser says that another site's page asks. A caller that is no browser sends no Origin."""
    given = {k: v.decode("latin-1") for k, v in headers}
    origin = given.get(b"origin")
    if origin is None:
        return False
    return urlsplit(origin).netloc not in {given.get(b"host"), given.get(b"x-forwarded-host")}


async def _refuse(scope: Message, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": "A page of another site may not connect here."})
        return
    await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"A page of another site may not do this."})
