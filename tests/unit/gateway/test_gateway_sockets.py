"""WebSockets through the gateway."""

from __future__ import annotations

from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect


def url(town: Any, path: str) -> str:
    return f"ws://127.0.0.1:{town.gateway.port}{path}"


def test_messages_pass_both_ways(town: Any) -> None:
    with connect(url(town, "/_console_ws/x?id=1"), subprotocols=["a", "b"], max_size=None) as socket:  # type: ignore[list-item]
        assert socket.subprotocol == "b"
        socket.send("abc")
        assert socket.recv(10) == "cba"
        socket.send(b"\x00\xff")
        assert socket.recv(10) == b"\x00\xff"
        socket.send("x" * (2 << 20))
        assert socket.recv(10) == "x" * (2 << 20)
        seen = town.console_app.seen[-1]
        assert (seen["raw_path"], seen["query_string"]) == (b"/_console_ws/x", b"id=1")
        assert town.console_app.headers()["host"] == f"127.0.0.1:{town.gateway.port}"
        assert len([k for k, _ in seen["headers"] if k == b"host"]) == 1
        assert town.console_app.headers()["x-request-id"]
        socket.close(4000, "bye")
    assert town.console_app.left.wait(10)
    assert town.console_app.seen[-1] == {"code": 4000}


def test_the_upstreams_close_arrives_with_its_code(town: Any) -> None:
    with connect(url(town, "/ws")) as socket:
        socket.send("close")
        with pytest.raises(ConnectionClosed) as caught:
            socket.recv(10)
    assert caught.value.rcvd is not None
    assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (4321, "enough")


def test_a_caller_who_vanishes_ends_the_upstream_socket(town: Any) -> None:
    with connect(url(town, "/ws")) as socket:
        socket.send("abc")
        assert socket.recv(10) == "cba"
        socket.socket.shutdown(2)
    assert town.console_app.left.wait(10)


def test_a_refusal_passes(town: Any) -> None:
    with pytest.raises(InvalidStatus) as caught:
        connect(url(town, "/refused"))
    assert (caught.value.response.status_code, caught.value.response.body) == (418, b"teapot")


def test_an_upstream_that_is_away_is_503(town: Any) -> None:
    town.console.stop()
    with pytest.raises(InvalidStatus) as caught:
        connect(url(town, "/ws"))
    assert caught.value.response.status_code == 503


def test_a_page_of_another_site_may_not_connect(town: Any) -> None:
    with pytest.raises(InvalidStatus) as caught:
        connect(url(town, "/ws"), origin="https://evil.example")  # type: ignore[arg-type]
    assert caught.value.response.status_code == 403
    with connect(url(town, "/ws"), origin=f"http://127.0.0.1:{town.gateway.port}") as socket:  # type: ignore[arg-type]
        socket.send("abc")
        assert socket.recv(10) == "cba"


def test_an_endpoints_socket_needs_a_token_and_hides_it(town: Any) -> None:
    replica, address = town.replica("r1")
    town.api_app.add("digits", address)
    with pytest.raises(InvalidStatus) as caught:
        connect(url(town, "/e/digits/live"))
    assert caught.value.response.status_code == 401
    with connect(url(town, "/e/digits/live"), additional_headers={"Authorization": "Bearer right"}) as socket:
        socket.send("abc")
        assert socket.recv(10) == "cba"
    seen = replica.headers(0)
    assert seen["x-headway-replica"] == "s1"
    assert "authorization" not in seen
