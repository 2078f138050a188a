"""Gangs over nodes: where the ranks meet, and that one node that fails ends all, with no server alive."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headway.runner
from headway.protocol import identity, layout
from headway.protocol.causes import Cause
from headway.protocol.exits import Exit
from headway.protocol.files import log_lines, read_json, write_json
from headway.runner.peers import COME_SECONDS, LOST_SECONDS, Peers
from headway.testing.engines import FOREVER, Attempt, eventually, python

Make = Callable[..., Attempt]
_RUNNER = Path(headway.runner.__file__).with_name("__main__.py")


class TwoNodes:
    """An attempt on two nodes of this machine, each with a runner of its own; no engine, no server."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt

    def start(self, *indices: int) -> TwoNodes:
        self.attempt.folder.path.mkdir(parents=True, exist_ok=True)
        if not self.attempt.folder.launch.exists():
            write_json(self.attempt.folder.launch, self.attempt.launch.to_json())
        for index in indices or (0, 1):
            command = [sys.executable, "-I", "-S", str(_RUNNER), str(self.attempt.folder.path), str(index)]
            subprocess.run(command, check=True)
        return self

    def exit(self, index: int) -> Exit:
        path = self.attempt.folder.node(index).exit
        return Exit.from_json(eventually(lambda: read_json(path), f"the end of node {index}"))

    def lines(self, index: int) -> list[str]:
        return [line.text for line, _ in log_lines(self.attempt.folder.node(index).run_log)]

    def up(self) -> TwoNodes:
        eventually(lambda: "up" in self.lines(0) and "up" in self.lines(1), "both nodes")
        return self

    def runner(self, index: int) -> identity.Identity:
        return identity.Identity.from_json(read_json(self.attempt.folder.node(index).runner))


@pytest.fixture
def two(make: Make) -> Any:
    made: list[TwoNodes] = []

    def one(command: list[str], **changes: Any) -> TwoNodes:
        nodes = [{"name": f"n{n}", "address": "127.0.0.1", "accelerators": [2 * n, 2 * n + 1]} for n in range(2)]
        made.append(TwoNodes(make(command, **{"nodes": nodes} | changes)))
        return made[-1]

    yield one
    for gang in made:
        for index in range(2):
            if gang.attempt.folder.node(index).runner.exists():
                identity.send_signal(gang.runner(index), signal.SIGKILL)


Two = Callable[..., TwoNodes]


def test_the_ranks_of_both_nodes_find_each_other(two: Two) -> None:
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    gang = two(python(code), processes=2, environment={"CUDA_VISIBLE_DEVICES": "9"}).start()
    assert [gang.exit(index).cause for index in range(2)] == [Cause.DONE] * 2
    found = sorted((json.loads(line) for n in range(2) for line in gang.lines(n)), key=lambda e: str(e["RANK"]))
    assert [e["RANK"] for e in found] == ["0", "1", "2", "3"]
    assert [e["NODE_RANK"] for e in found] == ["0", "0", "1", "1"]
    assert [e["LOCAL_RANK"] for e in found] == ["0", "1", "0", "1"]
    assert {e["WORLD_SIZE"] for e in found} == {"4"}
    assert {e["LOCAL_WORLD_SIZE"] for e in found} == {"2"}
    assert [e["CUDA_VISIBLE_DEVICES"] for e in found] == ["0,1", "0,1", "2,3", "2,3"]
    meeting = read_json(gang.attempt.folder.rendezvous)
    assert {(e["MASTER_ADDR"], e["MASTER_PORT"]) for e in found} == {(meeting["address"], str(meeting["port"]))}


def test_a_launcher_is_started_once_a_node_and_counts_nodes(two: Two) -> None:
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    gang = two(python(code), processes=4, view="node").start()
    assert [gang.exit(index).cause for index in range(2)] == [Cause.DONE] * 2
    for index in range(2):
        (line,) = gang.lines(index)
        found = json.loads(line)
        assert (found["RANK"], found["WORLD_SIZE"], found["NPROC_PER_NODE"]) == (str(index), "2", "4")
        assert found["MASTER_PORT"]


