"""A runner that is killed at any moment loses no line that its processes had flushed, and leaves no process."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.engines.base import Presence
from headway.protocol import identity
from headway.protocol.files import log_lines, read_json
from headway.runner import processes
from headway.runner.journal import BLOCK, Found, Journal, Slot
from headway.runner.keeper import _drain
from headway.runner.logs import LogFile
from headway.runner.outputs import Output
from headway.testing.engines import FOREVER, WITH_SESSION, Attempt, eventually, python

Make = Callable[..., Attempt]

#: prints numbered lines, and notes in a file how many it has flushed; sometimes in two halves
COUNTS = """
import os, sys, time
note = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o600)
pause, n = float(sys.argv[2]), 0
while True:
    line = b'line %d %s\\n' % (n, b'x' * (n % 97))
    if n % 5:
        os.write(1, line)
    else:
        os.write(1, line[:4]); os.write(1, line[4:])
    n += 1
    os.pwrite(note, b'%12d' % n, 0)
    if pause: time.sleep(pause)
"""


def lost(attempt: Attempt) -> None:
    eventually(lambda: attempt.presence is Presence.LOST, "the loss")


@pytest.mark.parametrize("pause", [0.0, 0.0005, 0.003])
def test_what_was_flushed_is_in_the_log(make: Make, tmp_path: Path, pause: float) -> None:
    chance = random.Random(int(pause * 1e6))
    for turn in range(6):
        note = tmp_path / f"note-{pause}-{turn}"
        attempt = make(python(COUNTS, str(note), str(pause))).start()
        attempt.said("line 1 x")
        time.sleep(chance.uniform(0, 0.3))
        identity.send_signal(attempt.runner(), signal.SIGKILL)
        lost(attempt)
        flushed = int(note.read_bytes())
        # the last write may be done and not yet noted, or only its first half
        numbers = [int(line.split()[1]) for line in attempt.lines() if len(line.split()) > 1]
        assert numbers[: flushed + 1] == list(range(len(numbers)))
        assert flushed <= len(numbers) <= flushed + 1
        assert attempt.processes() == []


def test_the_runner_and_a_rank_killed_at_once(make: Make) -> None:
    attempt = make(python("import os, time\nos.write(1, b'up\\nlast')\nwhile True: time.sleep(1)")).start()
    attempt.said("up")
    (rank,) = attempt.events("launched")[0]["pids"]
    identity.send_signal(attempt.runner(), signal.SIGSTOP)
    os.kill(rank, signal.SIGKILL)
    identity.send_signal(attempt.runner(), signal.SIGKILL)
    lost(attempt)
    assert attempt.lines() == ["up", "last"]


def test_sessions_of_their_own_and_sockets_go_with_it(make: Make) -> None:
    attempt = make(python(WITH_SESSION), memory_bytes=1 << 30).start()
    child = identity.of(attempt.number("child"))
    group = attempt.node.path / "cgroup"
    path = Path(group.read_text()) if group.exists() else Path("/nowhere")
    identity.send_signal(attempt.runner(), signal.SIGKILL)
    lost(attempt)
    assert child is not None
    assert not identity.alive(child)
    assert not Path(read_json(attempt.node.runner)["sockets"]).exists()
    assert not path.exists()
    assert "its keeper" in [line.text for line, _ in log_lines(attempt.node.diag_log)][-1]


def test_a_sweep_removes_the_cgroup_that_nobody_else_did(make: Make) -> None:
    attempt = make(python(FOREVER), memory_bytes=1 << 30).start()
    attempt.said("up")
    time.sleep(0.3)
    if not (note := attempt.node.path / "cgroup").exists():
        pytest.skip("no cgroup can be made here")
    path = Path(note.read_text())
    assert path.exists()
    os.kill(read_json(attempt.node.runner)["keeper"]["pid"], signal.SIGKILL)
    identity.send_signal(attempt.runner(), signal.SIGKILL)
    lost(attempt)
    attempt.engine.sweep(attempt.id)
    assert not path.exists()
    assert not note.exists()


def test_without_its_keeper_a_runner_goes_on(make: Make) -> None:
    attempt = make(python(FOREVER)).start()
    attempt.said("up")
    os.kill(read_json(attempt.node.runner)["keeper"]["pid"], signal.SIGKILL)
    attempt.stop()
    assert attempt.exit().cause.value == "stopped"


def test_the_keeper_ends_with_its_runner(make: Make) -> None:
    attempt = make(python("pass")).start()
    keeper = identity.Identity.from_json(read_json_of(attempt)["keeper"])
    attempt.exit()
    eventually(lambda: not identity.alive(keeper), "the keeper's end")


def read_json_of(attempt: Attempt) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = eventually(lambda: read_json(attempt.node.runner), "the claim")
    return found


class Killed(BaseException):
    """In the place of SIGKILL."""


@given(data=st.data())
def test_whenever_it_dies_each_line_is_there_once(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The runner's steps one by one, with its death before or after any of them."""
    folder = tmp_path_factory.mktemp("node")
    log = LogFile(str(folder / "run.log"), 1 << 30)
    journal = Journal(2, lambda: log.end)
    pipes, slots, outputs = [], [], []
    for _ in range(2):
        read, write = os.pipe()
        os.set_blocking(read, False)
        slot = journal.slot()
        assert slot is not None
        pipes.append((read, write))
        slots.append(slot)
        outputs.append(Output(FakeLoop(), slot))  # type: ignore[arg-type]
    wanted: list[list[bytes]] = [[], []]
    texts = st.binary(max_size=40).map(lambda raw: raw.replace(b"\r", b"").decode("latin-1").encode())
    try:
        for _ in range(data.draw(st.integers(0, 6))):
            which = data.draw(st.integers(0, 1))
            text = data.draw(texts)
            os.write(pipes[which][1], text)
            wanted[which].append(text)
            steps = data.draw(st.integers(0, 5))
            turn(outputs[which], pipes[which][0], log, which, steps, slots[which])
    except Killed:
        pass
    for _, write in pipes:
        os.close(write)
    told = [({"output": n, "stream": "o", "slot": n}, pipes[n][0]) for n in range(2)]
    _drain(str(folder), told, os.dup(journal.fd))
    os.close(journal.fd)
    for n in range(2):
        found = [line.text.encode() for line, _ in log_lines(folder / "run.log") if line.rank == n]
        whole = b"".join(wanted[n])
        assert found == (whole.removesuffix(b"\n").split(b"\n") if whole else [])


