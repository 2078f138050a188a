"""What upstreams may send: each answer byte for byte from a raw socket."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable

import pytest

from headway.gateway.upstream import Lost, Refused, Silent, Upstream, UpstreamError

_WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"


class Raw:
    """Takes connections one after another; says the next of `answers` to each request, then closes (or keeps)."""

    def __init__(self, *answers: bytes, keep: bool = False) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.answers = list(answers)
        self.keep = keep
        self.requests: list[bytes] = []
        self.accepted = 0
        self.closed = threading.Event()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.listener.getsockname()[1]}"

    def _serve(self) -> None:
        while self.answers:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.accepted += 1
            with connection:
                while self.answers:
                    request = b""
                    while b"\r\n\r\n" not in request and (piece := connection.recv(65536)):
                        request += piece
                    if not request:
                        break
                    self.requests.append(request)
                    connection.sendall(self.answers.pop(0))
                    if not self.keep:
                        break
            self.closed.set()

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.close()


async def ask(
    upstream: Upstream, address: str, method: str = "GET", timeout: float | None = 10
) -> tuple[int, dict[bytes, bytes], bytes]:
    connection = await upstream.connect(address)
    try:
        connection.start(method, b"/x", [(b"host", b"a")], chunked=False, body=b"", end=True)
        connection.expect(timeout)
        head = await connection.head()
        body = b""
        while piece := await connection.chunk():
            body += piece
    finally:
        upstream.release(connection)
    return head.status, dict(head.headers), body


def told(answer: bytes, method: str = "GET") -> tuple[int, dict[bytes, bytes], bytes]:
    with Raw(answer) as raw:
        return asyncio.run(ask(Upstream(), raw.address, method))


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", b"abc"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\nT: 1\r\n\r\n", b"abc"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc", b"abc"),
        (b"HTTP/1.0 200 OK\r\n\r\nabc", b"abc"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + _WHOLE, b"abc"),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""),
    ],
)  # fmt: skip
def test_every_framing_is_read(answer: bytes, body: bytes) -> None:
    status, headers, found = told(answer)
    assert status in (200, 304)
    assert found == body
    assert b"link" not in headers


def test_head_has_a_length_and_no_body() -> None:
    status, headers, body = told(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "HEAD")
    assert (status, headers[b"content-length"], body) == (200, b"9", b"")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ],
)
def test_what_is_not_whole_or_not_http_is_lost(answer: bytes) -> None:
    with pytest.raises(Lost):
        told(answer)


def test_nobody_there_is_refused() -> None:
    with Raw() as raw:
        address = raw.address
    with pytest.raises(Refused):
        asyncio.run(ask(Upstream(), address))


def test_no_answer_in_time_is_silent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute, pytest.raises(Silent):
        asyncio.run(ask(Upstream(), f"127.0.0.1:{mute.getsockname()[1]}", timeout=0.05))


def twice(raw: Raw, between: Callable[[Upstream], object] = lambda upstream: None) -> list[bytes]:
    async def main() -> list[bytes]:
        upstream = Upstream()
        first = await ask(upstream, raw.address)
        between(upstream)
        second = await ask(upstream, raw.address)
        upstream.close()
        return [first[2], second[2]]

    return asyncio.run(main())


def test_a_connection_is_used_again() -> None:
    with Raw(_WHOLE, _WHOLE, keep=True) as raw:
        assert twice(raw) == [b"abc", b"abc"]
        assert raw.accepted == 1


def test_one_that_said_close_or_too_much_is_not() -> None:
    for answer in (_WHOLE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), _WHOLE + b"more"):
        with Raw(answer, _WHOLE) as raw:
            assert twice(raw) == [b"abc", b"abc"]
            assert raw.accepted == 2


def test_one_that_was_closed_meanwhile_is_not() -> None:
    with Raw(_WHOLE, _WHOLE) as raw:
        assert twice(raw, lambda upstream: raw.closed.wait(10)) == [b"abc", b"abc"]
        assert raw.accepted == 2


def test_a_slow_reader_holds_the_sender_back_and_loses_nothing() -> None:
    size = 20 << 20
    with Raw(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size) as raw:

        async def main() -> tuple[int, int]:
            upstream = Upstream()
            connection = await upstream.connect(raw.address)
            connection.start("GET", b"/", [], chunked=False, body=b"", end=True)
            await connection.head()
            total = largest = 0
            while piece := await connection.chunk():
                total += len(piece)
                largest = max(largest, len(piece))
                await asyncio.sleep(0)
            upstream.release(connection)
            return total, largest

        total, largest = asyncio.run(main())
    assert total == size
    assert largest < 2 << 20


def test_an_aborted_exchange_says_so_to_both_sides() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as mute:
            upstream = Upstream()
            connection = await upstream.connect(f"127.0.0.1:{mute.getsockname()[1]}")
            connection.start("POST", b"/", [], chunked=True, body=b"", end=False)
            asyncio.get_running_loop().call_soon(connection.abort)
            with pytest.raises(Lost):
                await connection.head()
            with pytest.raises(UpstreamError):
                await connection.send(b"more", True)

    asyncio.run(main())
