"""`headway demo`: the whole path on real data, cut off once on the way, and what it leaves behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway import config, supervisor
from headway.cli import up
from headway.client import Client
from headway.protocol import identity

from .conftest import environment, eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits"


class Place:
    """A home with a copy of the example beside it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.flow = folder / "digits" / "flow.yaml"
        shutil.copytree(EXAMPLE, self.flow.parent, ignore=shutil.ignore_patterns("data", "__pycache__"))
        self.settings = config.load({"home": self.home}, {}).settings

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "headway", "demo", "--json", "--file", str(self.flow), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(self.home),
            cwd=self.flow.parent.parent,
        )

    def demo(self, *words: str) -> dict[str, Any]:
        process = self.start(*words)
        out, told = process.communicate(timeout=280)
        assert process.returncode == 0, f"{told}\n{self.log()}"
        found: dict[str, Any] = json.loads(out.splitlines()[-1])
        return found

    def cli(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "headway", *words],
            capture_output=True,
            text=True,
            env=environment(self.home),
            timeout=60,
        )

    def client(self) -> Client:
        return Client(home=self.home)

    def log(self) -> str:
        file = self.home / "log" / "headway.log"
        return file.read_text()[-5000:] if file.exists() else ""

    def valid(self) -> int:
        """Cells that are valid now; 0 while there is no evaluation to ask for."""
        if supervisor.read_up(self.settings) is None:
            return 0
        try:
            with self.client() as client:
                return sum(e.valid for e in client.evaluations.ls())
        except Exception:  # nothing answers yet
            return 0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = Place(tmp_path_factory.mktemp("demo"))
    yield made
    if supervisor.read_up(made.settings):
        with made.client() as client:
            for run in client.runs.ls(state="live"):
                client.runs.stop(run.id, grace=0)
                client.runs.wait(run.id, timeout=20)
        up.stop(made.settings)


def check(result: dict[str, Any]) -> None:
    assert result["ok"] is True, result
    assert result["dataset"]["files"] == 1797
    assert result["dataset"]["verified"] is True
    assert result["job"]["checkpoints"] == 25
    evaluation = {k: result["evaluation"][k] for k in ("cells", "valid", "ran", "paused")}
    assert evaluation == {"cells": 425, "valid": 425, "ran": 425, "paused": 1}
    assert result["model"]["version"] == 1
    assert result["endpoint"]["wrong_token_status"] == 401
    assert result["endpoint"]["predicted"] == result["endpoint"]["expected"]
    assert result["cost"] > 0


@pytest.fixture(scope="module")
def result(place: Place) -> dict[str, Any]:
    """The demo, whose process and whose supervisor are killed in the middle of the evaluation, and given again."""
    demo = place.start()
    eventually(lambda: place.valid() >= 20 or demo.poll() is not None, seconds=200, what="the evaluation")
    assert demo.poll() is None, demo.communicate()[1]
    found = supervisor.read_up(place.settings)
    assert found is not None
    demo.send_signal(signal.SIGKILL)
    os.kill(found["pid"], signal.SIGKILL)
    demo.communicate()
    return place.demo()


def test_nothing_is_lost_and_nothing_is_run_twice(result: dict[str, Any]) -> None:
    check(result)


def test_given_again_it_finds_everything(place: Place, result: dict[str, Any]) -> None:
    with place.client() as client:
        before = [r.id for r in client.runs.ls()]
        again = place.demo()
        assert [r.id for r in client.runs.ls()] == before
    # what has a price goes on being served meanwhile
    assert {k: v for k, v in again.items() if k != "cost"} == {k: v for k, v in result.items() if k != "cost"}


def test_what_it_leaves_can_be_looked_at(place: Place, result: dict[str, Any]) -> None:
    job = result["job"]["id"]
    jobs = json.loads(place.cli("job", "ls", "--json").stdout)
    assert [(j["id"], j["state"]) for j in jobs] == [(job, "succeeded")]
    assert "epoch" in place.cli("logs", str(job)).stdout
    endpoints = json.loads(place.cli("endpoint", "ls", "--json").stdout)
    assert [(e["name"], e["state"]) for e in endpoints] == [("digits", "ready")]
    assert "clean" in place.cli("eval", "show", str(result["evaluation"]["id"])).stdout
    with place.client() as client:
        cells = client.evaluations.cells(result["evaluation"]["id"])
        assert all(cell.ran == 1 and cell.state == "valid" for cell in cells)
        assert all((Path(cell.path) / "score.json").is_file() for cell in cells)


def test_the_output_of_each_cell_is_where_the_record_says(place: Place, result: dict[str, Any]) -> None:
    with place.client() as client:
        cell = client.evaluations.cells(result["evaluation"]["id"])[0]
    for output in cell.outputs:
        assert (Path(cell.path) / output["name"]).stat().st_size == output["bytes"]


def test_a_second_demo_on_the_home_at_once_is_refused(place: Place, result: dict[str, Any]) -> None:
    import fcntl

    with open(place.home / "demo" / "lock", "ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = place.cli("demo", "--file", str(place.flow))
    assert done.returncode == 3
    assert done.stderr.startswith("error: Another demo runs on ")


def test_clean_leaves_nothing(place: Place, result: dict[str, Any]) -> None:
    """The last test of this file: it takes away what the others look at."""
    pids = [p["pid"] for p in (supervisor.read_up(place.settings) or {})["parts"].values()]
    place.demo("--clean")
    assert not place.home.exists()
    deadline = time.monotonic() + 10
    while any(identity.of(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(identity.of(pid) for pid in pids)