def test_a_node_waits_for_the_first(two: Two) -> None:
    gang = two(python("print('up')")).start(1)
    eventually(lambda: gang.attempt.folder.node(1).heartbeat.exists(), "node 1")
    assert gang.lines(1) == []
    gang.start(0)
    assert gang.exit(1).cause is Cause.DONE


def test_one_rank_that_fails_ends_both_nodes_and_is_named(two: Two) -> None:
    code = f"import os, sys\nif os.environ['RANK'] == '3': sys.exit(9)\n{FOREVER}"
    gang = two(python(code), processes=2).start()
    first, second = gang.exit(0), gang.exit(1)
    assert (second.cause, second.rank, second.code) == (Cause.EXIT, 3, 9)
    assert (first.cause, first.message) == (Cause.PEER_FAILED, "n1: rank 3 returned 9.")
    abort = read_json(gang.attempt.folder.abort)
    assert (abort["node"], abort["rank"], abort["code"], abort["cause"]) == (1, 3, 9, "exit")


def test_a_node_that_cannot_start_ends_the_other(two: Two) -> None:
    code = ["sh", "-c", "test $NODE_RANK = 0 && sleep 60"]
    gang = two(code).start()
    assert gang.exit(1).cause is Cause.EXIT
    assert gang.exit(0).cause is Cause.PEER_FAILED


def test_a_node_that_ends_well_leaves_the_other_alone(two: Two) -> None:
    code = "import os, time\nif os.environ['RANK'] == '1': raise SystemExit\ntime.sleep(1)\nprint('last')"
    gang = two(python(code)).start()
    assert [gang.exit(index).cause for index in range(2)] == [Cause.DONE] * 2
    assert gang.lines(0) == ["last"]


def test_a_request_to_stop_reaches_both(two: Two) -> None:
    gang = two(python(FOREVER)).start().up()
    write_json(gang.attempt.folder.stop, {"grace": 5.0, "cause": "paused", "message": "asked to pause."})
    assert [gang.exit(index).cause for index in range(2)] == [Cause.PAUSED] * 2


def test_a_runner_that_is_killed_ends_the_other_node(two: Two) -> None:
    gang = two(python(FOREVER)).start().up()
    identity.send_signal(gang.runner(1), signal.SIGKILL)
    end = gang.exit(0)
    assert (end.cause, end.message) == (Cause.PEER_FAILED, "n1: its runner was killed.")
    assert read_json(gang.attempt.folder.abort)["cause"] == "runner_lost"


def test_a_limit_that_one_node_sees_ends_both_with_their_grace(two: Two) -> None:
    code = f"import os\nif os.environ['RANK'] == '0': print('loss=nan')\n{FOREVER}"
    gang = two(python(code), limits={"nan": True}, grace=3.0).start()
    assert [gang.exit(index).cause for index in range(2)] == [Cause.NAN_METRIC] * 2
    assert not gang.attempt.folder.abort.exists()


def test_a_node_that_is_silent_while_the_other_prints_is_not_idle(two: Two) -> None:
    code = (
        "import os, time\nfor n in range(12):\n    if os.environ['RANK'] == '0': print(n, flush=True)\n"
        "    time.sleep(0.5)"
    )
    gang = two(python(code), limits={"idle_output": 5.0, "hang": 5.0}).start()
    assert [gang.exit(index).cause for index in range(2)] == [Cause.DONE] * 2


def test_a_hang_of_both_nodes_is_dumped_on_both(two: Two) -> None:
    gang = two(python(FOREVER), limits={"hang": 1.0}, stacks=["echo", "stack"]).start()
    assert [gang.exit(index).cause for index in range(2)] == [Cause.HANG] * 2
    for index in range(2):
        said = [line.text for line, _ in log_lines(gang.attempt.folder.node(index).diag_log)]
        assert any(text.startswith("stack ") for text in said)


