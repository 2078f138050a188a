"""The helper process beside the user's: what it says, and starting it again when it dies.

One JSON object a line: `{"log": text}`, `{"event": {...}}`, `{"prepared": true}`, `{"error": text}`. It is told
`finish` on its stdin, and takes the end of stdin for our death.
"""

from __future__ import annotations

import json
import os
import sys
import time

from headway.protocol.causes import Cause
from headway.runner.logs import LineSplitter
from headway.runner.processes import Outputs, kill

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from headway.runner.loop import Loop
    from headway.runner.report import Report

#: what lists of processes show of one that was forked
NAME = "headway-helper"
#: how often one that died is started again
RESTARTS = 5
#: seconds before the second restart, twice that before the third, ...
BACKOFF = 0.5
#: how long one that says much is left alone: each look at it makes others look too
REST_SECONDS = 0.2


class Helper:
    """Started at once. After each turn of the loop look at `prepared` and `failure`."""

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str],
        cwd: str,
        loop: Loop,
        report: Report,
        take_points: Callable[[list[Any], Any], None] | None = None,
    ) -> None:
        self._command, self._environment, self._cwd = command, environment, cwd
        self._loop, self._report = loop, report
        self._stdin: int | None = None
        self._outputs: dict[int, tuple[str, LineSplitter]] = {}
        self._starts = 0
        self._error = ""
        self._finishing = False
        self.pid: int | None = None
        #: monotonic time of its next start; None while it runs or will not be started again
        self.again_at: float | None = None
        #: all is ready for the user's processes
        self.prepared = False
        #: (cause, sentence) once it cannot do its work
        self.failure: tuple[Cause, str] | None = None
        #: takes metric points that it found, and a mark to be kept with them
        self.take_points = take_points
        self._start()

    @property
    def busy(self) -> bool:
        """Whether it runs or will run again."""
        return self.pid is not None or self.again_at is not None

    def _start(self) -> None:
        self._starts += 1
        outputs = Outputs()
        theirs, self._stdin = os.pipe2(os.O_CLOEXEC)
        try:
            self.pid = self._process(outputs, theirs)
        except OSError as error:
            self._close_stdin()
            self.failure = (Cause.PREPARE_FAILED, f"the helper could not be started: {error.strerror}.")
            return
        finally:
            os.close(theirs)
        for fd, stream in ((outputs.out, "o"), (outputs.err, "e")):
            self._outputs[fd] = (stream, LineSplitter())
            self._loop.add(fd, self._read)
        if self._finishing:
            self._tell_finish()

    def _process(self, outputs: Outputs, stdin: int) -> int:
        # once: what it died of may lie in what it was given
        if self._starts == 1 and (call := _loaded(self._command)) is not None:
            return outputs.fork(call, NAME, self._environment, self._cwd, stdin)
        return outputs.spawn(self._command, self._environment, self._cwd, stdin)

    def tick(self, now: float) -> None:
        if self.again_at is not None and now >= self.again_at:
            self.again_at = None
            self._start()

    def finish(self) -> None:
        """Asks it to publish what is left and to end."""
        self._finishing = True
        self._tell_finish()

    def kill(self) -> None:
        """Ends it at once and for good."""
        self._starts = RESTARTS + 1
        self.again_at = None
        if self.pid is not None:
            kill(self.pid)

    def _tell_finish(self) -> None:
        if self._stdin is not None:
            try:
                os.write(self._stdin, b"finish\n")
            except OSError:
                pass  # it died; the next one is told at its start

    def _close_stdin(self) -> None:
        if self._stdin is not None:
            os.close(self._stdin)
            self._stdin = None

    def _read(self, fd: int) -> bool:
        """Whether there may be more."""
        stream, splitter = self._outputs[fd]
        try:
            block = os.read(fd, 1 << 16)
        except BlockingIOError:
            return False
        lines = splitter.feed(block) if block else splitter.end()
        if not block:
            del self._outputs[fd]
            self._loop.remove(fd)
        if stream == "e":
            self._report.diagnose(lines, "e")
        else:
            for line in lines:
                self._hear(line)
            self._report.flush()
            if block and self.prepared:
                self._loop.rest(fd, len(block), REST_SECONDS)
        return bool(block)

    def _hear(self, line: bytes) -> None:
        try:
            said = json.loads(line)
        except ValueError:
            said = None
        if not isinstance(said, dict):
            self._report.diagnose([line], "o")
        elif "log" in said:
            self._report.say(str(said["log"]))
        elif isinstance(said.get("event"), dict):
            fields = dict(said["event"])
            self._report.note(str(fields.pop("event", "helper")), **fields)
        elif isinstance(said.get("points"), list):
            if self.take_points is not None:
                self.take_points(said["points"], said.get("mark"))
        elif "error" in said:
            self._error = str(said["error"])
            self._report.say(self._error)
        elif said.get("prepared"):
            self.prepared = True

    def ended(self, status: int) -> None:
        """Its process was waited for. What it said last is heard first."""
        for fd in list(self._outputs):
            while fd in self._outputs and self._read(fd):
                pass
            # a process that it started may hold the pipe open for ever
            if self._outputs.pop(fd, None):
                self._loop.remove(fd)
        code = os.waitstatus_to_exitcode(status)
        self.pid = None
        self._close_stdin()
        if code == 0 and self.prepared:
            return
        if code > 0 and not self.prepared:
            self.failure = (Cause.PREPARE_FAILED, self._error or f"the helper ended with {code} before all was ready.")
        elif self._starts > RESTARTS:
            self._report.say(
                f"the helper ended with {code} at its start number {self._starts} and is not started again"
            )
            cause = Cause.RUNNER_LOST if self.prepared else Cause.PREPARE_FAILED
            self.failure = (cause, "the helper died again and again.")
        else:
            self._report.say(f"the helper ended with {code} and is started again")
            self.again_at = time.monotonic() + BACKOFF * (self._starts - 1)


def _loaded(command: list[str]) -> Callable[[], int] | None:
    """What `PYTHON -I -m MODULE ...` does, where the starter has loaded that module (see `starter`)."""
    if command[:3] != [sys.executable, "-I", "-m"]:
        return None
    program = getattr(sys.modules.get(f"{command[3]}.__main__"), "main", None)
    if program is None:
        return None

    def call() -> int:
        sys.argv = command[3:]
        return int(program())

    return call
