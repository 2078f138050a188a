"""A real helper process as the runner starts it, and what it says."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


def cells(count: int) -> list[dict[str, Any]]:
    """Cells of checkpoints with three cases each."""
    return [
        {
            "cell": n + 1,
            "checkpoint": {"id": n // 3, "name": f"epoch-{n // 3}.pt", "path": f"/c/epoch-{n // 3}.pt"},
            "case": {"id": f"case-{n % 3}", "parameters": {"n": n}, "tags": []},
            "key": f"key-{n}",
            "path": f"epoch-{n // 3}/case-{n % 3}",
        }
        for n in range(count)
    ]


class Home:
    """A root with one project; helpers and workers of one attempt each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.root = path / "root"
        self.project = self.root / "projects/p"
        self.target = self.project / "evaluations/1/outputs"
        self.project.mkdir(parents=True)

    def plan(self, attempt: str, **parts: Any) -> Path:
        folder = self.root / "attempts" / attempt
        folder.mkdir(parents=True, exist_ok=True)
        plan = {
            "root": str(self.root),
            "objects": f"file://{self.root}/objects",
            "project": "p",
            "project_folder": str(self.project),
            "cache": str(self.path / "cache"),
            "snapshot": None,
            "datasets": [],
            "checkpoints": None,
            "cells": None,
            **parts,
        }
        (folder / "launch.json").write_text(json.dumps({"plan": plan}))
        return folder

    def cells(self, attempt: str, deal: list[dict[str, Any]], **rule: Any) -> Path:
        return self.plan(
            attempt,
            cells={
                "target": str(self.target),
                "work": str(self.root / "attempts" / attempt / "work"),
                "outputs": [{"name": "score.json", "kind": "json"}, {"name": "out.bin", "kind": "file"}],
                "score_file": "score.json",
                "score": "score",
                "tries": 2,
                "resume_seconds": 0.05,
                "deal": deal,
                **rule,
            },
        )

    def checkpoints(self, attempt: str, **rule: Any) -> Path:
        watch = self.root / "attempts" / attempt / "checkpoints"
        watch.mkdir(parents=True, exist_ok=True)
        target = self.project / "jobs/1/checkpoints"
        return self.plan(
            attempt,
            checkpoints={
                "watch": str(watch),
                "target": str(target),
                "patterns": ["*.pt", "*.safetensors"],
                "resume_seconds": 0.05,
                **rule,
            },
        )


class Helper:
    def __init__(self, folder: Path, address: str, extra: str = "") -> None:
        command = [sys.executable, "-I", "-m", "headway.helper", str(folder)]
        if extra:
            start = "from headway.helper.__main__ import main\nsys.exit(main())"
            code = f"{extra}\nimport sys\nsys.argv[1:] = [{str(folder)!r}]\n{start}"
            command = [sys.executable, "-I", "-c", code]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "HEADWAY_HELPER": address},
        )
        self.said: list[dict[str, Any]] = []
        self._early: list[dict[str, Any]] = []
        self._new: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._new.put(json.loads(line))
        self._new.put(None)

    def until(self, wanted: Callable[[dict[str, Any]], bool], seconds: float = 20.0) -> dict[str, Any]:
        """The next word that is wanted; those before it are kept in `said`."""
        deadline = time.monotonic() + seconds
        while True:
            word = self._new.get(timeout=max(0.01, deadline - time.monotonic()))
            assert word is not None, f"the helper ended; it said {self.said}"
            self.said.append(word)
            if wanted(word):
                return word

    def event(self, name: str, seconds: float = 20.0) -> dict[str, Any]:
        for word in self._early:
            if word.get("event", {}).get("event") == name:
                self._early.remove(word)
                early: dict[str, Any] = word["event"]
                return early
        found: dict[str, Any] = self.until(lambda w: w.get("event", {}).get("event") == name, seconds)["event"]
        return found

    def prepared(self) -> Helper:
        self.until(lambda w: w.get("prepared") is True)
        # its threads may have said something before: `event` finds that too
        self._early = self.said[:-1]
        return self

    def events(self, name: str) -> list[dict[str, Any]]:
        return [w["event"] for w in self.said if w.get("event", {}).get("event") == name]

    def end(self, word: bytes = b"finish\n") -> int:
        """Says `word`, hears the rest; the exit code."""
        assert self.process.stdin
        if word:
            self.process.stdin.write(word)
            self.process.stdin.flush()
        else:
            self.process.stdin.close()
        code = self.process.wait(30)
        self._reader.join(10)
        while (last := self._new.get(timeout=10)) is not None:
            self.said.append(last)
        return code

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.end(b"")


class Talk:
    """A worker's side of the socket."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(20)
        self._socket.connect(address)
        self._stream = self._socket.makefile("rwb")

    def tell(self, **word: Any) -> None:
        self._stream.write(json.dumps(word).encode() + b"\n")
        self._stream.flush()

    def hear(self) -> dict[str, Any]:
        line = self._stream.readline()
        assert line, "the helper closed the connection"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, **word: Any) -> dict[str, Any]:
        self.tell(**word)
        return self.hear()

    def work(self, answer: dict[str, Any], score: float = 0.5, size: int = 10) -> Any:
        """Writes the outputs of a dealt cell; its id."""
        cell = answer["cell"]
        Path(cell["out"], "score.json").write_text(json.dumps({"score": score, "n": 3, "word": "x"}))
        Path(cell["out"], "out.bin").write_bytes(b"x" * size)
        return cell["cell"]

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def helpers() -> Iterator[Callable[..., tuple[Helper, str]]]:
    """helpers(folder) starts one and returns it with its socket's path; what is left is killed."""
    started: list[Helper] = []
    with tempfile.TemporaryDirectory(prefix="hw-") as short:

        def start(folder: Path, extra: str = "") -> tuple[Helper, str]:
            address = f"{short}/{folder.name}"
            helper = Helper(folder, address, extra)
            started.append(helper)
            return helper, address

        yield start
        for helper in started:
            helper.process.kill()
            helper.process.wait()
