"""Carries one WebSocket to an upstream and back: messages, subprotocol, refusal and close code."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

from headway.gateway.answers import GatewayError, Receive, Send
from headway.gateway.hygiene import Headers, get, outward
from headway.gateway.upstream import Refused, split

_MAX_MESSAGE = 64 << 20
#: made anew for each of the two connections
_HANDSHAKE = (b"host", b"sec-websocket-", b"content-length")


def check_origin(headers: Headers) -> None:
    """Raises GatewayError for a browser's page of another site: it would act with its visitor's cookies.

    A caller that is no browser sends no Origin, and passes.
    """
    origin = get(headers, b"origin")
    if origin is None:
        return
    hosts = {get(headers, b"host"), get(headers, b"x-forwarded-host")}
    if urlsplit(origin.decode("latin-1")).netloc.encode("latin-1") not in hosts:
        raise GatewayError(403, "other_origin", "A page of another site may not connect here.")


async def forward(
    scope: dict[str, Any], receive: Receive, send: Send, address: str, target: bytes, headers: Headers, identity: bytes
) -> None:
    """Raises Refused when there is no connection, GatewayError when the handshake fails in another way."""
    # 3 MB that a gateway without WebSockets does without
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI

    class Once(connect):
        def process_redirect(self, exc: Exception) -> Exception | str:
            return exc

    host, port = split(address)
    outside = (get(headers, b"host") or address.encode()).decode("latin-1")
    extra = [(k.decode(), v.decode("latin-1")) for k, v in headers if not k.startswith(_HANDSHAKE)]
    try:
        upstream = await Once(
            f"ws://{outside}{target.decode('ascii')}",
            host=host,
            port=port,
            additional_headers=extra,
            subprotocols=scope["subprotocols"] or None,
            user_agent_header=None,
            compression=None,
            max_size=_MAX_MESSAGE,
            ping_interval=None,
            close_timeout=5,
            proxy=None,
        )
    except InvalidStatus as error:
        raw = [(k.lower().encode(), v.encode("latin-1")) for k, v in error.response.headers.raw_items()]
        start = {"type": "websocket.http.response.start", "status": error.response.status_code}
        await send({**start, "headers": outward(raw, identity)})
        await send({"type": "websocket.http.response.body", "body": bytes(error.response.body or b"")})
        return
    except (InvalidHandshake, InvalidURI, EOFError, ValueError) as error:
        raise GatewayError(502, "upstream_lost", f"The WebSocket was not accepted ({type(error).__name__}).") from error
    except (OSError, asyncio.TimeoutError) as error:
        raise Refused(f"{address} does not accept connections ({error or 'no answer'})") from error
    await send({"type": "websocket.accept", "subprotocol": upstream.subprotocol})
    await _carry(upstream, receive, send)


async def _carry(upstream: Any, receive: Receive, send: Send) -> None:
    tasks = [asyncio.create_task(_out(upstream, send)), asyncio.create_task(_in(upstream, receive))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await upstream.close()


async def _out(upstream: Any, send: Send) -> None:
    from websockets.exceptions import ConnectionClosed

    try:
        async for message in upstream:
            kind = "text" if isinstance(message, str) else "bytes"
            await send({"type": "websocket.send", kind: message})
    except ConnectionClosed:
        pass
    await send({"type": "websocket.close", "code": _sendable(upstream.close_code), "reason": upstream.close_reason})


async def _in(upstream: Any, receive: Receive) -> None:
    from websockets.exceptions import ConnectionClosed

    try:
        while True:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                code = message.get("code")
                await upstream.close(1001 if code == 1006 else _sendable(code), message.get("reason") or "")
                return
            if message["type"] == "websocket.receive":
                text = message.get("text")
                await upstream.send(message["bytes"] if text is None else text)
    except ConnectionClosed:
        # the other direction tells the caller; end only when it is done
        await asyncio.Event().wait()


def _sendable(code: int | None) -> int:
    """1005 and 1006 say that no code came; they must not be sent."""
    if code is None or code == 1005:
        return 1000
    return 1011 if code in (1006, 1015) else code
