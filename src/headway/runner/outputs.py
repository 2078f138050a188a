"""What a process prints, read so that it is not held up: whole lines out; a flood is thinned out, and says so.

Blocks are handled as blocks: in lines of ordinary length far more than 100 MB/s pass whole. Who prints faster than we
can take it, however busy machine and disk are, is not slowed down for longer than `PATIENCE`: from then on only a
sample of its lines is kept, the newest always among them, and the log says how many are left out.
"""

from __future__ import annotations

import os
import time

from headway.runner.logs import LineSplitter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headway.runner.journal import Slot
    from headway.runner.loop import Loop

#: bytes taken from a pipe at once
BLOCK = 1 << 16
#: bytes in a pipe that may be full: pages that writes did not fill count as well
FULL = BLOCK - BLOCK // 8
#: seconds of our own work for which we may be behind before lines are left out, and seconds by the clock: on a busy
#: machine who prints gets as little done as we do, on a slow disk we alone are late
PATIENCE, LATEST = 1.0, 10.0
#: bytes a second that a flood has at least; full pipes that come more slowly are bursts of just that size
FLOOD = 4e6
#: while lines are left out: seconds between two samples, and bytes that are thrown away in one turn
SAMPLE_SECONDS = 0.05
TURN_BYTES = 1 << 24
#: bytes of lines that wait to be looked through for metrics; of more, the oldest are not looked at
BACKLOG_BYTES = 32 << 20


class Backlog:
    """Text that was logged and is still to be looked through, which may take longer than its writer is kept waiting."""

    def __init__(self) -> None:
        self._texts: list[bytes] = []
        self._size = 0
        #: lines that were given up
        self.given_up = 0

    def __bool__(self) -> bool:
        return bool(self._texts)

    def add(self, text: bytes) -> None:
        self._texts.append(text)
        self._size += len(text)
        while self._size > BACKLOG_BYTES:
            oldest = self._texts.pop(0)
            self._size -= len(oldest)
            self.given_up += oldest.count(b"\n")

    def take(self) -> bytes:
        """The next whole lines, about `BLOCK` bytes of them; b"" when nothing waits."""
        size = count = 0
        for text in self._texts:
            if count and size + len(text) > BLOCK:
                break
            size, count = size + len(text), count + 1
        block = b"".join(self._texts[:count])
        del self._texts[:count]
        self._size -= size
        return block


class Output:
    """The reading end of one output."""

    def __init__(self, loop: Loop, slot: Slot | None = None) -> None:
        """slot: where what is read is safe until `commit`, should we be killed."""
        self._loop, self._slot = loop, slot
        self._splitter = LineSplitter()
        #: since when each look found a full pipe (monotonic); None: the last did not
        self._behind: float | None = None
        #: our own work until then, s; bytes read since then
        self._worked, self._taken = 0.0, 0
        #: bytes a second that we could take when lines began to be left out: a flood that has less is over
        self._able = 0.0
        #: when the last sample was taken while lines are left out; 0.0: none are
        self._sampled = 0.0
        #: since then: the newest block, all bytes read, and what of them is left out
        self._last, self._size = b"", 0
        self._left_out = self._left_out_bytes = 0
        #: the line in which the newest block begins, up to there; whether that line is left out, being a long one
        self._begun, self._within = b"", False
        #: lines and bytes left out before the text that `read` gave last
        self.skipped = 0
        self.skipped_bytes = 0

    def read(self, fd: int) -> bytes | None:
        """Whole lines, each with its newline (b"" when none is complete); None at the end, after which `rest` holds."""
        self.skipped = self.skipped_bytes = 0
        if self._sampled:
            return self._thin(fd)
        try:
            block = os.read(fd, BLOCK) if self._slot is None else self._slot.read(fd)
        except BlockingIOError:
            return b""
        if not block:
            return None
        if len(block) < FULL:
            self._behind = None
            self._loop.rest(fd, len(block))
        else:
            self._full(len(block), time.monotonic())
        return self._splitter.whole(block)

    def _full(self, size: int, now: float) -> None:
        """The pipe was full: lines are left out from now on, if it has been so for too long."""
        worked = time.process_time()
        if self._behind is None:
            self._behind, self._worked, self._taken = now, worked, 0
            return
        self._taken += size
        since = now - self._behind
        if worked - self._worked > PATIENCE or since > LATEST:
            self._behind, self._able = None, self._taken / since
            self._sampled = now if self._able > FLOOD else 0.0

    def commit(self) -> None:
        """What `read` gave is in the log."""
        if self._slot is not None:
            self._slot.commit(self._splitter.begun)

    def notice(self) -> str:
        """What is to be said before that text; "" when nothing is missing."""
        if not self.skipped_bytes:
            return ""
        return f"{self.skipped} lines ({self.skipped_bytes} bytes) are left out here: they came too quickly"

    def rest(self) -> bytes:
        """What stood at the end without a newline, with one."""
        return self._splitter.rest()

    def _thin(self, fd: int) -> bytes | None:
        """Throws away all but the last block; that of each `SAMPLE_SECONDS` is given, and the last one of all."""
        size, ended = 0, False
        while size < TURN_BYTES:
            try:
                block = os.read(fd, BLOCK)
            except BlockingIOError:
                break
            if not block:
                ended = True
                break
            self._leave_out(self._last)
            self._last = block
            size += len(block)
        self._size += size
        now = time.monotonic()
        if not ended and now < self._sampled + SAMPLE_SECONDS:
            self._loop.again(fd, self._sampled + SAMPLE_SECONDS)
            return b""
        return self._sample(now) if self._last or not ended else None

    def _leave_out(self, block: bytes) -> None:
        """All but the line that was begun at its end, so that the newest line can be given whole."""
        text = self._begun + block
        end = text.rfind(b"\n") + 1
        self._within = self._within and not end
        if self._within or len(text) - end > BLOCK:
            self._within, end = True, len(text)
        self._left_out += text.count(b"\n")
        self._left_out_bytes += end
        self._begun = text[end:]

    def _sample(self, now: float) -> bytes:
        calm = self._size < self._able * (now - self._sampled)
        block, self._last, self._size = self._begun + self._last, b"", 0
        if self._left_out_bytes:
            # the line that was begun before is not whole
            self._splitter.rest()
            cut = block.find(b"\n") + 1 if self._within else 0
            self.skipped, self.skipped_bytes = self._left_out + (cut > 0), self._left_out_bytes + cut
            self._left_out = self._left_out_bytes = 0
            block = block[cut:]
        self._begun, self._within = b"", False
        self._sampled = 0.0 if calm else now
        return self._splitter.whole(block)
