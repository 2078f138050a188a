"""Where each rank stands: printed into the diagnostic log before a run that hangs is ended.

Imported only then. The printer (py-spy) runs as a child of ours, one process at a time, each with a time limit.
"""

from __future__ import annotations

import os
import time

from headway.runner import processes
from headway.runner.logs import LineSplitter
from headway.runner.processes import Outputs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headway.runner.loop import Loop
    from headway.runner.report import Report

#: for one process, and for all of them
ONE_SECONDS, ALL_SECONDS = 10.0, 30.0
#: processes that are looked at; a gang that forked hundreds of loaders says the same hundreds of times
MOST = 32


class Stacks:
    """Prints the stacks of processes, one after another. `done` once that is over."""

    def __init__(self, command: list[str] | None, pids: dict[int, int], loop: Loop, report: Report) -> None:
        """command: printer before a process id; None: only what the kernel says. pids: process id -> rank."""
        self._command, self._loop, self._report = command, loop, report
        self._left = list(pids.items())[:MOST]
        self._outputs: dict[int, LineSplitter] = {}
        self._until = time.monotonic() + ALL_SECONDS
        self.pid: int | None = None
        self.due = self._until
        self.done = False
        self._next()

    def _next(self) -> None:
        while self._left:
            pid, rank = self._left.pop(0)
            self._report.say(f"rank {rank}, process {pid}: {_state(pid)}")
            if self._command is None or time.monotonic() >= self._until or processes.stat(pid) is None:
                continue
            outputs = Outputs()
            try:
                self.pid = outputs.spawn([*self._command, str(pid)], dict(os.environ), "/")
            except OSError as error:
                self._report.say(f"stacks cannot be printed: {self._command[0]}: {error.strerror}")
                self._command = None
                continue
            self.due = min(self._until, time.monotonic() + ONE_SECONDS)
            for fd in (outputs.out, outputs.err):
                self._outputs[fd] = LineSplitter()
                self._loop.add(fd, self._read)
            return
        self.done = True

    def _read(self, fd: int) -> bool:
        try:
            block = os.read(fd, 1 << 16)
        except BlockingIOError:
            return False
        splitter = self._outputs[fd]
        self._report.diagnose(splitter.feed(block) if block else splitter.end(), "h")
        if not block:
            self._close(fd)
        return bool(block)

    def _close(self, fd: int) -> None:
        del self._outputs[fd]
        self._loop.remove(fd)

    def tick(self, now: float) -> None:
        if self.pid is not None and now >= self.due:
            self._report.say("the stacks of this process could not be printed in time")
            processes.kill(self.pid)
            self.due = now + ONE_SECONDS

    def ended(self) -> None:
        """The printer was waited for."""
        for fd in list(self._outputs):
            while fd in self._outputs and self._read(fd):
                pass
            if fd in self._outputs:
                self._close(fd)
        self.pid = None
        self._next()


def _state(pid: int) -> str:
    """What the kernel knows: running or sleeping, and in which call."""
    fields = processes.stat(pid)
    if fields is None:
        return "gone"
    try:
        with open(f"/proc/{pid}/wchan", encoding="ascii") as file:
            where = file.read().strip("0\n")
    except OSError:
        where = ""
    words = {b"R": "running", b"S": "sleeping", b"D": "waiting for a device", b"T": "stopped"}
    state = words.get(fields[0], fields[0].decode("ascii", "replace"))
    return f"{state} in {where}" if where else state
