"""What was taken out of the pipes and is not in run.log yet, in memory that the keeper shares.

A runner that is killed between reading a block and writing its lines, or that holds the first half of a line, loses
neither: the block is read straight into shared memory, and stays valid there until its lines are in the log. The steps
are ordered so that the keeper can tell, whenever the runner died, what is in the log, in the memory, and in the pipe.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from struct import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: most bytes taken from a pipe at once, and longest begun line that is kept
BLOCK = REST = 1 << 16
#: outputs that it has room for; those of further ranks are read as if there were no keeper
MOST = 248
_IDLE, _READING, _HAVE = 0, 1, 2
#: state; output, length, which of its two rests was valid, end of the log: all before the block
_FLIGHT = Struct("<IIIQ")
_FLIGHT_AT = 4
#: of each output: which of its two rests is valid; lengths of both
_SIZES = Struct("<II")
_DATA = 4096
_RESTS = _DATA + BLOCK
#: no text: stands where a block will be, and is gone once it was read
_NOTHING = b"\xfe\xf9\xff\xfd" * 4
_FIONREAD = 0x541B


def _head(output: int) -> int:
    return 64 + output * 16


def _rest(output: int, which: int) -> int:
    return _RESTS + (2 * output + which) * REST


class Journal:
    """The runner's side. Its memory (`fd`) takes room only where it is used."""

    def __init__(self, outputs: int, end: Callable[[], int]) -> None:
        """outputs: how many at most. end: gives the offset behind the last line of the log. Raises OSError."""
        self.fd = os.memfd_create("headway-journal")
        self._room, self._end, self._count = min(outputs, MOST), end, 0
        size = _rest(self._room, 0)
        os.ftruncate(self.fd, size)
        self.memory = mmap.mmap(self.fd, size)
        self.view = memoryview(self.memory)

    def slot(self) -> Slot | None:
        """For one more output; None when there is no room for it."""
        if self._count >= self._room:
            return None
        self._count += 1
        return Slot(self, self._count - 1, self._end)


class Slot:
    """One output's part of the journal: `read`, put the lines into the log, `commit`."""

    def __init__(self, journal: Journal, output: int, end: Callable[[], int]) -> None:
        self._memory, self._view, self._end = journal.memory, journal.view, end
        self.output = output
        self._which = 0

    def read(self, fd: int) -> bytes:
        """As `os.read`. Raises BlockingIOError."""
        memory = self._memory
        # nobody else reads it: what is there now is what will be read
        size = min(int.from_bytes(fcntl.ioctl(fd, _FIONREAD, b"\0\0\0\0"), "little"), BLOCK) or 1
        memory[_DATA : _DATA + len(_NOTHING)] = _NOTHING
        _FLIGHT.pack_into(memory, _FLIGHT_AT, self.output, size, self._which, self._end())
        memory[0] = _READING
        try:
            got = os.readv(fd, [self._view[_DATA : _DATA + size]])
        except BlockingIOError:
            memory[0] = _IDLE
            raise
        memory[0] = _HAVE if got else _IDLE
        return memory[_DATA : _DATA + got]

    def commit(self, rest: bytes) -> None:
        """All lines are in the log but for the begun one."""
        memory, head = self._memory, _head(self.output)
        if rest or memory[head + 4 + 4 * self._which]:
            other = 1 - self._which
            size = len(rest) if len(rest) <= REST else 0
            at = _rest(self.output, other)
            memory[at : at + size] = rest[:size]
            memory[head + 4 + 4 * other : head + 8 + 4 * other] = size.to_bytes(4, "little")
            memory[head] = self._which = other
        memory[0] = _IDLE


class Found:
    """The keeper's side, after the runner's death."""

    def __init__(self, fd: int) -> None:
        """Raises OSError."""
        self._memory = mmap.mmap(fd, os.fstat(fd).st_size)
        #: output whose block is in the memory and perhaps not in the log; None: there is none
        self.output: int | None = None
        self.block = b""
        #: where the log ended before that block
        self.end = 0
        #: whether its lines are in the log already
        self.done = False
        self._flight()

    def _flight(self) -> None:
        memory = self._memory
        if memory[0] == _IDLE:
            return
        output, size, which, end = _FLIGHT.unpack_from(memory, _FLIGHT_AT)
        block = memory[_DATA : _DATA + size]
        if memory[0] == _READING and block[: len(_NOTHING)] == _NOTHING[:size]:
            return  # it is still in the pipe
        self.output, self.block, self.end = output, block, end
        # its begun line is the one from before
        memory[_head(output)] = which

    def rest(self, output: int) -> bytes:
        """The line that had begun before the block, or before what is in the pipe."""
        head = _head(output)
        which = self._memory[head]
        size = _SIZES.unpack_from(self._memory, head + 4)[which]
        at = _rest(output, which)
        return self._memory[at : at + size]
