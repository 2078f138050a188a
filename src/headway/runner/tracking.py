"""The MLflow-compatible endpoint of a run: a loopback socket from the start, a server behind it once somebody connects.

The server (`launch.tracking`) is a process beside the user's: it does not keep a run going and ends with it.
"""

from __future__ import annotations

import os
import signal
import socket

from headway.protocol import names
from headway.runner import processes
from headway.runner.logs import LineSplitter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headway.protocol.launch import Launch
    from headway.runner.loop import Loop
    from headway.runner.report import Report

#: what the user's processes find
URI, TOKEN = "MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_TOKEN"
#: number of the listening socket that the server finds open
FD = "HEADWAY_TRACKING_FD"
#: how often one that died is started again
RESTARTS = 5


class Tracking:
    """Bound at once, so that the user's processes know where; nothing else is done before the first connection."""

    def __init__(self, launch: Launch, index: int, folder: str, loop: Loop, report: Report) -> None:
        """index: of this node. Raises OSError."""
        self._index = index
        self._launch, self._folder, self._loop, self._report = launch, folder, loop, report
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(64)
        self._token = os.urandom(16).hex()
        self._outputs: dict[int, LineSplitter] = {}
        self._left = RESTARTS
        self.pid: int | None = None
        self._wait()

    @property
    def environment(self) -> dict[str, str]:
        """Variables of the user's processes."""
        return {URI: f"http://127.0.0.1:{self._socket.getsockname()[1]}", TOKEN: self._token}

    def _wait(self) -> None:
        self._waiting = os.dup(self._socket.fileno())
        self._loop.add(self._waiting, self._start)

    def _start(self, fd: int) -> None:
        """Somebody connects: the server takes it from here, the socket is inherited."""
        self._loop.remove(fd)
        self._socket.setblocking(True)  # the loop's own way of waiting is not the server's
        outputs = processes.Outputs()
        environment = {
            **os.environ,
            **self.environment,
            FD: str(self._socket.fileno()),
            names.RUN: str(self._launch.run),
            names.ATTEMPT: self._launch.attempt,
            names.NODE_RANK: str(self._index),
            names.ATTEMPT_PATH: os.path.realpath(self._folder),
            names.CHANNEL: os.path.join(self._report.sockets, "channel"),
            **{key: value for key in (names.OUTPUT_PATH,) if (value := self._launch.environment.get(key))},
        }
        assert self._launch.tracking is not None
        try:
            keep = (self._socket.fileno(),)
            self.pid = outputs.spawn(self._launch.tracking, environment, self._folder, keep=keep)
        except OSError as error:
            self._report.say(f"the tracking endpoint could not be started: {error.strerror}")
            return
        for output in (outputs.out, outputs.err):
            self._outputs[output] = LineSplitter()
            self._loop.add(output, self._read)

    def _read(self, fd: int) -> None:
        try:
            block = os.read(fd, 1 << 16)
        except BlockingIOError:
            return
        splitter = self._outputs[fd]
        self._report.diagnose(splitter.feed(block) if block else splitter.end(), "h")
        if not block:
            del self._outputs[fd]
            self._loop.remove(fd)

    def ended(self, code: int) -> None:
        """Its process was waited for. The next connection starts another."""
        self.pid = None
        for fd in list(self._outputs):
            self._read(fd)
            if self._outputs.pop(fd, None):
                self._loop.remove(fd)
        if code and self._left:
            self._report.say(f"the tracking endpoint ended with {code} and is started again when it is needed")
        if self._left:
            self._left -= 1
            self._wait()

    def finish(self) -> None:
        """Asks it to hand over what it has and to end."""
        self._left = 0
        if self.pid is not None:
            processes.signal_group(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        self._left = 0
        if self.pid is not None:
            processes.kill(self.pid)
