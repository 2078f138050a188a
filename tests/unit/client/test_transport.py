"""Errors and events as the client reads them; where it finds the server."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

import httpx
import pytest

from headway.client import transport
from headway.client.locate import locate
from headway.errors import FailedError, NotFoundError, UnauthorizedError, UnreachableError, UsageError
from headway.wire.runs import JobRequest


def answer(status: int, body: object) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.Response(status, content=content, request=httpx.Request("GET", "http://here/x"))


def test_error_of() -> None:
    error = transport.error_of(answer(404, {"error": {"code": "no_run", "message": "No run 9.", "remedy": "Look."}}))
    assert isinstance(error, NotFoundError)
    assert (error.code, str(error)) == ("no_run", "No run 9. Look.")
    assert isinstance(transport.error_of(answer(500, b"<html>")), FailedError)
    # what a gateway says when the server behind it is away
    assert isinstance(transport.error_of(answer(502, b"<html>")), UnreachableError)
    assert isinstance(transport.error_of(answer(504, {"error": {"code": "x", "message": "m"}})), UnreachableError)


def test_parse_events() -> None:
    text = ': hello\n\ndata: {"a":\ndata: 1}\nid: 7\n\nevent: end\ndata:\n\nevent: open\n\n'
    found = list(transport.parse_events(iter(text.split("\n"))))
    assert [(e.event, e.data, e.id) for e in found] == [
        ("message", '{"a":\n1}', "7"),
        ("end", "", "7"),
        ("open", "", "7"),
    ]


def test_build_names_the_nearest_field() -> None:
    with pytest.raises(UsageError, match=r"unknown key 'proceses'\. Did you mean processes\?"):
        transport.build(JobRequest, {"command": ["x"], "proceses": 2})
    with pytest.raises(UsageError, match="priority"):
        transport.build(JobRequest, {"command": ["x"], "priority": 11})


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(UnreachableError, match="does not answer"):
        transport.Transport(f"http://127.0.0.1:{port}", "t", patience=0.2).call("GET", "/health")


def test_locate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEADWAY_URL", "HEADWAY_TOKEN", "HEADWAY_PORT", "HEADWAY_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HEADWAY_HOME", str(tmp_path))
    with pytest.raises(UnauthorizedError, match="no token"):
        locate("http://there")
    (tmp_path / "admin.token").write_text("hw_file\n")
    # a home's token is for the headway that runs there, never for whoever has the usual port
    with pytest.raises(UnreachableError, match="No headway runs"):
        locate()
    (tmp_path / "up.json").write_text('{"url": "http://127.0.0.1:9999"}')
    assert (locate().url, locate().token) == ("http://127.0.0.1:9999", "hw_file")
    monkeypatch.setenv("HEADWAY_URL", "http://there:1/")
    monkeypatch.setenv("HEADWAY_TOKEN", "hw_env")
    assert (locate().url, locate().token) == ("http://there:1", "hw_env")
    assert locate("http://flag", "hw_flag").url == "http://flag"


def test_certificates_are_read_for_https_alone_and_nothing_goes_unverified(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    real = ssl.SSLContext.load_verify_locations

    def load(self: ssl.SSLContext, *args: object, **kwargs: object) -> None:
        read.append(args or kwargs)
        real(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", load)
    plain = transport.options("http://127.0.0.1:8750", "t")
    httpx.Client(**plain).close()
    assert read == []
    # asked for https all the same, it trusts nobody
    assert plain["verify"].verify_mode is ssl.CERT_REQUIRED
    assert plain["verify"].check_hostname and plain["verify"].get_ca_certs() == []
    secure = transport.options("https://127.0.0.1:8750", "t")
    assert secure["verify"] is True
    httpx.Client(**secure).close()
    assert len(read) > 0
