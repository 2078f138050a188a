"""What every engine must do: a suite to subclass, with the fixtures `engine` (on a root of its own) and `root`.

class TestMyEngine(EngineContract):
    @pytest.fixture
    def engine(self, root): ...

`root` defaults to pytest's `tmp_path`. What a test starts is ended when it is over.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from headway.engines.base import Engine, Presence
from headway.protocol import identity, names
from headway.protocol.exits import Cause, Exit
from headway.protocol.files import AttemptFolder, log_lines, read_json, read_records, write_whole
from headway.protocol.launch import Launch

Found = TypeVar("Found")

#: seconds that anything here may take on a busy machine
PATIENCE = 60.0
_runs = itertools.count(1)


def eventually(look: Callable[[], Found], what: str = "") -> Found:
    """What `look` gives as soon as it is true; fails after `PATIENCE`."""
    deadline = time.monotonic() + PATIENCE
    while True:
        if found := look():
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {PATIENCE:g} s for {what or look}")
        time.sleep(0.01)


def python(code: str, *arguments: str) -> list[str]:
    """A command that runs `code`."""
    return [sys.executable, "-c", code, *arguments]


class Attempt:
    """One attempt in a test: started through the engine, looked at through its files."""

    def __init__(self, engine: Engine, root: Path, command: list[str], **changes: Any) -> None:
        run = next(_runs)
        values: dict[str, Any] = {
            "attempt": f"{run}-1", "run": run, "number": 1, "project": "p", "command": command,
            "environment": {"PATH": os.environ["PATH"]}, "cwd": str(root / "attempts" / f"{run}-1" / "code"),
            "nodes": [{"name": "n", "address": "127.0.0.1", "accelerators": []}], "grace": 20.0,
        }  # fmt: skip
        self.engine = engine
        self.launch = Launch(**values | changes)
        self.id = self.launch.attempt
        self.folder = AttemptFolder.of(root, self.id)
        self.node = self.folder.node(0)

    def start(self) -> Attempt:
        self.engine.start(self.launch)
        return self

    @property
    def presence(self) -> Presence:
        return self.engine.observe([self.id])[self.id].presence

    def stop(self, grace: float = 20.0) -> None:
        self.engine.stop(self.id, grace=grace, cause="stopped", message="asked to stop.")

    def exit(self) -> Exit:
        """Waits for the end."""
        return Exit.from_json(eventually(lambda: read_json(self.node.exit), f"the end of {self.id}"))

    def lines(self) -> list[str]:
        """The run log's lines so far."""
        return [line.text for line, _ in log_lines(self.node.run_log)]

    def said(self, text: str) -> bool:
        """Waits until the run log has the line `text`."""
        return eventually(lambda: text in self.lines(), f"{text!r} in the log of {self.id}")

    def number(self, name: str) -> int:
        """Waits for a line `name=<number>` and gives the number."""

        def look() -> int:
            return next((int(s.partition("=")[2]) for s in self.lines() if s.startswith(f"{name}=")), 0)

        return eventually(look, f"{name} in the log of {self.id}")

    def events(self, name: str) -> list[dict[str, Any]]:
        return [e for e in read_records(self.node.events)[0] if e["event"] == name]

    def runner(self, index: int = 0) -> identity.Identity:
        """Waits for the claim of a node's runner."""
        path = self.folder.node(index).runner
        return identity.Identity.from_json(eventually(lambda: read_json(path), f"runner {index} of {self.id}"))

    def all_say(self, text: str, processes: int = 1) -> None:
        """Waits until every process of every node has printed the line `text`."""
        logs = [self.folder.node(index).run_log for index in range(len(self.launch.nodes))]

        def look() -> bool:
            return all([line.text for line, _ in log_lines(log)].count(text) >= processes for log in logs)

        eventually(look, f"{text!r} on every node of {self.id}")

    def exits(self) -> list[Exit]:
        """Waits for the ends of all nodes."""
        paths = [self.folder.node(index).exit for index in range(len(self.launch.nodes))]

        def look() -> list[Any] | None:
            found = [read_json(path) for path in paths]
            return found if all(found) else None

        return [Exit.from_json(raw) for raw in eventually(look, f"the ends of {self.id}") or []]

    def presences(self) -> list[Presence]:
        return [node.presence for node in self.engine.observe([self.id])[self.id].nodes]

    def processes(self) -> list[int]:
        """Ids of the living processes that belong to it."""
        marker, found = f"{names.ATTEMPT_PATH}={os.path.realpath(self.folder.path)}".encode(), []
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
            with contextlib.suppress(OSError):
                if marker in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") and identity.of(pid):
                    found.append(pid)
        return found

    def clean(self) -> None:
        """Ends it, whatever state it is in."""
        for index in range(len(self.launch.nodes)):
            if (raw := read_json(self.folder.node(index).runner)) is not None:
                identity.send_signal(identity.Identity.from_json(raw), signal.SIGKILL)
                if raw.get("sockets"):
                    shutil.rmtree(raw["sockets"], ignore_errors=True)
        for pid in self.processes():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


