"""One attempt on one node, from claim to exit.json.

A single thread around one selector: what is readable is read, what is due is done. Every fact goes to a file at once.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from headway.protocol import events, hints, identity, names
from headway.protocol.exits import Cause, Exit
from headway.protocol.files import AttemptFolder, read_json, write_json
from headway.protocol.launch import Launch
from headway.runner import processes
from headway.runner.logs import LineSplitter, LogFile
from headway.runner.metrics import MetricReader

HEARTBEAT_SECONDS = 3.0
USAGE_SECONDS = 5.0
#: from SIGTERM to SIGKILL for the ranks that are left when one has failed
GANG_GRACE = 5.0
#: how often a helper that died is started again
HELPER_RESTARTS = 5
HELPER_BACKOFF = 0.5
DIAG_LIMIT = 64 << 20


class Claimed(Exception):
    """Another runner has this attempt already."""


class Runner:
    def __init__(self, folder: str, index: int) -> None:
        self.folder = AttemptFolder(Path(folder))
        self.node = self.folder.node(index)
        self.index = index
        self.started = time.time()
        self.selector = selectors.DefaultSelector()
        self.pids: dict[int, int] = {}  # pid -> rank
        self.open_outputs = 0
        self.first_failure: tuple[int, int | None, int | None] | None = None  # rank, code, signal
        self.cause: Cause | None = None
        self.message = ""
        self.launched: float | None = None
        self.kill_at: float | None = None
        self.usage = {"cpu_seconds": 0.0, "max_rss_bytes": 0.0}
        self.helper_pid: int | None = None
        self.helper_in: int | None = None
        self.helper_starts = 0
        self.helper_again_at: float | None = None
        self.helper_error = ""
        self.finishing = False
        self.prepared = False
        self.stop_seen = False

    # -- beginning

    def main(self) -> None:
        self.node.path.mkdir(mode=0o700, exist_ok=True)
        try:
            self._claim()
        except Claimed:
            return
        self._detach()
        try:
            self.launch = Launch.from_json(read_json(self.folder.launch))
        except (ValueError, TypeError) as error:
            self.launch = Launch(
                attempt=self.folder.path.name, run=0, number=0, project="", command=[], environment={}, cwd="/"
            )
            self._end(Cause.NOT_STARTED, f"launch.json cannot be read: {error}.")
            return
        try:
            self._run()
        finally:
            shutil.rmtree(self.sockets, ignore_errors=True)

    def _claim(self) -> None:
        self.sockets = tempfile.mkdtemp(prefix="hw-")
        mine = self.node.path / f".runner.{os.getpid()}"
        mine.write_text(
            json.dumps({**identity.own().to_json(), "at": self.started, "sockets": self.sockets}), encoding="utf-8"
        )
        try:
            os.link(mine, self.node.runner)
        except FileExistsError:
            os.rmdir(self.sockets)
            raise Claimed from None
        finally:
            mine.unlink()

    def _detach(self) -> None:
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.close(null)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        processes.adopt_orphans()
        self.diag = LogFile(str(self.node.diag_log), DIAG_LIMIT)
        self._events = open(self.node.events, "ab", buffering=0)  # noqa: SIM115
        wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        self.selector.register(wake_read, selectors.EVENT_READ, ("wake", None, None))
        self._event(events.STARTED)
        self._beat()

    def say(self, text: str) -> None:
        self.diag.write([line.encode() for line in text.splitlines()], 0, "h")

    def _event(self, name: str, **fields: Any) -> None:
        line = json.dumps({"at": time.time(), "event": name, **fields}, ensure_ascii=False) + "\n"
        try:
            self._events.write(line.encode())
        except OSError as error:
            self.say(f"event {name} could not be written: {error}")
        self._hint()

    def _hint(self) -> None:
        if hasattr(self, "launch"):
            hints.send(self.launch.hints, "attempt", self.launch.attempt)

    def _beat(self) -> None:
        try:
            self.node.heartbeat.write_text(f"{time.time():.3f}\n", encoding="ascii")
        except OSError:
            pass

    # -- the loop

    def _run(self) -> None:
        launch = self.launch
        self._hint()
        self.say(
            f"attempt {launch.attempt} on {os.uname().nodename}: {os.cpu_count()} CPUs, "
            f"free disk {shutil.disk_usage(self.folder.path).free >> 20} MiB, Python {sys.version.split()[0]}"
        )
        self.run_log = LogFile(str(self.node.run_log), launch.log_limit)
        self._metrics_fd = os.open(self.node.metrics, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.reader = MetricReader(launch.metric_patterns)
        self._open_channel()
        now = time.monotonic()
        self.beat_at, self.usage_at = now + HEARTBEAT_SECONDS, now + USAGE_SECONDS
        if launch.helper:
            self._start_helper()
        else:
            self.prepared = True
            self._start_processes()
        while not self._done():
            self._turn()
        self._finish()

    def _done(self) -> bool:
        if self.pids or self.open_outputs:
            return False
        waiting_for_prepare = not self.prepared and self.cause is None
        return not waiting_for_prepare and (self.launched is not None or self.cause is not None)

    def _turn(self) -> None:
        due = [self.beat_at, self.usage_at]
        if self.kill_at is not None:
            due.append(self.kill_at)
        if self.helper_again_at is not None:
            due.append(self.helper_again_at)
        if (limit := self._limit_at()) is not None:
            due.append(limit)
        for key, _ in self.selector.select(max(0.0, min(due) - time.monotonic())):
            kind, fd, data = key.data
            if kind == "wake":
                self._drain_wake(key.fd)
            elif kind == "output":
                self._read_output(fd, data)
            elif kind == "helper":
                self._read_helper(fd, data)
            elif kind == "channel":
                self._read_channel(data)
        self._tick()

    def _limit_at(self) -> float | None:
        if self.launch.max_duration is None or self.launched is None or self.cause is not None or not self.pids:
            return None
        return self.launched_clock + self.launch.max_duration

    def _tick(self) -> None:
        self._reap()
        now = time.monotonic()
        if now >= self.beat_at:
            self.beat_at = now + HEARTBEAT_SECONDS
            self._beat()
            self._check_fence()
            self._check_stop()
        if now >= self.usage_at:
            self.usage_at = now + USAGE_SECONDS
            self._sample()
        if (limit := self._limit_at()) is not None and now >= limit:
            self._ask_to_end(
                Cause.TIME_LIMIT, f"ran for its limit of {self.launch.max_duration:g} s.", self.launch.grace
            )
        if self.kill_at is not None and now >= self.kill_at:
            self.kill_at = None
            self._kill_tree()
        if self.helper_again_at is not None and now >= self.helper_again_at:
            self.helper_again_at = None
            self._start_helper()

    def _drain_wake(self, fd: int) -> None:
        try:
            numbers = os.read(fd, 4096)
        except BlockingIOError:
            return
        if signal.SIGTERM in numbers or signal.SIGINT in numbers:
            self._check_fence()
            self._check_stop(signalled=True)

    # -- the user's processes

    def _start_processes(self) -> None:
        launch = self.launch
        self.launched, self.launched_clock = time.time(), time.monotonic()
        Path(launch.cwd).mkdir(parents=True, exist_ok=True)
        port = _free_port() if launch.processes > 1 or len(launch.nodes) > 1 else 0
        pids = []
        for rank in range(launch.processes):
            try:
                pids.append(self._start_rank(rank, port))
            except OSError as error:
                self.cause = Cause.NOT_STARTED
                self.message = f"{launch.command[0]!r} could not be started: {error.strerror}."
                self.first_failure = (rank, 127, None)
                self.run_log.write([f"[headway] {self.message}".encode()], rank, "h")
                self._kill_tree()
                return
        self._event(events.LAUNCHED, pids=pids)

    def _environment(self, rank: int, port: int) -> dict[str, str]:
        launch = self.launch
        nodes = max(1, len(launch.nodes))
        environment = {
            **launch.environment,
            names.RUN: str(launch.run),
            names.ATTEMPT: launch.attempt,
            names.CHANNEL: os.path.join(self.sockets, "channel"),
            names.HELPER: os.path.join(self.sockets, "helper"),
            names.STOP_FILE: os.path.join(self.sockets, "stop"),
            names.RANK: str(self.index * launch.processes + rank),
            names.LOCAL_RANK: str(rank),
            names.WORLD_SIZE: str(nodes * launch.processes),
            names.LOCAL_WORLD_SIZE: str(launch.processes),
            names.NODE_RANK: str(self.index),
            "PYTHONUNBUFFERED": launch.environment.get("PYTHONUNBUFFERED", "1"),
        }
        if port:
            environment[names.MASTER_ADDR] = (launch.nodes[0].get("address") if launch.nodes else None) or "127.0.0.1"
            environment[names.MASTER_PORT] = str(port)
        return environment

    def _start_rank(self, rank: int, port: int) -> int:
        out_r, out_w = os.pipe2(os.O_CLOEXEC)
        err_r, err_w = os.pipe2(os.O_CLOEXEC)
        try:
            pid = processes.spawn(self.launch.command, self._environment(rank, port), self.launch.cwd, out_w, err_w)
        except OSError:
            os.close(out_r)
            os.close(err_r)
            raise
        finally:
            os.close(out_w)
            os.close(err_w)
        self.pids[pid] = rank
        for fd, stream in ((out_r, "o"), (err_r, "e")):
            os.set_blocking(fd, False)
            self.selector.register(fd, selectors.EVENT_READ, ("output", fd, (rank, stream, LineSplitter())))
            self.open_outputs += 1
        return pid

    def _read_output(self, fd: int, data: tuple[int, str, LineSplitter]) -> None:
        rank, stream, splitter = data
        try:
            block = os.read(fd, 1 << 16)
        except BlockingIOError:
            return
        lines = splitter.feed(block) if block else splitter.end()
        self.run_log.write(lines, rank, stream)
        if rank == 0 and stream == "o" and self.index == 0:
            self._take_metrics(lines)
        if not block:
            self._close_output(fd)

    def _close_output(self, fd: int) -> None:
        self.selector.unregister(fd)
        os.close(fd)
        self.open_outputs -= 1

    def _take_metrics(self, lines: list[bytes]) -> None:
        points = []
        for line in lines:
            if len(line) < 4096:
                points += self.reader.read(line.decode("utf-8", "replace"))
        now = time.time()
        self._write_points([{"t": now, "step": s, "name": n, "value": v, "rank": 0} for s, n, v in points])

    def _write_points(self, points: list[dict[str, Any]]) -> None:
        if points:
            try:
                os.write(self._metrics_fd, "".join(json.dumps(p) + "\n" for p in points).encode())
            except OSError:
                pass

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.helper_pid:
                self._helper_ended(status)
                continue
            self.usage["cpu_seconds"] += usage.ru_utime + usage.ru_stime
            self.usage["max_rss_bytes"] = max(self.usage["max_rss_bytes"], usage.ru_maxrss * 1024.0)
            if pid in self.pids:
                self._rank_ended(self.pids.pop(pid), os.waitstatus_to_exitcode(status))

    def _rank_ended(self, rank: int, code: int) -> None:
        if code != 0 and self.first_failure is None and self.cause is None:
            self.first_failure = (rank, code if code > 0 else None, -code if code < 0 else None)
            if self.pids:
                self.say(f"rank {rank} failed; the other ranks are ended")
                self._signal_ranks(signal.SIGTERM)
                self._kill_by(GANG_GRACE)
        if not self.pids:
            # what it left in the background holds our pipes open and must not outlive it
            self._kill_by(GANG_GRACE if self.kill_at else 0.0)

    def _signal_ranks(self, number: int) -> None:
        for pid in self.pids:
            try:
                os.killpg(pid, number)
            except OSError:
                continue

    def _kill_by(self, seconds: float) -> None:
        at = time.monotonic() + seconds
        self.kill_at = at if self.kill_at is None else min(self.kill_at, at)

    def _kill_tree(self) -> None:
        besides = {os.getpid()} | ({self.helper_pid} if self.helper_pid else set())
        self._signal_ranks(signal.SIGKILL)
        for _ in range(5):  # what forks while we look is found the next time
            left = processes.members(f"{names.ATTEMPT}={self.launch.attempt}", besides)
            if not left:
                break
            processes.kill_all(left, signal.SIGKILL)
            self._reap()

    # -- asked to end

    def _check_fence(self) -> None:
        try:
            later = int(self.folder.fence.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return
        if later > self.launch.number and self.cause is None:
            self._ask_to_end(Cause.FENCED, f"attempt {later} of this run has taken over.", 0.0)

    def _check_stop(self, *, signalled: bool = False) -> None:
        if self.stop_seen:
            return
        try:
            asked = read_json(self.folder.stop)
        except (OSError, ValueError):
            asked = None
        if asked is None:
            if not signalled:
                return
            asked = {}
        self.stop_seen = True
        self._ask_to_end(
            Cause(asked.get("cause", Cause.STOPPED.value)),
            asked.get("message") or "asked to stop.",
            float(asked.get("grace", self.launch.grace)),
        )

    def _ask_to_end(self, cause: Cause, message: str, grace: float) -> None:
        if self.cause is not None or self.first_failure is not None:
            return
        self.cause, self.message = cause, message
        self.say(f"{message} SIGTERM now, SIGKILL after {grace:g} s")
        Path(self.sockets, "stop").touch()
        self._event(events.STOPPING, cause=cause.value, grace=grace)
        self._signal_ranks(signal.SIGTERM)
        self._kill_by(grace)

    # -- the script's channel

    def _open_channel(self) -> None:
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        channel.setblocking(False)
        channel.bind(os.path.join(self.sockets, "channel"))
        self.selector.register(channel, selectors.EVENT_READ, ("channel", None, channel))
        self.channel = channel

    def _read_channel(self, channel: socket.socket) -> None:
        points = []
        while True:
            try:
                raw = channel.recv(1 << 16)
            except OSError:
                break
            try:
                said = json.loads(raw)
            except ValueError:
                continue
            if isinstance(said, dict) and isinstance(said.get("metric"), dict):
                points.append({"t": time.time(), **said["metric"]})
            elif isinstance(said, dict) and isinstance(said.get("event"), dict):
                fields = dict(said["event"])
                self._event(str(fields.pop("event", "script")), **fields)
        self._write_points(points)

    # -- the helper

    def _start_helper(self) -> None:
        assert self.launch.helper is not None
        self.helper_starts += 1
        out_r, out_w = os.pipe2(os.O_CLOEXEC)
        err_r, err_w = os.pipe2(os.O_CLOEXEC)
        in_r, in_w = os.pipe2(os.O_CLOEXEC)
        environment = {
            **os.environ,
            names.HELPER: os.path.join(self.sockets, "helper"),
        }
        try:
            self.helper_pid = processes.spawn(
                [*self.launch.helper, str(self.folder.path)], environment, str(self.folder.path), out_w, err_w, in_r
            )
        except OSError as error:
            self.helper_error = f"the helper could not be started: {error.strerror}."
            self.cause, self.message = Cause.PREPARE_FAILED, self.helper_error
            return
        finally:
            for fd in (out_w, err_w, in_r):
                os.close(fd)
        self.helper_in = in_w
        for fd, stream in ((out_r, "o"), (err_r, "e")):
            os.set_blocking(fd, False)
            self.selector.register(fd, selectors.EVENT_READ, ("helper", fd, (stream, LineSplitter())))
        if self.finishing:
            os.write(in_w, b"finish\n")

    def _read_helper(self, fd: int, data: tuple[str, LineSplitter]) -> None:
        stream, splitter = data
        try:
            block = os.read(fd, 1 << 16)
        except BlockingIOError:
            return
        lines = splitter.feed(block) if block else splitter.end()
        if not block:
            self.selector.unregister(fd)
            os.close(fd)
        for line in lines:
            if stream == "e":
                self.diag.write([line], 0, "e")
            else:
                self._hear_helper(line)

    def _hear_helper(self, line: bytes) -> None:
        try:
            said = json.loads(line)
        except ValueError:
            self.diag.write([line], 0, "o")
            return
        if "log" in said:
            self.say(str(said["log"]))
        elif "event" in said:
            fields = dict(said["event"])
            self._event(str(fields.pop("event", "helper")), **fields)
        elif "error" in said:
            self.helper_error = str(said["error"])
            self.say(self.helper_error)
        elif said.get("prepared") and not self.prepared:
            self.prepared = True
            self._event(events.PREPARED)
            if self.cause is None:
                self._start_processes()

    def _helper_ended(self, status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        self.helper_pid = None
        if self.helper_in is not None:
            os.close(self.helper_in)
            self.helper_in = None
        if code == 0 and self.prepared:
            return
        if not self.prepared and code > 0:
            if self.cause is None:
                self.cause = Cause.PREPARE_FAILED
                self.message = self.helper_error or f"the helper ended with {code} before all was ready."
            return
        if self.helper_starts > HELPER_RESTARTS:
            self.say(f"the helper ended with {code} for the {self.helper_starts}th time and is not started again")
            if not self.prepared and self.cause is None:
                self.cause, self.message = Cause.PREPARE_FAILED, "the helper died again and again before all was ready."
            elif self.cause is None:
                self._ask_to_end(Cause.RUNNER_LOST, "the helper died again and again.", self.launch.grace)
            return
        self.say(f"the helper ended with {code} and is started again")
        self.helper_again_at = time.monotonic() + HELPER_BACKOFF * (self.helper_starts - 1)

    # -- samples

    def _sample(self) -> None:
        ranks = list(self.pids)
        sample = {"t": time.time(), "cpu_seconds": 0.0, "rss_bytes": 0.0, "processes": len(ranks)}
        ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
        for pid in ranks:
            try:
                with open(f"/proc/{pid}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            sample["cpu_seconds"] += (int(fields[11]) + int(fields[12])) / ticks
            sample["rss_bytes"] += int(fields[21]) * page
        try:
            with open(self.node.usage, "a", encoding="ascii") as file:
                file.write(json.dumps(sample) + "\n")
        except OSError:
            pass
        limit = self.launch.memory_bytes
        if limit is not None and sample["rss_bytes"] > limit:
            used = f"{int(sample['rss_bytes']) >> 20} MiB"
            self._ask_to_end(Cause.OOM_KILL, f"used {used} of memory; its spec has {limit >> 20} MiB.", 0.0)

    # -- the end

    def _finish(self) -> None:
        self._kill_tree()
        if self.prepared and (self.helper_pid is not None or self.helper_again_at is not None):
            self._finish_helper()
        elif self.helper_pid is not None:
            processes.kill_all([self.helper_pid], signal.SIGKILL)
        cause, code, number, rank = self.cause, 0, None, None
        if self.first_failure is not None:
            rank, failed_code, number = self.first_failure
            code = failed_code if failed_code is not None else 128 + (number or 0)
        if cause is None:
            if self.first_failure is None:
                cause, self.message = Cause.DONE, "every process returned 0."
            elif number is not None:
                cause, self.message = Cause.KILLED, f"rank {rank} died of {_signal_name(number)}."
            else:
                cause, self.message = Cause.EXIT, f"rank {rank} returned {code}."
        self._end(cause, self.message, code=code if self.launched else None, number=number, rank=rank)

    def _finish_helper(self) -> None:
        """Lets the helper publish what is left. A stop does not wait longer than twice the grace period."""
        self.finishing = True
        if self.helper_in is not None:
            try:
                os.write(self.helper_in, b"finish\n")
            except OSError:
                pass
        patience = time.monotonic() + max(10.0, 2 * self.launch.grace) if self.cause else None
        while self.helper_pid is not None or self.helper_again_at is not None:
            self._turn()
            if self.stop_seen and patience is None:
                patience = time.monotonic() + max(10.0, self.launch.grace)
            if patience is not None and time.monotonic() > patience and self.helper_pid is not None:
                self.say("the helper did not finish in time and is ended")
                self.helper_starts = HELPER_RESTARTS + 1
                processes.kill_all([self.helper_pid], signal.SIGKILL)
                patience += 5.0
        # what it said last may still be in its pipe
        for key in list(self.selector.get_map().values()):
            if key.data[0] == "helper":
                self._read_helper(key.fd, key.data[2])

    def _end(
        self, cause: Cause, message: str, *, code: int | None = None, number: int | None = None, rank: int | None = None
    ) -> None:
        end = Exit(
            cause=cause,
            code=code,
            signal=number,
            rank=rank,
            message=message,
            started=self.started,
            launched=self.launched,
            ended=time.time(),
            usage=self.usage,
        )
        self.say(f"ended: {cause.value}: {message}")
        self._event(events.EXIT, **{k: v for k, v in end.to_json().items() if k != "usage"})
        write_json(self.node.exit, end.to_json())
        self._hint()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