class TestPeers:
    """What one node concludes of the other from files, by its own clock."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        for index in range(2):
            (tmp_path / layout.node(index)).mkdir()
        return tmp_path

    @staticmethod
    def peers(folder: Path) -> Peers:
        return Peers(str(folder), 0, [{"name": "n0", "address": "a"}, {"name": "n1", "address": "b"}], 0.0)

    @staticmethod
    def watch(peers: Peers, since: float, until: float) -> tuple[float, tuple[Cause, str] | None]:
        now = since
        while now < until:
            now += 1.0
            if ended := peers.look(now):
                return now, ended
        return now, None

    def test_one_without_a_heartbeat_is_lost(self, folder: Path) -> None:
        peers, beat = self.peers(folder), folder / "node-1" / layout.HEARTBEAT
        for now in range(0, 40, 2):
            beat.write_text(str(now))
            assert peers.look(float(now)) is None
        at, ended = self.watch(peers, 40.0, 100.0)
        assert ended is not None
        assert (ended[0], LOST_SECONDS <= at - 38 <= LOST_SECONDS + 4) == (Cause.PEER_FAILED, True)
        assert ended[1].startswith("n1 is lost: no heartbeat for 3")
        abort = read_json(folder / layout.ABORT)
        assert (abort["node"], abort["cause"]) == (1, "node_lost")

    def test_one_that_never_came_is_waited_for_longer(self, folder: Path) -> None:
        at, ended = self.watch(self.peers(folder), 0.0, 200.0)
        assert ended is not None
        assert COME_SECONDS <= at <= COME_SECONDS + 4
        assert "never came" in ended[1]

    def test_one_that_ended_is_not_lost(self, folder: Path) -> None:
        (folder / "node-1" / layout.EXIT).write_text("{}")
        assert self.watch(self.peers(folder), 0.0, 200.0)[1] is None

    def test_our_own_sleep_is_not_their_silence(self, folder: Path) -> None:
        peers, beat = self.peers(folder), folder / "node-1" / layout.HEARTBEAT
        beat.write_text("1")
        assert peers.look(1.0) is None
        assert peers.look(500.0) is None
        beat.write_text("2")
        assert self.watch(peers, 500.0, 520.0)[1] is None

    def test_the_first_that_failed_stays_the_first(self, folder: Path) -> None:
        nodes = [{"name": "n0"}, {"name": "n1"}]
        first, second = Peers(str(folder), 0, nodes, 0.0), Peers(str(folder), 1, nodes, 0.0)
        assert second.abort(Cause.EXIT, "rank 1 returned 3.", 1, 3) == 1
        assert first.abort(Cause.KILLED, "rank 0 died of SIGABRT.", 0, -6) == 1
        assert first.look(1.0) == (Cause.PEER_FAILED, "n1: rank 1 returned 3.")
        assert second.look(1.0) is None

    def test_one_that_was_given_up_learns_it(self, folder: Path) -> None:
        self.watch(self.peers(folder), 0.0, 200.0)
        back = Peers(str(folder), 1, [{"name": "n0"}, {"name": "n1"}], 0.0)
        ended = back.look(1.0)
        assert ended is not None
        assert ended[0] is Cause.NODE_LOST

    def test_a_hang_is_one_of_all(self, folder: Path) -> None:
        nodes = [{"name": "n0"}, {"name": "n1"}]
        first, second = Peers(str(folder), 0, nodes, 0.0), Peers(str(folder), 1, nodes, 0.0)
        assert not first.all_quiet(True)
        assert second.all_quiet(True)
        assert first.all_quiet(True)
        assert not first.all_quiet(False)
        assert not second.all_quiet(True)
        assert sorted(os.listdir(folder / "node-0")) == []
