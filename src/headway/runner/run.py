"""One attempt on one node, from claim to exit.json.

A single thread around one loop: what is readable is read, what is due is done. Every fact goes to a file at once. What
the user's first line need not wait for (metrics, samples) is imported after the user's processes were started.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from types import SimpleNamespace

from headway.protocol import events, layout, names
from headway.protocol.causes import Cause
from headway.runner import processes
from headway.runner.gang import Gang
from headway.runner.logs import LogFile
from headway.runner.loop import Loop
from headway.runner.report import ClaimedError, Report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from headway.protocol.launch import Launch
    from headway.runner.helper import Helper

HEARTBEAT_SECONDS = 3.0
USAGE_SECONDS = 5.0
#: less free space than this is a full disk
FULL_BYTES = 64 << 10
#: how often memory is looked at where it is limited
MEMORY_SECONDS = 1.0
#: how long the output of processes that cannot be killed is waited for
DEAF_SECONDS = 5.0
#: a helper that finishes after a stop has this long, or the grace period if that is longer
FINISH_SECONDS = 10.0


def read_launch(path: str) -> Launch:
    """The launch as it was written, every field there. Raises ValueError, OSError.

    Not `Launch.from_json`: dataclasses are a tenth of a runner's start.
    """
    raw = layout.read_json(path)
    if not isinstance(raw, dict):
        raise ValueError("it is missing, or no JSON object")
    if raw.get("version") != layout.LAUNCH_VERSION:
        raise ValueError(f"it has version {raw.get('version')!r}; this runner reads {layout.LAUNCH_VERSION}")
    launch: Any = SimpleNamespace(**raw)
    return launch  # type: ignore[no-any-return]


class Runner:
    """`Runner(folder, index).main()` returns when exit.json is there (or another runner has the attempt)."""

    def __init__(self, folder: str, index: int) -> None:
        self.folder = folder
        self.index = index
        self.loop = Loop()
        self.cause: Cause | None = None
        self.message = ""
        #: monotonic time after which everything left is killed
        self.kill_at: float | None = None
        self.deaf_at: float | None = None
        self.stop_seen = False
        self.helper: Helper | None = None
        self.gang: Gang | None = None

    # -- beginning

    def main(self) -> None:
        self._take_signals()
        try:
            self.report = Report(os.path.join(self.folder, layout.node(self.index)))
        except ClaimedError:
            return
        try:
            self._detach()
            self._read_and_run()
        finally:
            self.report.close()

    def _take_signals(self) -> None:
        """Before the claim: whoever reads our identity may ask us to stop from then on."""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        self.loop.add(read, self._on_signals)

    def _detach(self) -> None:
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        processes.adopt_orphans()

    def _read_and_run(self) -> None:
        report = self.report
        try:
            self.launch = read_launch(os.path.join(self.folder, layout.LAUNCH))
        except (ValueError, OSError) as error:
            report.event(events.STARTED)
            self._end(Cause.NOT_STARTED, f"launch.json cannot be read: {error}.")
            return
        report.hints, report.attempt = self.launch.hints, self.launch.attempt
        report.event(events.STARTED)
        report.beat()
        try:
            self._run()
        except Exception as error:
            # a fault of ours, or a disk that takes no more files: the attempt ends with a word, never silently
            import traceback

            report.say(traceback.format_exc())
            self._kill_tree()
            self._end(
                self.cause or (Cause.RUNNER_LOST if self.gang and self.gang.launched else Cause.PREPARE_FAILED),
                self.message or f"the runner could not go on: {type(error).__name__}: {error}.",
            )

    # -- the loop

    def _run(self) -> None:
        now = time.monotonic()
        self.beat_at, self.usage_at, self.memory_at = now + HEARTBEAT_SECONDS, now + USAGE_SECONDS, now
        run_log = LogFile(self.report.path(layout.RUN_LOG), self.launch.log_limit)
        self.gang = Gang(self.launch, self.index, self.loop, self.report, run_log)
        self._check_asked()
        #: folder whose first file calls for the helper; None: it is needed at once, or not at all
        self.helper_waits_for: str | None = self.launch.plan.get("wait_for") if self.launch.helper else None
        if self.cause is None and self.launch.helper and self.helper_waits_for is None:
            self._start_helper()
        elif self.cause is None:
            if self.helper_waits_for is not None:
                os.makedirs(self.helper_waits_for, exist_ok=True)
            self._launch()
        self._describe()
        while not self._over():
            self._turn()
        self._finish()

    def _describe(self) -> None:
        disk = os.statvfs(self.folder)
        self.report.say(
            f"attempt {self.launch.attempt} on {os.uname().nodename}: {os.cpu_count()} CPUs, "
            f"{disk.f_bavail * disk.f_frsize >> 20} MiB of disk free, runner on Python {sys.version.split()[0]}"
        )

    def _over(self) -> bool:
        assert self.gang is not None
        if self.gang.pids or self.gang.outputs:
            return False
        return self.cause is not None or self.gang.launched is not None

    def _turn(self) -> None:
        assert self.gang is not None
        due = [self.beat_at, self.usage_at]
        due += [at for at in (self.kill_at, self.deaf_at, self._limit_at()) if at is not None]
        if self.launch.memory_bytes is not None and self.gang.pids:
            due.append(self.memory_at)
        if self.helper is not None and self.helper.again_at is not None:
            due.append(self.helper.again_at)
        self.loop.turn(min(due))
        self._reap()
        self._tick(time.monotonic())

    def _limit_at(self) -> float | None:
        """When the time limit is reached; None when it does not count (any more)."""
        if self.launch.max_duration is None or self.cause is not None or not self.gang or not self.gang.pids:
            return None
        return self.gang.launched_clock + self.launch.max_duration

    def _tick(self, now: float) -> None:
        if now >= self.beat_at:
            self.beat_at = now + HEARTBEAT_SECONDS
            self.report.beat()
            self.report.flush()
            self._check_asked()
            self._check_folder()
            self._call_helper()
        if now >= self.usage_at:
            self.usage_at = now + USAGE_SECONDS
            self._sample()
        if self.launch.memory_bytes is not None and now >= self.memory_at:
            self.memory_at = now + MEMORY_SECONDS
            self._check_memory(self.launch.memory_bytes)
        if (limit := self._limit_at()) is not None and now >= limit:
            text = f"ran for its limit of {self.launch.max_duration:g} s."
            self._ask_to_end(Cause.TIME_LIMIT, text, self.launch.grace)
        if self.kill_at is not None and now >= self.kill_at:
            self.kill_at, self.deaf_at = None, time.monotonic() + DEAF_SECONDS
            self._kill_tree()
        if self.deaf_at is not None and now >= self.deaf_at and self.gang is not None:
            self.deaf_at = None
            self.gang.deafen()
        if self.helper is not None:
            self.helper.tick(now)
            self._look_at_helper(self.helper)

    def _on_signals(self, fd: int) -> None:
        numbers = os.read(fd, 4096)
        # something may have ended: what it said last is wanted now
        self.loop.wake()
        if signal.SIGTERM in numbers or signal.SIGINT in numbers:
            self._check_asked(signalled=True)

    # -- the user's processes

    def _launch(self) -> None:
        assert self.gang is not None
        try:
            self.gang.start()
        except OSError as error:
            self.cause, self.message = Cause.NOT_STARTED, f"{error.filename!r} could not be started: {error.strerror}."
            self.report.say(self.message)
            self._kill_tree()
            return
        self.report.event(events.LAUNCHED, pids=list(self.gang.pids))

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self.helper is not None and pid == self.helper.pid:
                self.helper.ended(status)
            elif self.gang is not None:
                self._follow(self.gang, self.gang.ended(pid, os.waitstatus_to_exitcode(status), usage))

    def _follow(self, gang: Gang, failed: bool) -> None:
        """After a process ended: the others of a gang in which one failed, and what the last one left, are ended."""
        if failed and gang.pids and self.cause is None:
            self.report.say(f"rank {gang.failure and gang.failure[0]} failed; the other ranks are ended")
            gang.signal(signal.SIGTERM)
            self._kill_by(gang.GRACE)
        if gang.launched is not None and not gang.pids and gang.outputs and self.deaf_at is None:
            # a process in the background holds our pipes open; it must not outlive the run
            self._kill_by(0.0)

    def _kill_by(self, seconds: float) -> None:
        at = time.monotonic() + seconds
        self.kill_at = at if self.kill_at is None else min(self.kill_at, at)

    def _kill_tree(self) -> None:
        """Kills what the user's processes started to the last one, whatever group or session it is in."""
        helper = self.helper.pid if self.helper is not None else None
        for _ in range(200):
            left = processes.tree(os.getpid(), helper)
            if not left and not (helper is None and processes.childless()):
                left = processes.tree(os.getpid(), helper, thorough=True)
            if not left:
                return
            for pid in left:
                processes.kill(pid)
            time.sleep(0.002)
            self._reap()
            helper = self.helper.pid if self.helper is not None else None
        self.report.say(f"processes {left} do not end")

    # -- asked to end

    def _check_asked(self, *, signalled: bool = False) -> None:
        """Looks at the fence and at stop.json."""
        try:
            with open(os.path.join(self.folder, layout.FENCE), encoding="ascii") as file:
                later = int(file.read())
        except (OSError, ValueError):
            later = 0
        if later > self.launch.number:
            self._ask_to_end(Cause.FENCED, f"attempt {later} of this run has taken over.", 0.0)
        if self.stop_seen and not signalled:
            return
        try:
            asked = layout.read_json(os.path.join(self.folder, layout.STOP))
        except (OSError, ValueError):
            asked = None
        if not isinstance(asked, dict):
            if not signalled:
                return
            asked = {}
        grace = asked.get("grace")
        seconds = float(grace) if isinstance(grace, (int, float)) else self.launch.grace
        if self.stop_seen:
            # asked once more: only a shorter grace period changes anything
            if self.kill_at is not None:
                self._kill_by(seconds)
            return
        self.stop_seen = True
        try:
            cause = Cause(asked.get("cause"))
        except ValueError:
            cause = Cause.STOPPED
        self._ask_to_end(cause, str(asked.get("message") or "asked to stop."), seconds)

    def _check_folder(self) -> None:
        """An attempt whose folder was removed can be neither seen nor stopped any more: it ends by itself."""
        if not os.path.isdir(self.folder):
            self._ask_to_end(Cause.STOPPED, "the attempt's folder was removed.", self.launch.grace)

    def _ask_to_end(self, cause: Cause, message: str, grace: float) -> None:
        gang = self.gang
        if self.cause is not None or gang is None or gang.failure is not None:
            return
        if gang.launched is not None and not gang.pids:
            return  # it ended by itself; only its outputs are being published
        self.cause, self.message = cause, message
        self.report.say(f"{message} SIGTERM now, SIGKILL after {grace:g} s")
        with open(os.path.join(self.report.sockets, "stop"), "wb"):
            pass
        self.report.event(events.STOPPING, cause=cause.value, grace=grace)
        gang.signal(signal.SIGTERM)
        self._kill_by(grace)

    # -- the helper

    def _appeared(self) -> bool:
        assert self.helper_waits_for is not None
        try:
            return bool(os.listdir(self.helper_waits_for))
        except FileNotFoundError:
            return False

    def _call_helper(self) -> None:
        """Starts the helper that was waited with, once there is work for it."""
        if self.helper_waits_for is not None and self.helper is None and self._appeared():
            self._start_helper()

    def _start_helper(self) -> None:
        from headway.runner.helper import Helper

        assert self.launch.helper is not None
        environment = {
            **os.environ,
            names.ATTEMPT: self.launch.attempt,
            names.ATTEMPT_PATH: os.path.realpath(self.folder),
            names.HELPER: os.path.join(self.report.sockets, "helper"),
        }
        command = [*self.launch.helper, self.folder]
        self.helper = Helper(command, environment, self.folder, self.loop, self.report)
        self._look_at_helper(self.helper)

    def _look_at_helper(self, helper: Helper) -> None:
        assert self.gang is not None
        if helper.failure is not None and self.cause is None:
            cause, message = helper.failure
            if self.gang.launched is not None:
                self._ask_to_end(cause, message, self.launch.grace)
            else:
                self.cause, self.message = cause, message
        elif helper.prepared and self.gang.launched is None and self.cause is None:
            self.report.event(events.PREPARED)
            self._launch()

    def _finish_helper(self, helper: Helper) -> None:
        """Lets it publish what is left. After a stop it does not wait for ever."""
        helper.finish()
        patience = max(FINISH_SECONDS, self.launch.grace)
        until = time.monotonic() + patience if self.cause is not None else None
        while helper.busy:
            self._turn()
            if self.stop_seen and until is None:
                until = time.monotonic() + patience
            if until is not None and time.monotonic() >= until and helper.pid is not None:
                self.report.say("the helper did not finish in time and is ended")
                helper.kill()
                until += patience

    # -- samples

    def _tree(self) -> list[int]:
        return processes.tree(os.getpid(), self.helper.pid if self.helper is not None else None)

    def _sample(self) -> None:
        from headway.runner import usage

        gang = self.gang
        if gang is None or not gang.pids:
            return
        if not hasattr(self, "_devices"):
            nodes = self.launch.nodes
            mine = nodes[self.index].get("accelerators") or [] if self.index < len(nodes) else []
            self._devices = usage.accelerators(mine)
        line = usage.sample(self._tree(), gang.cpu_seconds, self.folder, self._devices)
        try:
            with open(self.report.path(layout.USAGE), "a", encoding="ascii") as file:
                file.write(json.dumps(line) + "\n")
        except OSError:
            pass

    def _check_memory(self, limit: int) -> None:
        from headway.runner import usage

        if self.gang is None or not self.gang.pids or self.cause is not None:
            return
        used = usage.resident(self._tree())
        if used > limit:
            text = f"used {used >> 20} MiB of memory; its spec has {limit >> 20} MiB."
            self._ask_to_end(Cause.OOM_KILL, text, 0.0)

    # -- the end

    def _finish(self) -> None:
        assert self.gang is not None
        self._kill_tree()
        if self.gang.launched is not None:
            self._call_helper()
        if self.helper is not None:
            if self.helper.prepared or self.gang.launched is not None:
                self._finish_helper(self.helper)
            else:
                self.helper.kill()
        failure = self.gang.failure
        if failure is None and self.cause is None and self.helper is not None and self.helper.failure is not None:
            # the user's part is done, but what it made could not be published
            self.cause, self.message = self.helper.failure
        if self.cause is not None:
            self._end(self.cause, self.message)
            return
        if failure is None:
            self._end(Cause.DONE, "every process returned 0.")
        elif failure[1] < 0:
            self._end(Cause.KILLED, f"rank {failure[0]} died of {_signal_name(-failure[1])}.")
        else:
            words = self.gang.last_words(failure[0])
            end = "." if not words else f": {words}" if words.endswith(".") else f": {words}."
            self._end(Cause.EXIT, f"rank {failure[0]} returned {failure[1]}{end}{self._full()}")

    def _full(self) -> str:
        """A sentence when the disk that the attempt writes to is full: likely why a process failed."""
        disk = os.statvfs(self.folder)
        if disk.f_bavail * disk.f_frsize < FULL_BYTES:
            return f" No space is left under {self.folder}."
        if disk.f_files and disk.f_favail == 0:
            return f" No inode is left under {self.folder}."
        return ""

    def _end(self, cause: Cause, message: str) -> None:
        """Writes an `Exit` (`protocol.exits`)."""
        gang = self.gang
        launched = gang.launched if gang is not None else None
        rank, status = gang.failure if gang is not None and gang.failure is not None else (None, 0)
        facts: dict[str, Any] = {
            "cause": cause.value,
            "code": None if launched is None else status if status >= 0 else 128 - status,
            "signal": -status if status < 0 else None,
            "rank": rank,
            "message": message,
            "started": self.report.started,
            "launched": launched,
            "ended": time.time(),
            "usage": {
                "cpu_seconds": gang.cpu_seconds if gang is not None else 0.0,
                "max_rss_bytes": gang.max_rss_bytes if gang is not None else 0.0,
            },
        }
        self.report.say(f"ended: {cause.value}: {message}")
        self.report.end(facts)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
