"""`headway.log`: what arrives in the runner's pipe, and that training is never held up."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headway


class Runner:
    """Holds the pipe as a runner does."""

    def __init__(self, channel: str) -> None:
        os.mkfifo(f"{channel}.points")
        self._fd = os.open(f"{channel}.points", os.O_RDWR | os.O_NONBLOCK)

    def said(self) -> list[dict[str, Any]]:
        block = b""
        while True:
            try:
                block += os.read(self._fd, 1 << 20)
            except BlockingIOError:
                return [json.loads(line) for line in block.splitlines()]

    def close(self) -> None:
        os.close(self._fd)


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Runner]:
    monkeypatch.setenv("HEADWAY_CHANNEL", str(tmp_path / "c"))
    monkeypatch.setenv("RANK", "1")
    one = Runner(str(tmp_path / "c"))
    yield one
    one.close()


def test_log_tells_the_runner(runner: Runner) -> None:
    before = time.time()
    headway.log(step=3, loss=1, **{"val/acc €": float("nan")})
    headway.log(loss=2)
    first, second, third = runner.said()
    assert before - 1 < first.pop("t") < time.time() + 1
    assert first == {"step": 3, "name": "loss", "value": 1.0, "rank": 1}
    assert second["name"] == "val/acc €" and second["value"] != second["value"]
    assert third["step"] == 3, "without a step it is that of the call before"


def test_a_runner_that_is_gone_is_no_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADWAY_CHANNEL", str(tmp_path / "none"))
    headway.log(step=3, loss=1.0)
    assert capsys.readouterr().out == "step=3 loss=1.0\n"


def test_a_runner_that_does_not_read_never_holds_training_up(runner: Runner) -> None:
    longest, start = 0.0, time.monotonic()
    for step in range(5000):
        before = time.monotonic()
        headway.log(step=step, loss=0.5)
        longest = max(longest, time.monotonic() - before)
    assert time.monotonic() - start < 5 and longest < 1
    taken = [p["step"] for p in runner.said() if "step" in p]
    assert len(taken) < 5000 and taken == list(range(len(taken)))
    headway.log(step=5000, loss=0.5)
    said = runner.said()
    assert said[-1]["step"] == 5000 and said[0]["dropped"] > 0


def test_more_than_one_write_and_a_name_without_end(runner: Runner) -> None:
    headway.log(step=1, **{f"metric_{n}": n for n in range(200)}, **{"x" * 5000: 1.0})
    said = runner.said()
    assert [p["value"] for p in said] == list(range(200))
    headway.log(step=2, loss=1)
    assert runner.said()[0] == {"dropped": 1}


def _many(name: str) -> None:
    for step in range(200):
        headway.log(step=step, **{name: step})


def test_threads_and_forked_processes_share_it(runner: Runner) -> None:
    headway.log(step=0, first=1)
    threads = [threading.Thread(target=_many, args=(f"thread{n}",)) for n in range(4)]
    forked = [multiprocessing.get_context("fork").Process(target=_many, args=(f"fork{n}",)) for n in range(2)]
    for one in (*forked, *threads):
        one.start()
    got: list[dict[str, Any]] = []
    while any(one.is_alive() for one in (*threads, *forked)):
        got += runner.said()
    got += runner.said()
    for name in ("thread0", "thread3", "fork0", "fork1"):
        assert [p["step"] for p in got if p["name"] == name] == list(range(200))
