"""Runs whose processes start others: of too much memory the largest of these is lost, and the run goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from headway.protocol import names
from headway.protocol.exits import Cause
from headway.protocol.launch import Launch
from headway.runner import memory, processes
from headway.runner.memory_watch import MemoryWatch
from headway.runner.report import Report
from headway.script import oom
from headway.testing.engines import Attempt, eventually, python

Make = Callable[..., Attempt]
LIMIT = 100 << 20
#: a child that takes too much, once the runner has made its cgroup, and one after it that does not
TWO = """
import os, signal, sys, time
time.sleep(1)
for size in (300, 1):
    if (pid := os.fork()) == 0:
        open('/proc/self/oom_score_adj', 'w').write('1000')
        held = bytearray(b'x') * (size << 20)
        time.sleep(20 if size == 300 else 0)
        os._exit(0)
    print('child', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
time.sleep(1.5)
"""


@pytest.fixture
def limited() -> None:
    if (group := memory.make(f"headway-test-{os.getpid()}", LIMIT, whole=False)) is None:
        pytest.skip("no cgroup can be made here")
    group.close()


def test_a_process_that_a_rank_started_is_killed_and_the_run_goes_on(make: Make, limited: None) -> None:
    attempt = make(python(TWO), memory_bytes=LIMIT, limits={"oom": "process"}).start()
    assert attempt.exit().cause is Cause.DONE
    assert attempt.lines() == ["child -9", "child 0"]
    assert "the kernel has killed 1 processes" in attempt.node.diag_log.read_text()
    assert not (attempt.node.path / "cgroup").exists()


def test_without_that_the_whole_run_ends(make: Make, limited: None) -> None:
    assert make(python(TWO), memory_bytes=LIMIT).start().exit().cause is Cause.OOM_KILL


def test_a_rank_that_is_killed_for_its_memory_was_killed(make: Make, limited: None) -> None:
    """So it is started again, as after any other kill."""
    code = "import time\ntime.sleep(1)\nheld = bytearray(b'x') * (300 << 20)\ntime.sleep(20)"
    end = make(python(code), memory_bytes=LIMIT, limits={"oom": "process"}).start().exit()
    assert (end.cause, end.signal) == (Cause.KILLED, signal.SIGKILL)
    assert "used more than its 100 MiB of memory" in end.message


# where no cgroup can be made


class Said:
    """What MemoryWatch uses of a Report."""

    def __init__(self, folder: Path) -> None:
        self.sockets, self.lines = str(folder), list[str]()
        self.say = self.lines.append

    def path(self, name: str) -> str:
        return os.path.join(self.sockets, name)


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Said:
    monkeypatch.setattr(memory, "make", lambda *_, **__: None)
    monkeypatch.setenv(names.HELPER, str(tmp_path / "helper"))
    return Said(tmp_path)


def watch(said: Said, limits: dict[str, Any]) -> MemoryWatch:
    launch = Launch("1-1", 1, 1, "p", ["x"], {}, "/", memory_bytes=LIMIT, limits=limits)
    return MemoryWatch(launch, 0, cast(Report, said), time.monotonic())


HOLD = "import sys, time\nheld = bytearray(b'x') * (int(sys.argv[1]) << 20)\nprint('up', flush=True)\ntime.sleep(60)"


@pytest.fixture
def start() -> Iterator[Callable[[int], subprocess.Popen[bytes]]]:
    """start(size) gives a process that holds so many MiB."""
    started: list[subprocess.Popen[bytes]] = []

    def one(size: int) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", HOLD, str(size)], stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout and process.stdout.readline() == b"up\n"
        return process

    yield one
    for process in started:
        process.kill()
        process.communicate()


def test_the_largest_process_that_a_rank_started_is_killed_and_told(
    said: Said, start: Callable[[int], subprocess.Popen[bytes]]
) -> None:
    kept = processes.tree(os.getpid())
    rank, small, large = start(40), start(1), start(120)
    watched, kills = watch(said, {"oom": "process"}), oom.Kills()
    assert watched.check(time.monotonic(), [rank.pid], kept) is None
    assert large.wait(10) == -signal.SIGKILL and small.poll() is None and rank.poll() is None
    assert "100 MiB" in said.lines[-1] and str(large.pid) in said.lines[-1]
    sentence = kills.sentence("It", -signal.SIGKILL, 0)
    assert "may use 100 MiB" in sentence
    # what is left fits
    eventually(lambda: watched.check(time.monotonic(), [rank.pid], kept) is None and len(said.lines) == 2)
    assert small.poll() is None and rank.poll() is None
    assert oom.Kills().sentence("It", -signal.SIGKILL, 0) == ""


def test_ranks_alone_that_use_too_much_are_killed_themselves(
    said: Said, start: Callable[[int], subprocess.Popen[bytes]]
) -> None:
    kept = processes.tree(os.getpid())
    rank = start(150)
    for limits, cause in (({"oom": "process"}, Cause.KILLED), ({}, Cause.OOM_KILL)):
        found = watch(said, limits).check(time.monotonic(), [rank.pid], kept)
        assert found is not None and found[0] is cause and "its spec has 100 MiB" in found[1]
