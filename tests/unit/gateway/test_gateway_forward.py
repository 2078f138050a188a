"""/api and the rest: streaming both ways, headers, paths."""

from __future__ import annotations

import hashlib
import http.client
import os
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest


def raw(town: Any, request: bytes) -> bytes:
    """What the gateway says to exactly these bytes, until it closes."""
    with socket.create_connection(("127.0.0.1", town.gateway.port), 10) as connection:
        connection.sendall(request)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    return answer


def raw_get(town: Any, path: str) -> http.client.HTTPResponse:
    """httpx would tidy the path up before it is sent."""
    connection = http.client.HTTPConnection("127.0.0.1", town.gateway.port, timeout=10)
    connection.putrequest("GET", path, skip_accept_encoding=True)
    connection.putheader("Authorization", "Bearer right")
    connection.putheader("Connection", "close")
    connection.endheaders()
    return connection.getresponse()


def test_paths_are_dealt_by_their_first_word(town: Any) -> None:
    def by(path: str) -> str:
        return town.client.get(path).json()["by"]

    assert [by(p) for p in ("/api", "/api/v1/me", "/", "/runs/1", "/apis", "/eve")] == [
        "api",
        "api",
        "console",
        "console",
        "console",
        "console",
    ]


def test_the_api_sees_the_whole_request(town: Any) -> None:
    answer = town.client.put(
        "/api/v1/x%20y?b=2&b=3",
        content=b"content",
        headers={"Authorization": "Bearer me", "Cookie": "a=b", "X-Headway-Replica": "forged", "Host": "hw.example"},
    )
    said = answer.json()
    headers = dict(said["headers"])
    assert (said["method"], said["path"], said["query"], said["bytes"]) == ("PUT", "/api/v1/x%20y", "b=2&b=3", 7)
    assert (headers["authorization"], headers["cookie"], headers["host"]) == ("Bearer me", "a=b", "hw.example")
    assert headers["x-forwarded-host"] == "hw.example"
    assert "x-headway-replica" not in headers
    assert headers["x-request-id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize("given", ["a b", "x" * 65, "ä".encode().decode("latin-1"), ""])
def test_a_request_id_that_is_no_plain_word_is_replaced(town: Any, given: str) -> None:
    answer = town.client.get("/api/x", headers=[(b"X-Request-Id", given.encode("latin-1"))])
    assert answer.headers["x-request-id"] not in ("", given)


def test_headers_of_one_connection_end_here(town: Any) -> None:
    answer = town.client.get("/api/hops", headers={"Connection": "x-secret, keep-alive", "X-Secret": "1"})
    assert "x-secret" not in dict(answer.json()["headers"])
    assert not {"keep-alive", "x-private", "server"} & set(answer.headers)
    assert answer.headers["x-kept"] == "1"
    assert answer.headers["set-cookie"] == "a=b"
    assert len(answer.headers.get_list("date")) == 1


@pytest.mark.parametrize(
    "path",
    [
        "/e/digits/../other/x",
        "/e/digits/%2e%2e/x",
        "/e/digits/.%2E/x",
        "/e/digits/%252e%252e/x",
        "/e/digits%2fpredict",
        "/e/digits/a%2Fb",
        "/e/digits/a%252fb",
        "/e/digits/a%5cb",
        "/e/digits/a\\b",
        "/e/digits/%00",
        "/e/./digits",
        "//e/digits",
        "/api/../e/x",
        "/x/%2e%2e/api",
    ],
)
def test_a_path_with_two_readings_is_refused(town: Any, path: str) -> None:
    replica, address = town.replica("r1")
    town.api_app.add("digits", address)
    answer = raw_get(town, path)
    assert answer.status == 422
    assert b'"bad_path"' in answer.read()
    assert replica.seen == []


def test_a_message_with_two_lengths_is_refused(town: Any) -> None:
    request = (
        b"POST /api/x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /api/y"
    )
    assert b" 400 " in raw(town, request).split(b"\r\n")[0]
    assert not any(s["path"] == "/api/x" for s in town.api_app.seen)


def test_naming_the_length_in_connection_changes_nothing(town: Any) -> None:
    request = b"POST /api/x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nConnection: close, content-length\r\n\r\nabcd"
    assert b'"bytes": 4' in raw(town, request)


def test_server_sent_events_pass_one_by_one(town: Any) -> None:
    with town.client.stream("GET", "/api/events") as answer:
        lines = answer.iter_lines()
        assert next(lines) == "data: one"
        # the api sends the second only now
        town.api_app.step.set()
        assert [line for line in lines if line] == ["data: two"]


@pytest.mark.parametrize("known_length", [True, False])
def test_an_upload_streams(town: Any, known_length: bool) -> None:
    piece = os.urandom(1 << 16)

    def pieces() -> Iterator[bytes]:
        yield piece
        # the api has got something while the rest does not exist yet
        assert town.api_app.step.wait(10)
        for _ in range(40):
            yield piece

    headers = {"Content-Length": str(41 * len(piece))} if known_length else {}
    answer = town.client.put("/api/upload", content=pieces(), headers=headers)
    assert answer.content == str(41 * len(piece)).encode()
    assert hashlib.sha256(b"".join(town.api_app.bodies)).digest() == hashlib.sha256(piece * 41).digest()


def test_a_large_answer_comes_whole(town: Any) -> None:
    content = os.urandom(5 << 20)

    async def large(scope: object, receive: object, send: object) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
        for n in range(0, len(content), 1 << 18):
            body = content[n : n + (1 << 18)]
            await send({"type": "http.response.body", "body": body, "more_body": True})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": b""})  # type: ignore[operator]

    town.api_app.do_large = large  # type: ignore[attr-defined]
    assert town.client.get("/api/large").content == content


def test_an_early_answer_arrives_though_the_upload_goes_on(town: Any) -> None:
    answer = town.client.put("/api/early", content=b"x" * (8 << 20))
    assert (answer.status_code, answer.content) == (413, b"big")
    assert town.client.get("/api/x").status_code == 200


def test_a_caller_who_leaves_ends_the_upstream_request(town: Any) -> None:
    with town.client.stream("GET", "/api/forever") as answer:
        assert next(answer.iter_bytes()) == b"begun"
    assert town.api_app.left.wait(10)


def test_a_caller_who_leaves_before_any_answer_ends_the_upstream_request(town: Any) -> None:
    with pytest.raises(httpx.ReadTimeout):
        town.client.get("/api/forever?mute", timeout=0.3)
    assert town.api_app.left.wait(10)


def test_a_caller_who_leaves_within_an_upload_ends_the_upstream_request(town: Any) -> None:
    with socket.create_connection(("127.0.0.1", town.gateway.port), 10) as connection:
        connection.sendall(b"PUT /api/upload HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nabc")
        assert town.api_app.step.wait(10)
    assert town.api_app.left.wait(10)


def test_an_answer_that_was_cut_off_is_not_taken_for_whole(town: Any) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        town.client.get("/api/cut")


def test_answers_without_a_body(town: Any) -> None:
    empty = town.client.delete("/api/empty")
    assert (empty.status_code, empty.content) == (204, b"")
    head = town.client.head("/api/x")
    assert head.status_code == 200
    assert int(head.headers["content-length"]) > 0
    assert town.client.get("/api/x").status_code == 200


def test_a_kept_connection_that_was_closed_does_not_show(town: Any) -> None:

    assert town.client.get("/api/x").status_code == 200
    port = town.api.port
    town.api.stop()
    town.serve(town.api_app, port)
    assert town.client.get("/api/x").status_code == 200
    assert town.client.post("/api/x", content=b"1").status_code == 200


def test_the_console_away_is_a_page_for_browsers_and_an_error_for_programs(town: Any) -> None:
    town.console.stop()
    page = town.client.get("/", headers={"Accept": "text/html"})
    assert (page.status_code, page.headers["content-type"]) == (503, "text/html; charset=utf-8")
    assert "refresh" in page.text
    answer = town.client.get("/")
    assert (answer.status_code, town.code(answer)) == (503, "unreachable")
