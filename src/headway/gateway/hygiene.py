"""What may pass: paths that every reader reads alike, and headers that are meant for the other end."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

from headway.errors import UsageError
from headway.protocol.names import REPLICA_HEADER

Headers = list[tuple[bytes, bytes]]

REQUEST_ID = b"x-request-id"
REPLICA = REPLICA_HEADER.lower().encode()

#: of one connection only (RFC 9110, 7.6.1); whatever `Connection` names besides goes too
HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
#: set by the gateway itself, so never believed from outside; `expect` was answered here
_OURS = frozenset(
    {b"expect", b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-forwarded-prefix"}
    | {REPLICA, REQUEST_ID}
)
#: the console and the caller share an origin with every endpoint: a replica runs users' code and gets none of these
_CREDENTIALS = frozenset({b"authorization", b"cookie"})
#: made by the gateway's own server
_SERVER = frozenset({b"date", b"server", REPLICA, REQUEST_ID})

_GOOD_ID = re.compile(rb"^[A-Za-z0-9._-]{1,64}$")
_CONFUSING = re.compile(rb"%(?:2f|5c|00)|[\\\x00-\x20\x7f-\xff]", re.IGNORECASE)


def checked_path(raw: bytes) -> list[bytes]:
    """The segments of a raw path after its first slash, still encoded.

    Raises UsageError for a path that two readers could read in two ways: encoded slashes or backslashes, `.` and `..`
    in any encoding, NUL, an empty first segment.
    """
    if not raw.startswith(b"/") or raw.startswith(b"//"):
        raise _bad_path(raw)
    if _CONFUSING.search(raw):
        raise _bad_path(raw)
    segments = raw[1:].split(b"/")
    for segment in segments:
        plain = segment
        # `%252e%252e` must not become `..` after a second reading
        for _ in range(3):
            if plain in (b".", b".."):
                raise _bad_path(raw)
            if b"%" not in plain:
                break
            plain = unquote_to_bytes(plain)
            if b"/" in plain or b"\\" in plain or b"\x00" in plain:
                raise _bad_path(raw)
    return segments


def _bad_path(raw: bytes) -> UsageError:
    shown = raw[:200].decode("latin-1")
    return UsageError(
        f"The path {shown!r} can be read in more than one way.",
        "Leave out encoded slashes, backslashes and dot segments.",
        code="bad_path",
    )


def get(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """The first value of a header; `name` in lower case."""
    return next((value for key, value in headers if key == name), None)


def request_id(headers: Headers) -> bytes:
    """The caller's X-Request-Id if it is a plain short word, else a new one."""
    given = get(headers, REQUEST_ID)
    return given if given is not None and _GOOD_ID.match(given) else secrets.token_hex(8).encode()


def inward(scope: dict[str, Any], identity: bytes, *, drop: frozenset[bytes] = frozenset()) -> Headers:
    """A request's headers as an upstream gets them; framing (length, chunking) is the caller's."""
    headers: Headers = scope["headers"]
    gone = _named_by_connection(headers) | _OURS | drop
    kept = [(k, v) for k, v in headers if k not in gone]
    client = scope.get("client")
    if client:
        kept.append((b"x-forwarded-for", str(client[0]).encode()))
    scheme = {"ws": "http", "wss": "https"}.get(scope.get("scheme", "http"), scope.get("scheme", "http"))
    kept.append((b"x-forwarded-proto", scheme.encode()))
    host = get(headers, b"host")
    if host is not None:
        kept.append((b"x-forwarded-host", host))
    kept.append((REQUEST_ID, identity))
    return kept


def to_replica(scope: dict[str, Any], identity: bytes, endpoint: str, secret: str) -> Headers:
    """As `inward`, without the caller's credentials and with what the replica knows the gateway by."""
    kept = inward(scope, identity, drop=_CREDENTIALS)
    kept.append((b"x-forwarded-prefix", f"/e/{endpoint}".encode()))
    kept.append((REPLICA, secret.encode()))
    return kept


def outward(headers: Headers, identity: bytes, *, from_replica: bool = False) -> Headers:
    """An answer's headers as the caller gets them."""
    gone = _named_by_connection(headers) | _SERVER
    if from_replica:
        gone |= {b"set-cookie"}
    kept = [(k, v) for k, v in headers if k not in gone]
    kept.append((REQUEST_ID, identity))
    if from_replica:
        kept.append((b"x-content-type-options", b"nosniff"))
    return kept


def _named_by_connection(headers: Headers) -> frozenset[bytes]:
    named = set(HOP_BY_HOP)
    for key, value in headers:
        if key == b"connection":
            named.update(word.strip().lower() for word in value.split(b","))
    # `Connection: content-length` must not change where a message ends
    named -= {b"content-length", b"content-type", b"host", b""}
    return frozenset(named)
