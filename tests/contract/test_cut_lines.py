"""Reading from a real store over a line that is cut in the middle of an answer."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from headway.storage import secrets
from headway.storage.objects import ObjectStore, StoreFault, open_access
from headway.testing.s3servers import S3Server

CONTENT = b"".join(hashlib.sha256(str(n).encode()).digest() for n in range(200_000))


class Line:
    """A relay to a server that cuts a connection after so many bytes of answers; `cuts` says how often yet."""

    def __init__(self, port: int, after: int) -> None:
        self._port, self.after = port, after
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._port))
                threading.Thread(target=self._up, args=(near, far), daemon=True).start()
                threading.Thread(target=self._down, args=(far, near), daemon=True).start()

    def _up(self, near: socket.socket, far: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while block := near.recv(65536):
                far.sendall(block)
        _end(far)

    def _down(self, far: socket.socket, near: socket.socket) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while block := far.recv(65536):
                passed += len(block)
                if passed > self.after and self.cuts:
                    self.cuts -= 1
                    break
                near.sendall(block)
        _end(near)
        _end(far)

    def close(self) -> None:
        _end(self._listener)


def _end(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


@pytest.fixture
def line(swift: S3Server) -> Iterator[Line]:
    found = Line(urlsplit(swift.endpoint).port or 0, after=2 << 20)
    yield found
    found.close()


@pytest.fixture
def objects(swift: S3Server, line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    monkeypatch.setattr("headway.storage.objects.opening._MOST_RETRIES", 2)
    secrets.ensure_key(tmp_path / "key")
    access = swift.access(tmp_path / "key")
    open_access(access, tmp_path / "key").put_bytes("a/b", CONTENT)
    return open_access({**access, "connection": {**access["connection"], "endpoint": line.endpoint}}, tmp_path / "key")


def test_a_stream_goes_on_at_the_byte(objects: ObjectStore, line: Line) -> None:
    line.cuts = 2
    assert b"".join(objects.stream("a/b")) == CONTENT
    assert line.cuts == 0
    line.cuts = 1
    assert b"".join(objects.stream("a/b", 1000, 5_000_000)) == CONTENT[1000:5_001_000]
    assert line.cuts == 0


def test_a_line_that_stays_cut_is_a_fault_and_never_a_short_object(objects: ObjectStore, line: Line) -> None:
    blocks = objects.stream("a/b")
    next(blocks)
    line.after, line.cuts = 0, 1_000
    with pytest.raises(StoreFault) as fault:
        for _ in blocks:
            pass
    assert fault.value.passing
