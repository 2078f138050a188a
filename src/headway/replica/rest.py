"""REST around the core: POST /predict {"inputs": ...} -> {"outputs": ...}, GET /health/live, GET /health/ready."""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable
from typing import Any

from headway.errors import FailedError, ForbiddenError, HeadwayError, NotFoundError, UsageError
from headway.protocol.names import REPLICA_HEADER
from headway.replica.core import BusyError, Core, plain

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]

#: largest body, bytes
BODY_LIMIT = 32 << 20

_HEADER = REPLICA_HEADER.lower().encode()
_ROUTES = {"/predict": "POST", "/health/live": "GET", "/health/ready": "GET"}


class TooLargeError(UsageError):
    status, default_code = 413, "too_large"


class WrongMethodError(UsageError):
    status, default_code = 405, "wrong_method"


class Rest:
    """The ASGI application. `core` is None until the model is loaded; `ending` is set when it must take no more."""

    def __init__(self, secret: str | None, core: Core | None = None) -> None:
        """secret: what X-Headway-Replica must hold; None: anybody may ask (a replica started by hand)."""
        self._secret = None if secret is None else secret.encode()
        self.core = core
        self.ending = False

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            answer = await self._answer(scope, receive)
            if answer is not None:
                await _send(send, 200, answer)
        except HeadwayError as error:
            retry = [(b"retry-after", b"1")] if error.status == 503 else []
            await _send(send, error.status, _encode({"error": error.as_dict()}), retry)

    async def _answer(self, scope: dict[str, Any], receive: Receive) -> bytes | None:
        """The body of a good answer; None when the caller has left."""
        self._check_caller(scope)
        path, method = scope["path"], scope["method"]
        wanted = _ROUTES.get(path)
        if wanted is None:
            raise NotFoundError(f"A replica has no {path}.", f"It has {', '.join(_ROUTES)}.", code="unknown_path")
        if method != wanted and not (method == "HEAD" and wanted == "GET"):
            raise WrongMethodError(f"{path} takes {wanted}, not {method}.")
        if path == "/health/live":
            return _encode({"live": True})
        core = self.core
        if core is None:
            raise BusyError("The model is still being loaded.", "Try again soon.", code="loading")
        if self.ending:
            raise BusyError("This replica is ending.", "Try again: another one takes it.", code="ending")
        if path == "/health/ready":
            return _encode({"ready": True})
        body = await _body(scope, receive)
        return None if body is None else _encode({"outputs": await core.predict(_inputs(body))})

    def _check_caller(self, scope: dict[str, Any]) -> None:
        if self._secret is None:
            return
        given = next((v for k, v in scope["headers"] if k == _HEADER), b"")
        if not hmac.compare_digest(given, self._secret):
            raise ForbiddenError(
                "A replica answers its gateway alone.", "Ask at /e/ENDPOINT on the public port.", code="not_the_gateway"
            )


async def _body(scope: dict[str, Any], receive: Receive) -> bytes | None:
    length = next((v for k, v in scope["headers"] if k == b"content-length"), b"0")
    if int(length) > BODY_LIMIT:
        raise _too_large()
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if len(body) > BODY_LIMIT:
            raise _too_large()
        if not message.get("more_body", False):
            return bytes(body)


def _too_large() -> TooLargeError:
    return TooLargeError(f"The body is larger than {BODY_LIMIT >> 20} MiB.", "Send fewer inputs at once.")


def _inputs(body: bytes) -> Any:
    try:
        content = json.loads(body)
    except ValueError as error:
        raise UsageError(f"The body is not JSON: {error}.", 'Send {"inputs": ...}.', code="bad_json") from error
    if not isinstance(content, dict) or "inputs" not in content:
        raise UsageError("The body has no key 'inputs'.", 'Send {"inputs": ...}.', code="no_inputs")
    unknown = sorted(set(content) - {"inputs"})
    if unknown:
        raise UsageError(f"The body has an unknown key {unknown[0]!r}.", 'Send {"inputs": ...}.', code="unknown_key")
    return content["inputs"]


def _encode(content: Any) -> bytes:
    try:
        return json.dumps(content, default=plain, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise FailedError(
            f"The outputs cannot be written as JSON: {error}.",
            "Return numbers, text, lists and dictionaries.",
            code="bad_outputs",
        ) from error


async def _send(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    length = (b"content-length", str(len(body)).encode())
    all_headers = [(b"content-type", b"application/json"), length, *(headers or [])]
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    await send({"type": "http.response.body", "body": body})
