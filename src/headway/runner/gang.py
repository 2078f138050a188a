"""The user's processes on one node, one a rank: their environment, their output, their metrics, how they ended."""

from __future__ import annotations

import json
import os
import socket
import time
from math import isfinite

from headway.protocol import layout, names
from headway.runner import processes
from headway.runner.logs import Appended, LineSplitter, LogFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    import resource
    from typing import Any

    from headway.protocol.launch import Launch
    from headway.runner.loop import Loop
    from headway.runner.metrics import MetricReader
    from headway.runner.report import Report

#: bytes taken from a pipe at once
BLOCK = 1 << 16
#: characters of a last line that go into the reason of a failure
LAST_WORDS = 300


class Gang:
    """All ranks of this node; one that fails ends the gang (the runner sees to that)."""

    #: seconds from SIGTERM to SIGKILL for the ranks that are left when one has failed
    GRACE = 5.0

    def __init__(self, launch: Launch, index: int, loop: Loop, report: Report, run_log: LogFile) -> None:
        self._launch, self._index, self._loop, self._report, self._log = launch, index, loop, report, run_log
        #: living processes: id -> local rank
        self.pids: dict[int, int] = {}
        #: open outputs: fd -> (local rank, stream, splitter)
        self.outputs: dict[int, tuple[int, str, LineSplitter]] = {}
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
        self._metrics = Appended(report.path(layout.METRICS))
        self._reader: MetricReader | None = None
        self._step = 0
        self._open_channel()

    # -- beginning

    def start(self) -> None:
        """Starts every rank. Raises OSError with the program as its `filename`; those started before it live."""
        os.makedirs(self._launch.cwd, exist_ok=True)
        several = self._launch.processes > 1 or len(self._launch.nodes) > 1
        port = _free_port() if several else 0
        clock, now = time.monotonic(), time.time()
        for local in range(self._launch.processes):
            outputs = processes.Outputs()
            pid = outputs.spawn(self._launch.command, self._environment(local, port), self._launch.cwd)
            self.pids[pid] = local
            self.launched, self.launched_clock = self.launched or now, clock
            for fd, stream in ((outputs.out, "o"), (outputs.err, "e")):
                self.outputs[fd] = (local, stream, LineSplitter())
                self._loop.add(fd, self._read)

    def _rank(self, local: int) -> int:
        return self._index * self._launch.processes + local

    def _environment(self, local: int, port: int) -> dict[str, str]:
        launch, sockets = self._launch, self._report.sockets
        nodes = max(1, len(launch.nodes))
        environment = {
            "PYTHONUNBUFFERED": "1",
            **launch.environment,
            names.RUN: str(launch.run),
            names.ATTEMPT: launch.attempt,
            names.ATTEMPT_PATH: os.path.realpath(os.path.dirname(self._report.folder)),
            names.CHANNEL: os.path.join(sockets, "channel"),
            names.HELPER: os.path.join(sockets, "helper"),
            names.STOP_FILE: os.path.join(sockets, "stop"),
            names.RANK: str(self._rank(local)),
            names.LOCAL_RANK: str(local),
            names.WORLD_SIZE: str(nodes * launch.processes),
            names.LOCAL_WORLD_SIZE: str(launch.processes),
            names.NODE_RANK: str(self._index),
        }
        if port:
            environment[names.MASTER_ADDR] = (launch.nodes[0].get("address") if launch.nodes else "") or "127.0.0.1"
            environment[names.MASTER_PORT] = str(port)
        return environment

    # -- what they say

    def _read(self, fd: int) -> None:
        local, stream, splitter = self.outputs[fd]
        try:
            block = os.read(fd, BLOCK)
        except BlockingIOError:
            return
        lines = splitter.feed(block) if block else splitter.end()
        rank = self._rank(local)
        self._log.write(lines, rank, stream)
        if lines and stream == "e" and lines[-1].strip():
            self._last_words[rank] = lines[-1]
        if not block:
            del self.outputs[fd]
            self._loop.remove(fd)
        elif len(block) < BLOCK:
            self._loop.rest(fd)
        if lines and rank == 0 and stream == "o":
            self._take_metrics(lines)

    def last_words(self, rank: int) -> str:
        """What the rank wrote to stderr last, most often the exception that ended it; "" when it wrote nothing."""
        return self._last_words.get(rank, b"").decode("utf-8", "replace").strip()[:LAST_WORDS]

    def deafen(self) -> None:
        """Closes outputs that something which cannot be killed holds open."""
        for fd in list(self.outputs):
            _, stream, splitter = self.outputs.pop(fd)
            self._log.write(splitter.end(), 0, stream)
            self._loop.remove(fd)

    def _take_metrics(self, lines: list[bytes]) -> None:
        if self._reader is None:
            # imported here: the user's first line is in the log by now
            from headway.runner.metrics import MetricReader

            self._reader = MetricReader(self._launch.metric_patterns)
            for sentence in self._reader.refused:
                self._report.say(sentence)
        if points := self._reader.read_all(lines):
            # written by hand, as thousands a second may come
            end = f', "rank": 0, "t": {time.time():.6f}}}\n'
            block = "".join([f'{{"step": {s}, "name": {_quoted(n)}, "value": {_number(v)}{end}' for s, n, v in points])
            self._metrics.append(block.encode())

    def _write_points(self, points: list[dict[str, Any]]) -> None:
        if points:
            self._metrics.append("".join(json.dumps(point) + "\n" for point in points).encode())

    # -- the script's channel

    def _open_channel(self) -> None:
        self._channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._channel.bind(os.path.join(self._report.sockets, "channel"))
        self._loop.add(self._channel.fileno(), self._hear)

    def _hear(self, _: int) -> None:
        points = []
        for _ in range(1000):  # then others have their turn
            try:
                said = json.loads(self._channel.recv(BLOCK))
            except OSError:
                break
            except ValueError:
                continue
            if isinstance(said, dict) and (point := self._point(said.get("metric"))):
                points.append(point)
            elif isinstance(said, dict) and isinstance(said.get("event"), dict):
                fields = dict(said["event"])
                self._report.event(str(fields.pop("event", "script")), **fields)
        self._write_points(points)

    def _point(self, raw: Any) -> dict[str, Any] | None:
        """A metric that a script sent, as metrics.jsonl has it; one without a step is at the step before."""
        if not isinstance(raw, dict):
            return None
        try:
            step = raw.get("step")
            self._step = self._step if step is None else int(step)
            value, rank = float(raw["value"]), int(raw.get("rank") or 0)
            return {"t": time.time(), "step": self._step, "name": str(raw["name"]), "value": value, "rank": rank}
        except (KeyError, TypeError, ValueError):
            return None

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


def _quoted(name: str) -> str:
    return f'"{name}"' if name.isidentifier() else json.dumps(name)


def _number(value: float) -> str:
    return repr(value) if isfinite(value) else json.dumps(value)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
