"""The user's processes on one node, one a rank: their environment, their output, their metrics, how they ended."""

from __future__ import annotations

import os
import socket
import time

from headway.protocol import events, layout, names
from headway.runner import processes
from headway.runner.channel import Channel
from headway.runner.journal import Journal
from headway.runner.logs import Appended, LogFile
from headway.runner.outputs import Backlog, Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    import resource
    from collections.abc import Callable
    from typing import Any

    from headway.protocol.launch import Launch
    from headway.runner.keeper import Keeper
    from headway.runner.loop import Loop
    from headway.runner.metrics import MetricReader
    from headway.runner.report import Report

#: characters of a last line that go into the reason of a failure
LAST_WORDS = 300
#: what was printed is looked through for metrics at the earliest after so long, as many lines at once cost less
METRIC_SECONDS = 0.25
#: after so long an own pattern that matched nothing is taken for a mistake
PATTERN_SECONDS = 60.0


class Gang:
    """All ranks of this node; one that fails ends the gang (the runner sees to that)."""

    #: seconds from SIGTERM to SIGKILL for the ranks that are left when one has failed
    GRACE = 5.0

    def __init__(self, launch: Launch, index: int, loop: Loop, report: Report, run_log: LogFile) -> None:
        self._launch, self._index, self._loop, self._report, self._log = launch, index, loop, report, run_log
        #: living processes: id -> local rank
        self.pids: dict[int, int] = {}
        #: open outputs: fd -> (local rank, stream, reader)
        self.outputs: dict[int, tuple[int, str, Output]] = {}
        #: rank -> last line on stderr
        self._last_words: dict[int, bytes] = {}
        #: (rank, exit code or minus the signal) of the first that failed
        self.failure: tuple[int, int] | None = None
        #: when the processes were started, seconds since the epoch
        self.launched: float | None = None
        self.launched_clock = 0.0
        #: of all processes that ended, grandchildren too; the memory of the largest of them
        self.cpu_seconds = 0.0
        self.max_rss_bytes = 0.0
        #: called in each process before it becomes the user's: moves it where its memory is limited
        self.enter: Callable[[], None] | None = None
        #: variables that the launch's own outweigh
        self.extra: dict[str, str] = {}
        #: when a line came last, monotonic
        self.line_at = 0.0
        #: told (step, name, value) of each point and the monotonic time; for limits that depend on them
        self.hear_points: Callable[[list[tuple[int, str, float]], float], None] | None = None
        #: what the script says; writes metrics.jsonl
        self.channel = Channel(report, Appended(report.path(layout.METRICS)), loop)
        self.channel.hear = self._hear
        self._reader: MetricReader | None = None
        self._backlog = Backlog()
        self._checked = False

    # -- beginning

    @property
    def several(self) -> bool:
        """Whether there may be more ranks than one, which need a place to meet."""
        return self._launch.processes > 1 or len(self._launch.nodes) > 1 or self._launch.view == "node"

    def start(self, meeting: tuple[str, int] | None, keeper: Keeper) -> None:
        """Starts every rank, or the one launcher of this node. meeting: address and port of rank 0, where several are.

        Raises OSError with the program as its `filename`; those started before it live.
        """
        os.makedirs(self._launch.cwd, exist_ok=True)
        clock, now = time.monotonic(), time.time()
        journal = Journal(2 * self._started(), lambda: self._log.end)
        keeper.tell({"journal": True}, [journal.fd])
        command = self._node.get("command") or self._launch.command
        for local in range(self._started()):
            outputs = processes.Outputs()
            environment = self._environment(local, meeting)
            pid = outputs.spawn(command, environment, self._launch.cwd, enter=self.enter)
            self.pids[pid] = local
            self.launched, self.launched_clock = self.launched or now, clock
            for fd, stream in ((outputs.out, "o"), (outputs.err, "e")):
                slot = journal.slot()
                self.outputs[fd] = (local, stream, Output(self._loop, slot))
                self._loop.add(fd, self._read)
                place = slot.output if slot is not None else None
                keeper.tell({"output": self._rank(local), "stream": stream, "slot": place}, [fd])

    def _started(self) -> int:
        """Processes of each node that are ours to start: a launcher starts its own."""
        return 1 if self._launch.view == "node" else self._launch.processes

    def _rank(self, local: int) -> int:
        return self._index * self._started() + local

    def _environment(self, local: int, meeting: tuple[str, int] | None) -> dict[str, str]:
        launch, sockets = self._launch, self._report.sockets
        nodes = max(1, len(launch.nodes))
        environment = {
            "PYTHONUNBUFFERED": "1",
            **self.extra,
            **launch.environment,
            **(self._node.get("environment") or {}),
            names.RUN: str(launch.run),
            names.ATTEMPT: launch.attempt,
            names.ATTEMPT_PATH: os.path.realpath(os.path.dirname(self._report.folder)),
            names.CHANNEL: os.path.join(sockets, "channel"),
            names.HELPER: os.path.join(sockets, "helper"),
            names.STOP_FILE: os.path.join(sockets, "stop"),
            names.RANK: str(self._rank(local)),
            names.LOCAL_RANK: str(local),
            names.WORLD_SIZE: str(nodes * self._started()),
            names.LOCAL_WORLD_SIZE: str(self._started()),
            names.NODE_RANK: str(self._index),
        }
        if meeting is not None:
            environment[names.MASTER_ADDR], environment[names.MASTER_PORT] = meeting[0], str(meeting[1])
        if launch.view == "node":
            environment |= self._for_launcher(nodes, meeting)
        if (mine := self.accelerators()) is not None:
            environment[names.CUDA_VISIBLE_DEVICES] = ",".join(map(str, mine))
        return environment

    def _for_launcher(self, nodes: int, meeting: tuple[str, int] | None) -> dict[str, str]:
        """torchrun takes what its command line leaves out from PET_*: `torchrun train.py` fills all nodes by itself."""
        found = {"NNODES": str(nodes), "NPROC_PER_NODE": str(self._launch.processes), "NODE_RANK": str(self._index)}
        if meeting is not None:
            found |= {"MASTER_ADDR": meeting[0], "MASTER_PORT": str(meeting[1])}
        given = {f"PET_{name}": value for name, value in found.items()}
        return {names.NPROC_PER_NODE: found["NPROC_PER_NODE"], **given}

    @property
    def missed(self) -> int:
        """Lines that are missing at the end of the run log: the disk took none."""
        return self._log.missed

    def ranks(self) -> dict[int, int]:
        """Living processes, each with its rank."""
        return {pid: self._rank(local) for pid, local in self.pids.items()}

    def accelerators(self) -> list[int] | None:
        """Indices of this node's accelerators that are ours; None where nobody counted them."""
        found: list[int] | None = self._node.get("accelerators")
        return found

    @property
    def _node(self) -> dict[str, Any]:
        """What the launch says of this node."""
        nodes = self._launch.nodes
        return nodes[self._index] if self._index < len(nodes) else {}

    # -- what they say

    def _read(self, fd: int) -> None:
        local, stream, output = self.outputs[fd]
        text = output.read(fd)
        ended = text is None
        if text is None:
            text = output.rest()
        rank = self._rank(local)
        if text:
            self.line_at = time.monotonic()
        self._log.append(text, rank, stream, output.notice())
        output.commit()
        if stream == "e" and (last := text[text.rfind(b"\n", 0, -1) + 1 : -1]).strip():
            self._last_words[rank] = last
        if ended:
            del self.outputs[fd]
            self._loop.remove(fd)
        if rank == 0 and stream == "o":
            self._look_through(text, ended)

    def _look_through(self, text: bytes, ended: bool) -> None:
        """Metrics are taken when nothing is left to read, so that looking for them holds up nobody who prints."""
        if text:
            self._backlog.add(text)
            if self._loop.idle is None:
                self._loop.idle, self._loop.idle_at = self._take_next, time.monotonic() + METRIC_SECONDS
        while ended and self._take_next():
            pass
        if ended and self._backlog.given_up:
            self._report.say(f"{self._backlog.given_up} lines came too quickly to be looked through for metrics")

    def _take_next(self) -> bool:
        if text := self._backlog.take():
            self._take_metrics(text)
        return bool(self._backlog)

    def last_words(self, rank: int) -> str:
        """What the rank wrote to stderr last, most often the exception that ended it; "" when it wrote nothing."""
        return self._last_words.get(rank, b"").decode("utf-8", "replace").strip()[:LAST_WORDS]

    def deafen(self) -> None:
        """Closes outputs that something which cannot be killed holds open."""
        for fd in list(self.outputs):
            local, stream, output = self.outputs.pop(fd)
            self._log.append(output.rest(), self._rank(local), stream)
            self._loop.remove(fd)
        self._look_through(b"", True)

    def _take_metrics(self, text: bytes) -> None:
        if self._reader is None:
            # imported here: the user's first line is in the log by now
            from headway.runner.metrics import MetricReader

            self._reader = MetricReader(self._launch.metric_patterns)
            for sentence in self._reader.refused:
                self._report.say(sentence)
        if points := self._reader.read_block(text):
            self.channel.write(points)

    def check_patterns(self, now: float, *, ended: bool = False) -> None:
        """Says loudly, once, which own metric patterns matched nothing in the first minute, or until the end."""
        if self.launched is None or self._checked or not (ended or now >= self.launched_clock + PATTERN_SECONDS):
            return
        self._checked = True
        if self._index or not self._launch.metric_patterns:
            return
        self._take_metrics(b"")
        for name, regex in self._reader.unmatched.items() if self._reader else ():
            after = "until its end" if ended else f"in the first {PATTERN_SECONDS:g} s"
            text = f"The metric pattern {name} ({regex!r}) matched no line of rank 0 {after}. Look at what it prints."
            self._report.say(f"WARNING: {text}")
            self._report.event(events.WARNING, message=text)

    def _hear(self, points: list[tuple[int, str, float]]) -> None:
        if self.hear_points is not None:
            self.hear_points(points, time.monotonic())

    # -- the end

    def signal(self, number: int) -> None:
        for pid in self.pids:
            processes.signal_group(pid, number)

    def ended(self, pid: int, code: int, usage: resource.struct_rusage) -> bool:
        """A process was waited for; whether it is a rank, and failed. code: as `os.waitstatus_to_exitcode` has it."""
        self.cpu_seconds += usage.ru_utime + usage.ru_stime
        self.max_rss_bytes = max(self.max_rss_bytes, usage.ru_maxrss * 1024.0)
        local = self.pids.pop(pid, None)
        if local is None or code == 0:
            return False
        if self.failure is None:
            self.failure = (self._rank(local), code)
        return True


def free_port(host: str) -> int:
    """A port of `host` that nobody uses now. Raises OSError."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
