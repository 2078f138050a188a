"""`headway.log`: metric values to the runner, through a pipe that outlives the script and never holds it up.

Nothing is kept back in the script: once `log` returns the values are in the pipe, and no crash loses them. Each write
is at most PIPE_BUF bytes of whole lines, which the kernel takes as one: threads and forked processes need no lock.
"""

from __future__ import annotations

import json
import os
import select
import time
from math import isfinite

from headway.protocol import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: bytes that a pipe takes as one, and no longer line is sent
MOST = 4096
#: seconds that a full pipe is waited for; then values are thrown away, and for the next seconds without waiting
PATIENCE, SULK = 0.05, 1.0


class Pipe:
    """The writing end of the runner's pipe at `<channel>.points`."""

    def __init__(self, channel: str, patience: float = PATIENCE, sulk: float = SULK) -> None:
        """Raises OSError."""
        self.channel, self._patience, self._sulk = channel, patience, sulk
        # for reading too: without a runner it fills up, and no write raises SIGPIPE in a script that takes it
        self._fd = os.open(f"{channel}.points", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._sulks_until = 0.0
        #: points that were thrown away and are not told yet
        self.dropped = 0

    def send(self, lines: list[str]) -> None:
        """Lines, each with its newline. What does not fit within `PATIENCE` is counted in `dropped`. Never raises."""
        if count := self.dropped:
            self.dropped -= count
            self._send(b'{"dropped": %d}\n' % count, count)
        block = "".join(lines).encode()
        if len(block) <= MOST:
            self._send(block, len(lines))
            return
        block, count = b"", 0
        for line in map(str.encode, lines):
            if len(block) + len(line) > MOST:
                self._send(block, count)
                block, count = b"", 0
            block, count = block + line, count + 1
        self._send(block, count)

    def _send(self, block: bytes, count: int) -> None:
        if count and not (len(block) <= MOST and self._write(block)):
            self.dropped += count

    def _write(self, block: bytes) -> bool:
        until = 0.0
        while True:
            try:
                os.write(self._fd, block)
                return True
            except BlockingIOError:
                pass
            except OSError:
                return False
            now = time.monotonic()
            until = until or now + self._patience
            if now < self._sulks_until:
                return False
            if now >= until:
                self._sulks_until = now + self._sulk
                return False
            poll = select.poll()
            poll.register(self._fd, select.POLLOUT)
            poll.poll((until - now) * 1000)


_pipe: Pipe | None = None
#: metric -> its name as JSON
_quoted: dict[str, str] = {}
#: step of the call before
_step = 0


def log(step: int | None = None, **metrics: float) -> None:
    """Reports metric values at `step` (None: that of the call before, 0 at first). Outside headway: prints them.

    Takes microseconds, from any thread and any forked process, and raises nothing but for a value that is no number
    (TypeError, ValueError). When the runner does not keep up, values are dropped after a moment, and the runner's
    diagnostic log says how many. A tensor on an accelerator is waited for, as `float(tensor)` does.
    """
    global _step
    _step = at = _step if step is None else int(step)
    values = {name: float(value) for name, value in metrics.items()}
    send(values, at)


def send(values: dict[str, float], step: int) -> None:
    """The same for values that are floats."""
    pipe = _opened()
    if pipe is None:
        for name, value in values.items():
            print(f"step={step} {name}={value}", flush=True)
        return
    end = f', "rank": {_rank()}, "t": {time.time():.6f}}}\n'
    try:
        # one text for all of them, as thousands a second may come
        lines = [f'{{"step": {step}, "name": {_quoted[n]}, "value": {v!r}{end}' for n, v in values.items()]
    except KeyError:
        _learn(values)
        lines = [f'{{"step": {step}, "name": {_quoted[n]}, "value": {v!r}{end}' for n, v in values.items()]
    if not all(map(isfinite, values.values())):
        lines = [f'{{"step": {step}, "name": {_quoted[n]}, "value": {json.dumps(v)}{end}' for n, v in values.items()]
    pipe.send(lines)


def point(step: int, name: str, value: float, end: str) -> str:
    """A line of metrics.jsonl. end: what stands behind the value, rank and time, with the newline."""
    return f'{{"step": {step}, "name": {json.dumps(name)}, "value": {json.dumps(value)}{end}'


def _learn(metrics: Iterable[str]) -> None:
    if len(_quoted) > MOST:
        _quoted.clear()
    _quoted.update({name: json.dumps(name) for name in metrics})


def _opened() -> Pipe | None:
    """The pipe; None outside headway, and where its runner is gone or older than this."""
    global _pipe
    channel = os.environ.get(names.CHANNEL)
    if not channel:
        return None
    if _pipe is None or _pipe.channel != channel:
        try:
            _pipe = Pipe(channel)
        except OSError:
            return None
    return _pipe


def _rank() -> int:
    try:
        return int(os.environ.get(names.RANK, "0"))
    except ValueError:
        return 0