class FakeLoop:
    def rest(self, fd: int, size: int = 0) -> None:
        pass

    def again(self, fd: int, at: float) -> None:
        pass


def turn(output: Output, fd: int, log: LogFile, rank: int, steps: int, slot: Slot) -> None:
    """What the runner does with a readable output; it dies after `steps` steps, with 5 it lives."""
    if steps == 0:
        raise Killed
    if steps == 1:
        # between the reading and its return
        state = os.readv

        def die(fd: int, buffers: list[memoryview]) -> int:
            state(fd, buffers)
            raise Killed

        os.readv = die
        try:
            output.read(fd)
        finally:
            os.readv = state
        return
    text = output.read(fd)
    if steps == 2:
        raise Killed
    if steps == 3 and text:
        # a write that was cut short
        prefix = f"{time.time():.6f} {rank} o ".encode()
        with open(log._path, "ab") as file:
            file.write((prefix + text)[: len(prefix) + len(text) - 1])
        raise Killed
    log.append(text or b"", rank, "o")
    if steps == 4:
        raise Killed
    output.commit()


def test_a_block_of_full_size_is_kept(tmp_path: Path) -> None:
    journal = Journal(1, lambda: 0)
    slot, (read, write) = journal.slot(), os.pipe()
    assert slot is not None
    assert os.write(write, b"y" * BLOCK) == BLOCK
    assert slot.read(read) == b"y" * BLOCK
    found = Found(os.dup(journal.fd))
    assert (found.output, found.block) == (0, b"y" * BLOCK)
    assert journal.slot() is None


def test_a_process_is_found_below_its_keeper() -> None:
    # in whatever order: numbers of processes begin anew after the last
    assert sorted(processes.tree(os.getpid())) == sorted(processes.tree(os.getpid(), thorough=True))