#: says when it is up, and goes on for ever
FOREVER = "import time; print('up', flush=True)\nwhile True: time.sleep(0.1)"
#: the same, with a child that left for a session of its own
WITH_SESSION = (
    # whole lines in one write each: unbuffered, `print` writes the newline apart, and two processes would mix them up
    "import os, time\nif os.fork() == 0:\n    os.setsid()\n    os.write(1, f'child={os.getpid()}\\n'.encode())\n"
    "    while True: time.sleep(0.1)\nos.write(1, b'up\\n')\nwhile True: time.sleep(0.1)"
)
#: the same, deaf to SIGTERM
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + FOREVER


#: two nodes of one attempt
TWO: list[dict[str, Any]] = [{"name": f"n{i}", "address": "127.0.0.1", "accelerators": []} for i in range(2)]


class EngineContract:
    """Subclass it in a test module and give a fixture `engine`."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        return tmp_path

    @pytest.fixture
    def make(self, engine: Engine, root: Path) -> Iterator[Callable[..., Attempt]]:
        """`make(command, **launch fields)` gives an attempt that is not started yet."""
        made: list[Attempt] = []

        def one(command: list[str], **changes: Any) -> Attempt:
            made.append(Attempt(engine, root, command, **changes))
            return made[-1]

        yield one
        for attempt in made:
            attempt.clean()

    def test_it_has_a_name_and_nodes(self, engine: Engine) -> None:
        assert engine.name
        nodes = engine.nodes(5.0)
        assert nodes
        assert len({node.name for node in nodes}) == len(nodes)
        for node in nodes:
            assert node.engine == engine.name
            assert node.seen_at == 5.0
            assert node.cpus > 0
            assert node.memory_bytes > 0

    def test_what_was_never_started_is_unknown(self, engine: Engine) -> None:
        assert engine.observe(["404-1"])["404-1"].presence is Presence.UNKNOWN

    def test_stopping_and_sweeping_what_was_never_started_is_no_error(self, engine: Engine) -> None:
        engine.stop("404-1", grace=1.0, cause="stopped", message="")
        engine.sweep("404-1")
        assert engine.observe(["404-1"])["404-1"].presence is Presence.UNKNOWN

    def test_from_start_to_end(self, make: Callable[..., Attempt]) -> None:
        attempt = make(python("print('hello')")).start()
        end = attempt.exit()
        assert (end.cause, end.code, end.signal) == (Cause.DONE, 0, None)
        assert attempt.lines() == ["hello"]
        assert attempt.presence is Presence.ENDED

    def test_the_exit_code_is_kept(self, make: Callable[..., Attempt]) -> None:
        end = make(python("raise SystemExit(37)")).start().exit()
        assert (end.cause, end.code, end.rank) == (Cause.EXIT, 37, 0)

    def test_a_signal_is_kept(self, make: Callable[..., Attempt]) -> None:
        end = make(python("import os; os.kill(os.getpid(), 9)")).start().exit()
        assert (end.cause, end.signal) == (Cause.KILLED, signal.SIGKILL)

    def test_a_command_that_is_none_is_not_started(self, make: Callable[..., Attempt]) -> None:
        end = make(["no-such-program"]).start().exit()
        assert (end.cause, end.code) == (Cause.NOT_STARTED, None)
        assert "no-such-program" in end.message

    def test_it_is_alive_and_has_a_heartbeat(self, engine: Engine, make: Callable[..., Attempt]) -> None:
        attempt = make(python(FOREVER)).start()
        attempt.said("up")
        seen = engine.observe([attempt.id, "404-1"])
        assert seen[attempt.id].presence is Presence.ALIVE
        assert seen[attempt.id].heartbeat is not None
        assert seen["404-1"].presence is Presence.UNKNOWN

    def test_started_again_it_is_the_same(self, make: Callable[..., Attempt]) -> None:
        attempt = make(python(FOREVER)).start()
        runner = attempt.runner()
        attempt.said("up")
        attempt.start()
        assert attempt.runner() == runner
        attempt.stop(grace=1.0)
        attempt.exit()
        attempt.start()
        assert attempt.presence is Presence.ENDED
        assert attempt.lines() == ["up"]

    def test_started_many_times_at_once_it_runs_once(self, make: Callable[..., Attempt], root: Path) -> None:
        code = f"import os; open({str(root / 'count')!r}, 'a').write('x'); print('done')"
        attempt = make(python(code))
        gate = threading.Barrier(6)

        def start() -> None:
            gate.wait()
            attempt.start()

        threads = [threading.Thread(target=start) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert attempt.exit().cause is Cause.DONE
        assert (root / "count").read_text() == "x"
        assert len(attempt.events("started")) == 1

    def test_the_runner_is_nobodys_child(self, make: Callable[..., Attempt]) -> None:
        attempt = make(python(FOREVER)).start()
        runner = attempt.runner()
        ours = set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))
        assert runner.pid not in ours

    def test_stop_asks_and_the_process_may_save(self, make: Callable[..., Attempt]) -> None:
        code = (
            "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: (print('saved', flush=True), sys.exit(3)))\n"
        )
        attempt = make(python(code + FOREVER)).start()
        attempt.said("up")
        attempt.stop()
        attempt.stop()
        end = attempt.exit()
        assert (end.cause, end.message) == (Cause.STOPPED, "asked to stop.")
        assert attempt.lines()[-1] == "saved"
        attempt.stop()
        assert attempt.exit() == end

    def test_what_ignores_the_request_is_killed_after_the_grace_period(self, make: Callable[..., Attempt]) -> None:
        attempt = make(python(STUBBORN)).start()
        attempt.said("up")
        attempt.stop(grace=0.3)
        end = attempt.exit()
        assert (end.cause, end.signal) == (Cause.STOPPED, signal.SIGKILL)

    def test_the_end_takes_sessions_of_their_own_along(self, make: Callable[..., Attempt]) -> None:
        attempt = make(python(WITH_SESSION)).start()
        child = identity.of(attempt.number("child"))
        assert child is not None
        attempt.said("up")
        attempt.stop(grace=0.3)
        attempt.exit()
        assert not identity.alive(child)

    def test_a_killed_runner_is_lost_and_takes_its_ranks_along(self, make: Callable[..., Attempt]) -> None:
        attempt = make(python(FOREVER), processes=2).start()
        eventually(lambda: attempt.lines() == ["up", "up"], "both ranks")
        ranks = [identity.of(pid) for pid in attempt.events("launched")[0]["pids"]]
        assert identity.send_signal(attempt.runner(), signal.SIGKILL)
        eventually(lambda: attempt.presence is Presence.LOST, "the loss")
        eventually(lambda: not any(rank and identity.alive(rank) for rank in ranks), "the end of the ranks")

    def test_sweep_ends_what_a_lost_attempt_left(self, engine: Engine, make: Callable[..., Attempt]) -> None:
        attempt = make(python(WITH_SESSION)).start()
        child = identity.of(attempt.number("child"))
        assert child is not None
        if keeper := (read_json(attempt.node.runner) or {}).get("keeper"):
            # who else would end it
            identity.send_signal(identity.Identity.from_json(keeper), signal.SIGKILL)
        identity.send_signal(attempt.runner(), signal.SIGKILL)
        eventually(lambda: attempt.presence is Presence.LOST, "the loss")
        assert identity.alive(child)
        engine.sweep(attempt.id)
        eventually(lambda: not attempt.processes(), "the end of all processes")
        assert not identity.alive(child)
        engine.sweep(attempt.id)
        assert attempt.presence is Presence.LOST

    def test_sweep_touches_no_attempt_of_that_id_in_another_root(
        self, engine: Engine, make: Callable[..., Attempt], tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        attempt = make(python(WITH_SESSION)).start()
        child = identity.of(attempt.number("child"))
        assert child is not None
        twin = dict(os.environ, HEADWAY_ATTEMPT=attempt.id)
        twin["HEADWAY_ATTEMPT_PATH"] = str(tmp_path_factory.mktemp("other") / "attempts" / attempt.id)
        with subprocess.Popen([sys.executable, "-c", "input()"], env=twin, stdin=subprocess.PIPE) as other:
            identity.send_signal(attempt.runner(), signal.SIGKILL)
            eventually(lambda: attempt.presence is Presence.LOST, "the loss")
            engine.sweep(attempt.id)
            eventually(lambda: not attempt.processes(), "the end of all processes")
            assert other.poll() is None
            other.communicate(b"\n")
            assert other.returncode == 0

    def test_a_reused_process_id_is_not_the_runner(self, make: Callable[..., Attempt]) -> None:
        attempt = make(python(FOREVER)).start()
        attempt.said("up")
        runner = attempt.runner()
        identity.send_signal(runner, signal.SIGKILL)
        eventually(lambda: attempt.presence is Presence.LOST, "the loss")
        # our own id stands for the one that took it over: alive, with another start time
        raw = read_json(attempt.node.runner)
        import json

        write_whole(attempt.node.runner, json.dumps({**raw, "pid": os.getpid()}).encode())
        assert attempt.presence is Presence.LOST
        attempt.stop(grace=0.1)
        assert attempt.presence is Presence.LOST

    # -- attempts of several nodes

    def test_every_node_has_a_runner_and_every_rank_its_number(self, make: Callable[..., Attempt]) -> None:
        code = "import os; print(os.environ['NODE_RANK'], os.environ['RANK'], os.environ['WORLD_SIZE'])"
        attempt = make(python(code), nodes=TWO, processes=2).start()
        assert [end.cause for end in attempt.exits()] == [Cause.DONE, Cause.DONE]
        lines = [sorted(line.text for line, _ in log_lines(attempt.folder.node(index).run_log)) for index in range(2)]
        assert lines == [["0 0 4", "0 1 4"], ["1 2 4", "1 3 4"]]
        assert attempt.presence is Presence.ENDED
        assert attempt.presences() == [Presence.ENDED] * 2

    def test_a_gang_started_again_is_the_same(self, make: Callable[..., Attempt]) -> None:
        attempt = make(python(FOREVER), nodes=TWO).start()
        runners = [attempt.runner(index) for index in range(2)]
        attempt.all_say("up")
        attempt.start()
        assert [attempt.runner(index) for index in range(2)] == runners
        assert attempt.presence is Presence.ALIVE

    def test_a_gang_is_alive_while_one_of_its_nodes_is(self, make: Callable[..., Attempt]) -> None:
        code = "import os, sys\nif os.environ['RANK'] == '1': sys.exit(0)\n" + FOREVER
        attempt = make(python(code), nodes=TWO).start()
        eventually(lambda: attempt.presences() == [Presence.ALIVE, Presence.ENDED], "the end of one node")
        assert attempt.presence is Presence.ALIVE

    def test_stop_asks_every_node(self, make: Callable[..., Attempt]) -> None:
        attempt = make(python(FOREVER), nodes=TWO, processes=2).start()
        attempt.all_say("up", 2)
        attempt.stop()
        assert [end.cause for end in attempt.exits()] == [Cause.STOPPED] * 2
        assert attempt.processes() == []

    def test_a_killed_runner_of_a_gang_is_lost_and_the_others_end(self, make: Callable[..., Attempt]) -> None:
        attempt = make(python(FOREVER), nodes=TWO).start()
        attempt.all_say("up")
        assert identity.send_signal(attempt.runner(1), signal.SIGKILL)
        eventually(lambda: attempt.presence is Presence.LOST, "the loss")
        eventually(lambda: attempt.presences() == [Presence.ENDED, Presence.LOST], "the end of the other")
        assert attempt.exit().cause is Cause.PEER_FAILED
        eventually(lambda: not attempt.processes(), "the end of all processes")

    def test_sweep_of_one_node_leaves_what_lives_on_the_others(
        self, engine: Engine, make: Callable[..., Attempt]
    ) -> None:
        attempt = make(python(FOREVER), nodes=TWO).start()
        attempt.all_say("up")
        engine.sweep(attempt.id, 1)
        assert attempt.presences() == [Presence.ALIVE] * 2
        assert len(attempt.processes()) == 2

    def test_sweep_of_a_node_that_was_given_up_ends_what_runs_there_and_leaves_its_runner(
        self, engine: Engine, make: Callable[..., Attempt]
    ) -> None:
        attempt = make(python(WITH_SESSION)).start()
        child = identity.of(attempt.number("child"))
        attempt.said("up")
        runner = attempt.runner()
        assert child is not None
        assert identity.send_signal(runner, signal.SIGSTOP)
        write_whole(attempt.folder.fence, b"2")
        engine.sweep(attempt.id, lost=True)
        eventually(lambda: not identity.alive(child), "the end of what it started")
        assert identity.alive(runner)
        assert identity.send_signal(runner, signal.SIGCONT)
        # it finds the fence, and that what it watched over is gone
        assert attempt.exit().cause is Cause.FENCED
        assert attempt.processes() == []

    def test_what_is_amended_holds_while_it_runs(self, engine: Engine, make: Callable[..., Attempt]) -> None:
        attempt = make(python(FOREVER), max_duration=600.0).start()
        attempt.said("up")
        engine.amend(attempt.id, {"max_duration": 0.1, "grace": 1.0, "limits": {}})
        assert attempt.exit().cause is Cause.TIME_LIMIT

    def test_amending_what_was_never_started_is_no_error(self, engine: Engine) -> None:
        engine.amend("404-1", {"grace": 1.0})
        assert engine.observe(["404-1"])["404-1"].presence is Presence.UNKNOWN
