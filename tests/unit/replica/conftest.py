"""A replica as a process of its own, with predictors written for it."""

from __future__ import annotations

import json
import os
import selectors
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

CODE = '''
import json, os, threading, time
from pathlib import Path

class Plus:
    def load(self, path): self.add = json.loads((Path(path) / "weights.json").read_text())
    def preprocess(self, inputs): return [int(x) for x in inputs]
    def predict(self, inputs):
        if 13 in inputs: raise RuntimeError("unlucky")
        if 14 in inputs: return float("nan")
        if 15 in inputs: return object()
        return [x + self.add for x in inputs]
    def postprocess(self, outputs): return {"sum": outputs} if isinstance(outputs, list) else outputs

class Slow(Plus):
    """Waits in predict until the file `go` exists, and says so in the file `in`."""
    def predict(self, inputs):
        Path("in").touch()
        while not Path("go").exists(): time.sleep(0.01)
        return super().predict(inputs)

class Batched:
    max_batch_size = 3
    def load(self, path): pass
    def predict_batch(self, many):
        Path("in").touch()
        while not Path("go").exists(): time.sleep(0.01)
        return [[x, len(many)] for x in many]

class Arrays:
    def load(self, path): pass
    def predict(self, inputs):
        import numpy
        return {"a": numpy.arange(3), "b": numpy.float32(0.5), "c": numpy.int64(7)}

class Broken:
    def load(self, path): raise OSError("no such weights")
    def predict(self, inputs): return inputs

class Quits:
    def load(self, path): raise SystemExit(0)
    def predict(self, inputs): return inputs

class Endless:
    def load(self, path):
        Path("in").touch()
        threading.Event().wait()
    def predict(self, inputs): return inputs

class Empty: pass
'''


class Replica:
    """Its process and the runner's socket that it reports to."""

    def __init__(self, folder: Path, predictor: str, secret: str | None) -> None:
        self.folder = folder
        (folder / "predictor.py").write_text(CODE)
        (folder / "weights.json").write_text("10")
        self.channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.channel.bind(str(folder / "channel"))
        environment = {
            **os.environ,
            "HEADWAY_PREDICTOR": predictor,
            "HEADWAY_MODEL_PATH": str(folder),
            "HEADWAY_CHANNEL": str(folder / "channel"),
        }
        if secret is not None:
            environment["HEADWAY_REPLICA_SECRET"] = secret
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headway.replica"],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.client = httpx.Client(timeout=20)
        if secret is not None:
            self.client.headers["X-Headway-Replica"] = secret

    def event(self, seconds: float = 30.0) -> dict[str, Any]:
        """The next event that it reports."""
        self.channel.settimeout(seconds)
        return json.loads(self.channel.recv(65536))["event"]

    def ready(self) -> Replica:
        listening = self.event()
        assert listening["event"] == "listening"
        self.client.base_url = httpx.URL(f"http://{listening['address']}")
        assert self.event() == {"event": "ready"}
        return self

    def predict(self, inputs: Any) -> httpx.Response:
        return self.client.post("/predict", json={"inputs": inputs})

    def touch(self, name: str) -> None:
        (self.folder / name).touch()

    def wait_for(self, name: str) -> None:
        with selectors.DefaultSelector() as pause:
            for _ in range(1000):
                if (self.folder / name).exists():
                    return
                pause.select(0.01)
        raise AssertionError(f"{name} did not appear")

    def end(self) -> tuple[int, str]:
        """Its exit code and all that it printed."""
        output, _ = self.process.communicate(timeout=30)
        return self.process.returncode, output

    def close(self) -> None:
        self.client.close()
        self.channel.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=10)


class Starter:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.replica: Replica | None = None

    def __call__(self, predictor: str = "predictor.py:Plus", secret: str | None = None) -> Replica:
        self.replica = Replica(self.folder, predictor, secret)
        return self.replica


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    starter = Starter(tmp_path)
    yield starter
    if starter.replica is not None:
        starter.replica.close()
