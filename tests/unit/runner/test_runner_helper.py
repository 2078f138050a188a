"""The helper beside the user's process: prepared first, started again when it dies, finished last."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.protocol import identity
from headway.protocol.exits import Cause
from headway.protocol.files import log_lines
from headway.runner.helper import NAME
from headway.testing.engines import FOREVER, Attempt, eventually, python

Make = Callable[..., Attempt]

_SPEAK = """
import json, os, sys
def tell(**word): print(json.dumps(word), flush=True)
def starts():
    path = os.path.join(sys.argv[1], 'starts')
    with open(path, 'a') as file: file.write('x')
    return len(open(path).read())
"""
_SERVE = """
tell(prepared=True)
for line in sys.stdin:
    if line == 'finish\\n':
        tell(event={'event': 'checkpoint', 'name': 'last'})
        sys.exit(0)
sys.exit(2)
"""


@pytest.fixture
def helped(make: Make, tmp_path: Path) -> Callable[..., Attempt]:
    def one(helper: str, command: list[str], **changes: object) -> Attempt:
        file = tmp_path / "helper.py"
        file.write_text(_SPEAK + helper)
        return make(command, helper=[sys.executable, "-I", str(file)], **changes)

    return one


def diag(attempt: Attempt) -> str:
    return "\n".join(line.text for line, _ in log_lines(attempt.node.diag_log))


def test_it_prepares_then_publishes_what_is_left(helped: Callable[..., Attempt]) -> None:
    attempt = helped(
        "tell(log='unpacking')\nprint('loose words', flush=True)\n" + _SERVE, python("print('hi')")
    ).start()
    assert attempt.exit().cause is Cause.DONE
    assert [attempt.events(name) != [] for name in ("prepared", "launched", "checkpoint")] == [True] * 3
    assert attempt.events("prepared")[0]["at"] <= attempt.events("launched")[0]["at"]
    assert attempt.events("checkpoint")[0]["name"] == "last"
    assert "unpacking" in diag(attempt)
    assert "loose words" in diag(attempt)


def test_what_cannot_be_prepared_is_said_in_its_words(helped: Callable[..., Attempt]) -> None:
    attempt = helped("tell(error='dataset digits is damaged'); sys.exit(1)", python("print('never')")).start()
    end = attempt.exit()
    assert (end.cause, end.message, end.launched) == (Cause.PREPARE_FAILED, "dataset digits is damaged", None)
    assert attempt.lines() == []


def test_a_helper_that_cannot_be_started(make: Make) -> None:
    end = make(python("pass"), helper=["/nowhere/python"]).start().exit()
    assert end.cause is Cause.PREPARE_FAILED


def test_one_that_is_killed_is_started_again(helped: Callable[..., Attempt]) -> None:
    helper = "tell(log=f'pid={os.getpid()}')\nstarts()\n" + _SERVE
    attempt = helped(helper, python(FOREVER)).start()
    attempt.said("up")
    first = int(diag(attempt).partition("pid=")[2].split()[0])
    os.kill(first, signal.SIGKILL)
    eventually(lambda: diag(attempt).count("pid=") == 2, "the second helper")
    attempt.stop()
    assert attempt.exit().cause is Cause.STOPPED
    assert len(attempt.events("prepared")) == len(attempt.events("launched")) == 1
    assert attempt.events("checkpoint")[0]["name"] == "last"


def test_one_that_dies_while_it_prepares_is_started_again(helped: Callable[..., Attempt]) -> None:
    attempt = helped("if starts() < 3: os.kill(os.getpid(), 9)\n" + _SERVE, python("print('hi')")).start()
    assert attempt.exit().cause is Cause.DONE
    assert attempt.lines() == ["hi"]


def test_one_that_always_dies_ends_the_attempt(helped: Callable[..., Attempt], monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = helped("starts(); os.kill(os.getpid(), 9)", python("print('hi')")).start()
    end = attempt.exit()
    assert end.cause is Cause.PREPARE_FAILED
    assert len((attempt.folder.path / "starts").read_text()) == 6


def test_a_stop_while_it_prepares_ends_at_once(helped: Callable[..., Attempt]) -> None:
    attempt = helped(
        "tell(log='preparing')\nimport time\nwhile True: time.sleep(0.1)", python("print('never')")
    ).start()
    eventually(lambda: "preparing" in diag(attempt), "the helper")
    attempt.stop()
    end = attempt.exit()
    assert (end.cause, end.launched) == (Cause.STOPPED, None)
    eventually(lambda: not attempt.processes(), "the end of the helper")


def test_the_death_of_the_runner_ends_it(helped: Callable[..., Attempt]) -> None:
    attempt = helped(_SERVE, python(FOREVER)).start()
    attempt.said("up")
    identity.send_signal(attempt.runner(), signal.SIGKILL)
    eventually(lambda: not attempt.processes(), "the end of all")


def test_the_users_failure_is_told_after_the_helper_finished(helped: Callable[..., Attempt]) -> None:
    attempt = helped(_SERVE, python("raise SystemExit(4)")).start()
    end = attempt.exit()
    assert (end.cause, end.code) == (Cause.EXIT, 4)
    assert attempt.events("checkpoint")


def _children(pid: int) -> dict[int, str]:
    """Its children, and what lists of processes call them."""
    found = {}
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(OSError):
            found[int(child)] = Path(f"/proc/{child}/comm").read_text().strip()
    return found


def test_of_an_evaluation_it_is_a_fork_with_its_modules_loaded_and_after_its_death_a_process_of_its_own(
    make: Make, tmp_path: Path
) -> None:
    cells = {"target": str(tmp_path / "target"), "outputs": [], "deal": [], "cases": [], "checkpoints": [], "tries": 1}
    plan = {"root": str(tmp_path), "objects": "", "project": "p", "project_folder": str(tmp_path), "cells": cells}
    attempt = make(python(FOREVER), helper=[sys.executable, "-I", "-m", "headway.helper"], plan=plan).start()
    attempt.said("up")
    runner = attempt.runner().pid

    def helper() -> int | None:
        return next((pid for pid, name in _children(runner).items() if name == NAME), None)

    first = helper()
    assert first is not None
    # nothing of the runner's but the pipes to it
    held = {os.readlink(f) for f in Path(f"/proc/{first}/fd").iterdir()}
    assert {kind for kind in held if not kind.startswith(("pipe:", "socket:"))} <= {"/dev/null"}
    os.kill(first, signal.SIGKILL)
    eventually(lambda: "is started again" in diag(attempt), "the second helper")
    eventually(lambda: len(_children(runner)) == 2, "the second helper")
    assert helper() is None
    attempt.stop()
    assert attempt.exit().cause is Cause.STOPPED
    eventually(lambda: not attempt.processes(), "the end of all")
