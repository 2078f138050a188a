"""Nodes that fall silent and come back, with real runners: a stopped runner finds its fence and may not go on."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.controller import launches
from headway.controller.loop import Desk
from headway.controller.reap import Reap
from headway.engines.local import LocalEngine
from headway.protocol import identity
from headway.protocol.exits import Cause
from headway.protocol.files import AttemptFolder, log_lines, read_json
from headway.rules.records import Attempt, Run
from headway.rules.states import AttemptState, RunState
from headway.services.context import Services
from headway.testing.engines import eventually, python
from headway.testing.services import open_services
from headway.testing.stores import attempt_values, run_values

#: longer than a runner's heartbeat takes on a busy machine, shorter than anybody wants to wait
PATIENCE = 6.0
#: each process tells who it is; then it prints on and on
SCRIPT = (
    "import os, time\nn = 0\n"
    "while True:\n    n += 1\n    print(os.environ['RANK'], n, flush=True)\n    time.sleep(0.05)\n"
)


class Place:
    """A desk over a real engine; runs are placed by hand, one attempt after another."""

    def __init__(self, ctx: Services, tmp_path: Path) -> None:
        self.ctx, self.engine = ctx, LocalEngine(ctx.root)
        self.desk = Desk(ctx, self.engine, f"file://{ctx.root}/objects", tmp_path / "cache")
        with ctx.store.begin() as tx:
            self.desk.lease = tx.leases.acquire("controller", "me", now=time.time(), seconds=3600.0)
        self.reap = Reap(self.desk, node_patience=PATIENCE)

    def submit(self, nodes: int) -> Run:
        with self.ctx.store.begin() as tx:
            project, user = tx.people.project("default"), tx.people.user("admin")
            assert project is not None and user is not None
            values = {"command": python(SCRIPT), "nodes": nodes, "memory_bytes": 1 << 30, "cpus": 1.0, "processes": 2}
            return tx.runs.add(**run_values(project, user, **values))

    def place(self, run: Run, names: str) -> Attempt:
        places = [{"node": name, "address": "127.0.0.1", "accelerators": []} for name in names]
        number = self.run(run).attempts + 1
        with self.ctx.store.begin() as tx:
            tx.runs.change(run.id, state=RunState.STARTING, attempts=number)
            values = {"placement": places, "cursors": [0] * len(places), "state": AttemptState.STARTING}
            attempt = tx.runs.add_attempt(**attempt_values(run, number, created_at=time.time(), **values))
        with self.ctx.store.read() as tx:
            found = tx.runs.get(run.id)
            assert found is not None
            launch = launches.build(self.desk, tx, found, attempt)
        launches.start(self.desk, launch)
        return attempt

    def run(self, run: Run) -> Run:
        with self.ctx.store.read() as tx:
            found = tx.runs.get(run.id)
        assert found is not None
        return found

    def attempt(self, attempt: Attempt) -> Attempt:
        with self.ctx.store.read() as tx:
            found = tx.runs.attempt(attempt.id)
        assert found is not None
        return found

    def until(self, look: Callable[[], Any], what: str) -> None:
        """Steps the loop until `look` is true."""

        def turn() -> bool:
            self.desk.renewed = time.monotonic()
            self.reap.step()
            return bool(look())

        eventually(turn, what)

    def node(self, attempt: Attempt, index: int = 0) -> Any:
        return AttemptFolder.of(self.ctx.root, attempt.id).node(index)

    def runner(self, attempt: Attempt, index: int = 0) -> identity.Identity:
        return identity.Identity.from_json(eventually(lambda: read_json(self.node(attempt, index).runner)))

    def lines(self, attempt: Attempt, index: int = 0) -> list[str]:
        return [line.text for line, _ in log_lines(self.node(attempt, index).run_log)]

    def processes(self, attempt: Attempt) -> list[int]:
        path = os.path.realpath(AttemptFolder.of(self.ctx.root, attempt.id).path)
        marker, found = f"HEADWAY_ATTEMPT_PATH={path}".encode(), []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if marker in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") and identity.of(int(pid)):
                    found.append(int(pid))
        return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    ctx = open_services(tmp_path)
    ctx = Services(**{**vars(ctx), "clock": time.time})
    found = Place(ctx, tmp_path)
    yield found
    with ctx.store.read() as tx:
        attempts = [a for run in tx.runs.listing() for a in tx.runs.attempts(run.id)]
    for attempt in attempts:
        for index in range(len(attempt.placement)):
            with contextlib.suppress(AssertionError):
                runner = found.runner(attempt, index)
                identity.send_signal(runner, signal.SIGKILL)
        for pid in found.processes(attempt):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    found.engine.close()
    ctx.store.close()


def test_a_silent_node_is_fenced_its_run_goes_elsewhere_and_what_comes_back_ends(place: Place) -> None:
    run = place.submit(nodes=1)
    first = place.place(run, "a")
    place.until(lambda: len(place.lines(first)) > 4, "its first lines")
    runner = place.runner(first)
    assert identity.send_signal(runner, signal.SIGSTOP)
    place.until(lambda: place.run(run).state is RunState.QUEUED, "the loss of the node")
    assert identity.alive(runner)
    lost = place.attempt(first)
    assert (lost.cause, place.run(run).avoid, place.run(run).losses) == (Cause.NODE_LOST, ["a"], 1)
    # two attempts never run at once: what the stopped runner had started is gone before the next begins
    assert place.processes(first) == []
    second = place.place(run, "b")
    place.until(lambda: len(place.lines(second)) > 4, "the next attempt")
    assert identity.send_signal(runner, signal.SIGCONT)
    end = eventually(lambda: read_json(place.node(first).exit), "the end of what came back")
    assert end["cause"] == "fenced"
    place.until(lambda: place.run(run).state is RunState.RUNNING, "the next attempt in the record")
    assert place.attempt(first) == lost
    assert place.attempt(second).state is AttemptState.RUNNING
    # what it had printed was kept, to the last line
    assert [line for line in place.lines(first) if line.startswith("0 ")][-1] != "0 1"


def test_a_gang_with_a_silent_node_ends_on_the_others_before_it_is_placed_again(place: Place) -> None:
    run = place.submit(nodes=2)
    first = place.place(run, "ab")
    place.until(lambda: all(len(place.lines(first, n)) > 4 for n in (0, 1)), "its first lines")
    stopped = place.runner(first, 1)
    assert identity.send_signal(stopped, signal.SIGSTOP)
    place.until(lambda: place.run(run).state is RunState.QUEUED, "the loss of the node")
    assert (place.attempt(first).cause, place.run(run).avoid) == (Cause.NODE_LOST, ["b"])
    assert read_json(place.node(first, 0).exit)["cause"] in ("fenced", "peer_failed")
    assert place.processes(first) == []
    assert identity.send_signal(stopped, signal.SIGCONT)
    eventually(lambda: read_json(place.node(first, 1).exit), "the end of what came back")
    place.reap.step()
    assert place.run(run).state is RunState.QUEUED


def test_a_runner_of_a_gang_that_is_killed_ends_all_and_no_line_is_lost(place: Place) -> None:
    run = place.submit(nodes=2)
    first = place.place(run, "ab")
    place.until(lambda: all(len(place.lines(first, n)) > 4 for n in (0, 1)), "its first lines")
    before = place.lines(first, 1)
    assert identity.send_signal(place.runner(first, 1), signal.SIGKILL)
    place.until(lambda: place.run(run).state is RunState.QUEUED, "the loss")
    assert place.attempt(first).cause is Cause.RUNNER_LOST
    assert place.attempt(first).message == "On b: its runner is gone without a word."
    assert place.processes(first) == []
    after = place.lines(first, 1)
    assert after[: len(before)] == before
    # each rank's lines are whole and without a gap up to the kill
    for rank in ("2", "3"):
        numbers = [int(line.split()[1]) for line in after if line.startswith(f"{rank} ")]
        assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("what", ["runner", "keeper and runner", "all of the node", "a rank"])
@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_is_killed_at_whatever_moment_is_named_and_nothing_is_left(place: Place, what: str, seed: int) -> None:
    chance = random.Random(f"{what} {seed}")
    node = chance.randrange(2)
    run = place.submit(nodes=2)
    attempt = place.place(run, "ab")
    place.until(lambda: len(place.lines(attempt, node)) > chance.randrange(9), "some lines")
    claim = read_json(place.node(attempt, node).runner)
    ranks = [pid for pid in place.processes(attempt) if _environment(pid).get("NODE_RANK") == str(node)]
    identities = [identity.Identity.from_json(one) for one in (claim["keeper"], claim)]
    for one in {"runner": identities[1:], "a rank": []}.get(what, identities):
        assert identity.send_signal(one, signal.SIGKILL)
    for pid in {"a rank": ranks[:1], "all of the node": ranks}.get(what, []):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    place.until(lambda: place.attempt(attempt).state is AttemptState.ENDED, "its end")
    found = place.attempt(attempt)
    assert found.cause is (Cause.KILLED if what == "a rank" else Cause.RUNNER_LOST)
    assert found.message.startswith(f"On {'ab'[node]}: ")
    assert place.run(run).state is RunState.QUEUED
    assert place.processes(attempt) == []


def _environment(pid: int) -> dict[str, str]:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
        return {name: value for name, _, value in (word.partition("=") for word in words)}
    return {}
