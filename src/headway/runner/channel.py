"""What a script tells its runner: points through a pipe, events through a datagram socket; both end in our files.

The pipe is a FIFO `<channel>.points`, of whole lines as they stand in metrics.jsonl. It holds a megabyte, so that a
script never waits for us, many lines cost us one read, and what a process wrote is there however it ended. A line
`{"dropped": n}` says that a script threw away n points because the pipe was full.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import time
from math import isfinite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from headway.runner.logs import Appended
    from headway.runner.loop import Loop
    from headway.runner.report import Report

    Point = tuple[int, str, float]

#: bytes taken at once
BLOCK = 1 << 18
#: sizes of the pipe, the first that the system grants
SIZES = (1 << 20, 1 << 18)
#: datagrams taken in one turn; then others have theirs
MOST = 1000
#: a finite point as `script.metrics` writes it: a block of these is known to be whole without being parsed
_OURS = re.compile(
    rb'\{"step": -?\d{1,18}, "name": "[^"\\\x00-\x1f\x7f-\xff]*", "value": -?\d+\.\d+(?:e[-+]?\d+)?, '
    rb'"rank": \d{1,9}, "t": \d{1,12}\.\d{6}\}\n'
)


class Channel:
    """Both ways in, and the writer of metrics.jsonl. Made before the user's processes are."""

    def __init__(self, report: Report, metrics: Appended, loop: Loop) -> None:
        """Raises OSError."""
        self._report, self._metrics, self._loop = report, metrics, loop
        #: told (step, name, value) of each point; for limits that depend on them
        self.hear: Callable[[list[Point]], None] | None = None
        #: whether `hear` looks at the points; it is told of nothing but that some came otherwise
        self.hears_values = True
        self._step = 0
        #: metric -> what stands between its step and its value
        self._heads: dict[str, str] = {}
        self._rest = b""
        path = os.path.join(report.sockets, "channel")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(path)
        loop.add(self._socket.fileno(), self._on_datagrams)
        os.mkfifo(f"{path}.points", 0o600)
        # for writing too: the pipe keeps what it holds, and never is at its end, while no script has it open
        self._pipe = os.open(f"{path}.points", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        for size in SIZES:
            try:
                fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, size)
                break
            except (OSError, AttributeError):
                continue
        loop.add(self._pipe, self._on_points)

    # -- metrics.jsonl

    def write(self, points: list[Point]) -> None:
        """Points of rank 0, now."""
        # written by hand, as thousands a second may come
        end, heads = f', "rank": 0, "t": {time.time():.6f}}}\n', self._heads
        try:
            block = "".join([f'{{"step": {s}{heads[n]}{v!r}{end}' for s, n, v in points])
        except KeyError:
            if len(heads) > MOST:
                heads.clear()
            heads.update({n: f', "name": {json.dumps(n)}, "value": ' for _, n, _ in points})
            block = "".join([f'{{"step": {s}{heads[n]}{v!r}{end}' for s, n, v in points])
        if not all(isfinite(v) for _, _, v in points):
            block = "".join([f'{{"step": {s}{heads[n]}{json.dumps(v)}{end}' for s, n, v in points])
        self._metrics.append(block.encode())
        if self.hear is not None:
            self.hear(points)

    def take(self, raw: list[Any], mark: Any = None) -> None:
        """Points `{"step", "name", "value", "rank", "t"}` of the helper. mark: kept with them, all or nothing."""
        points = [point for one in raw if (point := self._point(one))]
        lines = [json.dumps(point) + "\n" for point in points]
        if mark is not None:
            lines.append(json.dumps({"mark": mark}) + "\n")
        self._metrics.append("".join(lines).encode())
        if points and self.hear is not None:
            self.hear([(p["step"], p["name"], p["value"]) for p in points])

    # -- the pipe

    def _on_points(self, fd: int) -> None:
        try:
            block = os.read(fd, BLOCK)
        except BlockingIOError:
            return
        if len(block) < BLOCK:
            # eight times as roomy as the pipe of an output
            self._loop.rest(fd, len(block) // 8)
        block = self._rest + block
        end = block.rfind(b"\n") + 1
        self._rest = block[end:] if len(block) - end <= BLOCK else b""
        if end:
            self._take_lines(block[:end])

    def _take_lines(self, block: bytes) -> None:
        """Lines that are points go into the file as they are; if one is not, each is looked at by itself."""
        if not self.hears_values and not _OURS.sub(b"", block):
            self._metrics.append(block)
            if self.hear is not None:
                self.hear([])
            return
        try:
            # one call of the parser for all of them
            found = json.loads(b"[" + block[:-1].replace(b"\n", b",") + b"]")
            points = [(one["step"], one["name"], one["value"]) for one in found]
            whole = all(
                type(v) is float and type(s) is int and type(n) is str and "t" in one and "rank" in one
                for (s, n, v), one in zip(points, found, strict=True)
            ) and len(found) == block.count(b"\n")
        except (ValueError, TypeError, KeyError, RecursionError):
            whole = False
        if not whole:
            self._take_singly(block)
        else:
            self._metrics.append(block)
            if self.hear is not None:
                self.hear(points)

    def _take_singly(self, block: bytes) -> None:
        points = []
        for line in block.split(b"\n"):
            try:
                said = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(said, dict) and isinstance(said.get("dropped"), int):
                self._report.say(
                    f"{said['dropped']} metric points were thrown away: they came quicker than we took them"
                )
            elif isinstance(said, dict):
                points.append(said)
        self.take(points)

    # -- the socket

    def _on_datagrams(self, _: int) -> None:
        points = []
        for _ in range(MOST):
            try:
                said = json.loads(self._socket.recv(BLOCK))
            except OSError:
                break
            except (ValueError, RecursionError):
                continue
            if not isinstance(said, dict):
                continue
            if isinstance(said.get("metric"), dict):
                points.append(said["metric"])
            elif isinstance(said.get("event"), dict):
                fields = dict(said["event"])
                self._report.event(str(fields.pop("event", "script")), **fields)
        if points:
            self.take(points)

    def _point(self, raw: Any) -> dict[str, Any] | None:
        """A point as metrics.jsonl has it; one without a step is at the step before, one without a time is of now."""
        try:
            step, when = raw.get("step"), raw.get("t")
            self._step = self._step if step is None else int(step)
            when = time.time() if when is None else float(when)
            value, rank = float(raw["value"]), int(raw.get("rank") or 0)
            return {"t": when, "step": self._step, "name": str(raw["name"]), "value": value, "rank": rank}
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            return None

    # -- the end

    def drain(self) -> None:
        """Takes what is still there; for when the user's processes have ended."""
        self._on_datagrams(0)
        while True:
            try:
                block = self._rest + os.read(self._pipe, BLOCK)
            except BlockingIOError:
                return
            end = block.rfind(b"\n") + 1
            self._rest = block[end:]
            if end:
                self._take_lines(block[:end])
