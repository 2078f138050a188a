"""A real helper process as the runner starts it, and what it says."""

from __future__ import annotations

import hashlib
import json
import os
import queue
import select
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

#: of each checkpoint
CASES = 3


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

    def checkpoint(self, number: int, content: bytes | None = None) -> dict[str, Any]:
        path = self.path / f"made/epoch-{number}.pt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content or f"weights {number}".encode())
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        return {"id": number, "name": path.name, "row": f"epoch-{number}", "path": str(path), "sha256": sha256}

    def cells(self, attempt: str, count: int, **rule: Any) -> Path:
        """Cells 1..count of checkpoints with three cases each, unless `rule` says otherwise."""
        whole = {
            "target": str(self.target),
            "work": str(self.root / "attempts" / attempt / "work"),
            "worker": "evaluate.py:W",
            "outputs": [{"name": "score.json", "kind": "json"}, {"name": "out.bin", "kind": "file"}],
            "scores": "file",
            "score_file": "score.json",
            "score": "score",
            "checkpoints": [self.checkpoint(n) for n in range(-(-count // CASES))],
            "cases": [
                {"id": f"case-{n}", "inputs": {}, "parameters": {"n": n}, "expected": n, "repeat": 0, "seed": n}
                for n in range(CASES)
            ],
            "deal": [
                [n + 1, n // CASES, n % CASES, f"epoch-{n // CASES}/case-{n % CASES}", f"key-{n}"] for n in range(count)
            ],
            "tries": 2,
            "resume_seconds": 0.05,
            **rule,
        }
        return self.plan(attempt, cells=whole)

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

    def told(self) -> list[dict[str, Any]]:
        """All cells that it said are published."""
        return [cell for event in self.events("cells") for cell in event["cells"]]

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

    def ready(self, seconds: float) -> bool:
        """Whether an answer comes within so long."""
        return bool(select.select([self._socket], [], [], seconds)[0])

    def ask(self, **word: Any) -> dict[str, Any]:
        self.tell(**word)
        return self.hear()

    def work(self, answer: dict[str, Any], score: float = 0.5, size: int = 10) -> int:
        """Writes the outputs of a dealt cell; its id."""
        cell = answer["cell"]
        Path(cell["out"], "score.json").write_text(json.dumps({"score": score, "n": 3, "word": "x"}))
        Path(cell["out"], "out.bin").write_bytes(b"x" * size)
        number: int = cell["id"]
        return number

    def done(self, cell: int) -> dict[str, Any]:
        return self.ask(op="next", done={"cell": cell, "seconds": 0.1})

    def rest(self, answer: dict[str, Any] | None = None) -> list[int]:
        """Runs all that is dealt from `answer` on; the cells in their order."""
        answer = answer or self.ask(op="next")
        order = []
        while "cell" in answer:
            order.append(self.work(answer))
            answer = self.done(order[-1])
        assert answer.get("done") is True, answer
        return order

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


Start = Callable[..., tuple[Helper, str]]


def talk_to(started: tuple[Helper, str]) -> tuple[Helper, Talk]:
    helper, address = started
    helper.prepared()
    return helper, Talk(address)


def mounted(folder: Path, options: str) -> None:
    """Mounts a tmpfs there; skips the test where that cannot be."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True)
    if done.returncode:
        pytest.skip("a tmpfs cannot be mounted")


def unmounted(folder: Path) -> None:
    subprocess.run(["umount", "-l", folder], check=False)


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


#: the beginning of a worker's code
BEGIN = """
import ctypes, json, os, signal, sys, time
def write(out, score=0.5):
    with open(os.path.join(out, "score.json"), "w") as file: json.dump({"score": score}, file)
    with open(os.path.join(out, "out.bin"), "w") as file: file.write("x")
class W:
    def load(self, path): print("load", os.path.basename(path), flush=True)
    def run(self, case, out):
        n = case["parameters"]["n"]
"""


class Worked:
    def __init__(self, helper: Helper, done: subprocess.CompletedProcess[str]) -> None:
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        helper.end()
        self.invalid = {e["cell"]: (e["cause"], e["reason"]) for e in helper.events("cell_invalid")}
        self.valid = sorted(t["cell"] for t in helper.told())
        self.scores = {t["cell"]: t["scores"] for t in helper.told()}
        self.helper = helper


@pytest.fixture
def work(home: Home, helpers: Start, tmp_path: Path) -> Callable[..., Worked]:
    """work(code, count, **rule) runs `count` cells with this code in evaluate.py."""

    def run(code: str = "", count: int = 3, *, files: dict[str, str] | None = None, **rule: Any) -> Worked:
        helper, address = helpers(home.cells("1-1", count, **rule))
        helper.prepared()
        for name, text in {"evaluate.py": code, **(files or {})}.items():
            (tmp_path / name).write_text(text)
        environment = {"HEADWAY_HELPER": address, "PATH": os.environ["PATH"]}
        command = [sys.executable, "-m", "headway.script.worker"]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
        return Worked(helper, done)

    return run


Work = Callable[..., Worked]
