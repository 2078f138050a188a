"""Calls to the API: the token, the one shape of errors, retries, event streams."""

from __future__ import annotations

import random
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, ValidationError

from headway.errors import HeadwayError, UnreachableError, UsageError, from_answer
from headway.wire.base import keys_at

#: seconds; a call that may take longer says so
TIMEOUT = httpx.Timeout(60.0, connect=5.0)
_PASSING = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)

M = TypeVar("M", bound=BaseModel)
Content = bytes | Callable[[], Iterator[bytes]]


@dataclass(frozen=True)
class ServerEvent:
    """One server-sent event. `event` is "message" where the server names none."""

    event: str
    data: str
    id: str


def is_loopback(url: str) -> bool:
    return urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")


def options(url: str, token: str) -> dict[str, Any]:
    """What sync and async clients are made with. A proxy of the environment is not used for this machine itself.

    The certificates of all authorities, which take long to read, are read for https alone; a plain client trusts none.
    """
    is_plain = urlsplit(url).scheme == "http"
    return {
        "base_url": f"{url.rstrip('/')}/api/v1",
        "headers": {"Authorization": f"Bearer {token}"},
        "timeout": TIMEOUT,
        "trust_env": not is_loopback(url),
        "verify": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_plain else True,
    }


def error_of(response: httpx.Response) -> HeadwayError:
    """The error that an answer carries; also for answers that are not headway's (a proxy's page)."""
    # what a gateway answers when the server behind it is away is worth another try
    status = UnreachableError.status if response.status_code in (502, 504) else response.status_code
    try:
        body = response.json()["error"]
        return from_answer(status, {k: str(v) for k, v in body.items()})
    except (ValueError, KeyError, TypeError, AttributeError):
        said = f"{response.url.host} answered {response.status_code} {response.reason_phrase}."
        return from_answer(status, {"message": said})


def unreachable(url: str, why: object) -> UnreachableError:
    return UnreachableError(
        f"The server at {url} does not answer ({type(why).__name__}).",
        "Start it with `headway up`, or point HEADWAY_URL at the right one.",
    )


def build(model: type[M], values: Mapping[str, Any]) -> M:
    """`model(**values)`. Raises UsageError with the offending value; an unknown key's names the nearest known one."""
    try:
        return model(**values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            from headway.rules.nearest import unknown

            within = keys_at(model, first["loc"][:-1])
            raise unknown("key", key, [".".join(map(str, [*first["loc"][:-1], k])) for k in within]) from None
        raise UsageError(f"{key}: {first['msg']} (got {first.get('input')!r}).", "Correct that value.") from None


class Transport:
    def __init__(self, url: str, token: str, *, patience: float = 10.0) -> None:
        """patience: seconds for which a server that cannot be reached is tried again."""
        self.url = url.rstrip("/")
        self.patience = patience
        self._http = httpx.Client(**options(url, token))

    def close(self) -> None:
        self._http.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        body: BaseModel | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        content: Content | None = None,
        timeout: float | None = None,
    ) -> Any:
        """The answer's JSON (None when it is empty).

        Every call is safe to send again, so connection errors, 502 and 503 are retried for `patience` seconds.
        content: bytes, or a function that gives them anew for each try. timeout: seconds for one read.
        Raises a HeadwayError: UnreachableError when the patience is over, else what the server said.
        """
        response = self.response(method, path, body=body, params=params, content=content, timeout=timeout)
        return response.json() if response.content else None

    def response(
        self,
        method: str,
        path: str,
        *,
        body: BaseModel | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        content: Content | None = None,
        timeout: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """The same, as the HTTP answer itself."""
        sent = body.model_dump(mode="json", exclude_unset=True) if isinstance(body, BaseModel) else body
        query = {k: v for k, v in (params or {}).items() if v is not None}

        def send() -> httpx.Response:
            response = self._http.request(
                method,
                path,
                json=sent,
                params=query,
                content=content() if callable(content) else content,
                headers=headers,
                timeout=TIMEOUT if timeout is None else httpx.Timeout(timeout, connect=5.0),
            )
            if response.is_error:
                raise error_of(response)
            return response

        return self.patiently(send)

    R = TypeVar("R")

    def patiently(self, act: Callable[[], R]) -> R:
        """`act()`, again while the server cannot be reached, for `patience` seconds."""
        deadline = time.monotonic() + self.patience
        pause = 0.05
        while True:
            try:
                return act()
            except (*_PASSING, UnreachableError) as error:
                if time.monotonic() + pause > deadline:
                    if isinstance(error, UnreachableError):
                        raise
                    raise unreachable(self.url, error) from error
            except httpx.TimeoutException as error:
                raise unreachable(self.url, error) from error
            except httpx.HTTPError as error:
                raise UsageError(
                    f"{self.url} cannot be asked: {error}.", "Correct the address of the server (HEADWAY_URL)."
                ) from error
            time.sleep(pause * random.uniform(0.8, 1.2))
            pause = min(1.0, pause * 1.6)

    def pieces(self, path: str, *, params: Mapping[str, Any] | None = None) -> Iterator[bytes]:
        """An answer of any size, piece by piece. Raises like `call`, and UnreachableError when it breaks off."""
        query = {k: v for k, v in (params or {}).items() if v is not None}

        def connect() -> httpx.Response:
            response = self._http.send(self._http.build_request("GET", path, params=query), stream=True)
            if response.is_error:
                response.read()
                raise error_of(response)
            return response

        response = self.patiently(connect)
        try:
            yield from response.iter_bytes()
        except (*_PASSING, httpx.TimeoutException) as error:
            raise unreachable(self.url, error) from error
        finally:
            response.close()

    def events(self, path: str, *, params: Mapping[str, Any] | None = None) -> Iterator[ServerEvent]:
        """The events of one connection, until the server or the network ends it. Raises like `call`."""
        query = {k: v for k, v in (params or {}).items() if v is not None}

        def connect() -> httpx.Response:
            request = self._http.build_request(
                "GET", path, params=query, headers={"Accept": "text/event-stream"}, timeout=httpx.Timeout(60, connect=5)
            )
            response = self._http.send(request, stream=True)
            if response.is_error:
                response.read()
                raise error_of(response)
            return response

        response = self.patiently(connect)
        try:
            yield from parse_events(response.iter_lines())
        except (*_PASSING, httpx.TimeoutException):
            return  # the reader comes back with its cursor
        finally:
            response.close()


class EventReader:
    """Server-sent events out of text lines, one line at a time; comments (keep-alives) are left out."""

    def __init__(self) -> None:
        self._event, self._data, self._identity = "message", list[str](), ""

    def feed(self, line: str) -> ServerEvent | None:
        """The event that `line` completes, if it completes one."""
        if not line:
            whole = ServerEvent(self._event, "\n".join(self._data), self._identity)
            empty = not self._data and self._event == "message"
            self._event, self._data = "message", []
            return None if empty else whole
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._event = value
        elif name == "data":
            self._data.append(value)
        elif name == "id":
            self._identity = value
        return None


def parse_events(lines: Iterator[str]) -> Iterator[ServerEvent]:
    """Every event in `lines`."""
    reader = EventReader()
    for line in lines:
        if (event := reader.feed(line)) is not None:
            yield event
