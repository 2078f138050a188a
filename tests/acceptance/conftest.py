"""A real `headway up` on a home and port of its own, for tests from the outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from headway.client import Client

T = TypeVar("T")


def environment(home: Path) -> dict[str, str]:
    """This process's environment with that home and no other setting of headway."""
    return {**{k: v for k, v in os.environ.items() if not k.startswith("HEADWAY_")}, "HEADWAY_HOME": str(home)}


def eventually(look: Callable[[], T], *, seconds: float = 60.0, what: str = "it") -> T:
    """The first true value of `look`; asserts that it comes within `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what} did not come within {seconds} s"
        time.sleep(0.05)


@dataclass
class Server:
    home: Path
    process: subprocess.Popen[str]
    #: the readiness line
    ready: dict[str, Any]

    @property
    def url(self) -> str:
        return str(self.ready["url"])

    @property
    def token(self) -> str:
        return (self.home / "admin.token").read_text().strip()

    def client(self, **options: Any) -> Client:
        return Client(self.url, self.token, **options)

    def cli(self, *words: str, timeout: float = 120, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """`headway WORDS` against this server."""
        return subprocess.run(
            [sys.executable, "-m", "headway", *words],
            capture_output=True,
            text=True,
            env=environment(self.home),
            timeout=timeout,
            cwd=cwd,
        )

    def up(self) -> dict[str, Any]:
        """up.json as it is now."""
        found: dict[str, Any] = json.loads((self.home / "up.json").read_text())
        return found


def start(home: Path, *words: str) -> Server:
    """`headway up --json` on a free port, ready."""
    process = subprocess.Popen(
        [sys.executable, "-m", "headway", "up", "--json", "--port", "0", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(home),
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("{") and json.loads(line).get("event") == "ready":
            _drain(process)
            return Server(home, process, json.loads(line))
    raise AssertionError(f"headway up ended with {process.wait()}:\n{''.join(lines)}")


def _drain(process: subprocess.Popen[str]) -> None:
    """Reads on, so that the log never blocks the supervisor."""
    import threading

    assert process.stdout is not None
    threading.Thread(target=process.stdout.read, daemon=True).start()


def stop(server: Server) -> None:
    """Ends the runs that still live, then the platform."""
    if server.process.poll() is None:
        with server.client() as client:
            for endpoint in client.endpoints.ls():
                client.endpoints.stop(endpoint.name)
            live = client.runs.ls(state="live")
            for run in live:
                client.runs.stop(run.id, grace=0)
            for run in live:
                client.runs.wait(run.id, timeout=20)
        server.cli("down")
    server.process.wait(20)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One platform for all tests that leave it as it was."""
    running = start(tmp_path_factory.mktemp("home"))
    yield running
    stop(running)


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Server]:
    """A platform of this test's own, which it may break."""
    running = start(tmp_path / "home")
    yield running
    stop(running)
