"""How run.log and diag.log are read: lines, and the files that make one log.

A log is the file itself (its head) and, once that is full, segments named `<name>.<offset>` by the byte of the whole
log at which they start. Of the segments only the newest are kept, so there may be a gap behind the head. An offset
into the whole log stays valid: a reader in the gap goes on behind it, and is told what is missing. Every file but the
newest ends with a whole line.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: bytes read at once
BLOCK = 1 << 20
#: how often the files are listed anew when one was removed between the list and the reading
_TRIES = 10


@dataclass(frozen=True)
class LogLine:
    """One line of run.log or diag.log: `<seconds.micro> <rank> <stream> <text>`, separated by single spaces.

    stream: `o` stdout, `e` stderr, `h` headway's own words (diagnostic log; rank 0).
    """

    time: float
    rank: int
    stream: str
    text: str

    def render(self) -> str:
        return f"{self.time:.6f} {self.rank} {self.stream} {self.text}\n"

    @classmethod
    def parse(cls, line: str) -> LogLine:
        """A line that was not written by a runner is kept as text with time 0."""
        head, _, rest = line.partition(" ")
        rank, _, rest = rest.partition(" ")
        stream, _, text = rest.partition(" ")
        try:
            return cls(float(head), int(rank), stream, text)
        except ValueError:
            return cls(0.0, 0, "h", line)


@dataclass(frozen=True)
class Segment:
    """One file of a log; `start`: the offset of its first byte in the whole log."""

    start: int
    path: Path


@dataclass(frozen=True)
class Block:
    """Complete lines of a log, each with its newline. `start`: offset of the first; `dropped`: bytes missing before."""

    data: bytes
    start: int
    dropped: int = 0

    @property
    def end(self) -> int:
        return self.start + len(self.data)


def segments(path: Path) -> list[Segment]:
    """The files of the log `path`, in order; the first is `path` itself, whether or not it is there yet."""
    found = [Segment(0, path)]
    prefix = f"{path.name}."
    try:
        names = os.listdir(path.parent)
    except OSError:
        return found
    for name in names:
        if name.startswith(prefix) and (start := name[len(prefix) :]).isascii() and start.isdigit():
            found.append(Segment(int(start), path.parent / name))
    found.sort(key=lambda segment: segment.start)
    return found


def end_of(path: Path) -> int:
    """The offset behind the last complete line of the log; 0 when there is none."""
    for _ in range(_TRIES):
        last = segments(path)[-1]
        try:
            with open(last.path, "rb") as file:
                end = file.seek(0, 2)
                while end > 0:
                    size = min(BLOCK // 16, end)
                    data = os.pread(file.fileno(), size, end - size)
                    if (at := data.rfind(b"\n")) >= 0:
                        return last.start + end - size + at + 1
                    end -= size
                return last.start
        except FileNotFoundError:
            if not last.start:
                break
    return 0


def grown(path: Path, offset: int) -> bool:
    """Whether there are bytes behind `offset`: without reading, for those who wait."""
    last = segments(path)[-1]
    try:
        return last.start + last.path.stat().st_size > offset
    except OSError:
        return bool(last.start)


def read_block(path: Path, offset: int, limit: int = BLOCK) -> Block:
    """Complete lines from `offset` on, about `limit` bytes of them; an empty block at the log's end.

    A line longer than `limit` is read whole. A missing file reads as empty.
    """
    for _ in range(_TRIES):
        try:
            return _read(segments(path), offset, limit)
        except FileNotFoundError:
            continue  # removed since it was listed; what follows is there
    return Block(b"", offset)


def _read(files: list[Segment], offset: int, limit: int) -> Block:
    first = offset
    at, dropped = bisect_right(files, offset, key=lambda segment: segment.start) - 1, 0
    for index in range(at, len(files)):
        segment = files[index]
        if index > at:
            dropped += segment.start - offset
            offset = segment.start
        try:
            data = _complete(segment.path, offset - segment.start, limit)
        except FileNotFoundError:
            if segment.start:
                raise
            data = b""
        if data:
            return Block(data, offset, dropped)
    return Block(b"", first)


def _complete(path: Path, offset: int, limit: int) -> bytes:
    with open(path, "rb") as file:
        file.seek(offset)
        data = file.read(limit)
        if data and b"\n" not in data:
            data += file.readline()
    return data[: data.rfind(b"\n") + 1]


def back_blocks(path: Path, end: int, limit: int = BLOCK) -> Iterator[Block]:
    """The log from offset `end` (the end of a line) backwards: the last lines first. `dropped` as in `Block`.

    Stops where a file was removed meanwhile.
    """
    files = segments(path)
    for index in range(len(files) - 1, -1, -1):
        start = files[index].start
        if start >= end and index:
            continue
        try:
            with open(files[index].path, "rb") as file:
                size = min(file.seek(0, 2), end - start)
                before = files[index - 1] if index else None
                while size > 0:
                    data = _before(file.fileno(), size, limit)
                    size -= len(data)
                    dropped = 0
                    if before is not None and size <= 0:
                        dropped = max(0, start - before.start - before.path.stat().st_size)
                    yield Block(data, start + size, dropped)
        except FileNotFoundError:
            return
        end = start


def _before(fd: int, end: int, limit: int) -> bytes:
    """Bytes up to `end` that begin with the beginning of a line: about `limit`, more where a line is longer."""
    size = min(limit, end)
    while True:
        data = os.pread(fd, size, end - size)
        if size >= end:
            return data
        # the byte before a line is the newline of the one before it
        if 0 <= (at := data.find(b"\n")) < len(data) - 1:
            return data[at + 1 :]
        size = min(2 * size, end)


def find_time(path: Path, when: float) -> int:
    """The offset of the first line that is not older than `when`: by halving, not by reading. Times rise in a log.

    With a clock that was set back, near enough.
    """
    files = segments(path)
    low, high = 0, len(files)
    while low < high:
        middle = (low + high) // 2
        first = _time_at(files[middle].path, 0)
        if first is not None and first < when:
            low = middle + 1
        else:
            high = middle
    if not low:
        return files[0].start
    segment = files[low - 1]
    try:
        size = segment.path.stat().st_size
    except OSError:
        size = 0
    start, end = 0, size
    while start < end:
        middle = (start + end) // 2
        line = _line_at(segment.path, middle)
        if line is not None and line[1] < when:
            start = line[0]
        else:
            end = middle
    return segment.start + start


def _time_at(path: Path, offset: int) -> float | None:
    """The time of the line at `offset`; None when there is no whole one."""
    line = _complete_line(path, offset)
    return None if line is None else LogLine.parse(line.decode("utf-8", "replace")).time


def _line_at(path: Path, offset: int) -> tuple[int, float] | None:
    """Of the line in which the byte `offset` lies or that begins there: where it ends, and its time."""
    back = max(0, offset - BLOCK)  # longer than any line of a runner
    try:
        with open(path, "rb") as file:
            file.seek(back)
            start = back + file.read(offset - back).rfind(b"\n") + 1
    except OSError:
        return None
    line = _complete_line(path, start)
    if line is None:
        return None
    return start + len(line), LogLine.parse(line.decode("utf-8", "replace")).time


def _complete_line(path: Path, offset: int) -> bytes | None:
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            line = file.readline()
    except OSError:
        return None
    return line if line.endswith(b"\n") else None


def dropped_notice(count: int, when: float) -> LogLine:
    """What stands where the middle of a log is missing. when: seconds, of the line behind it."""
    text = f"[headway] {count} bytes of the middle are dropped here: beyond its limit a log keeps its head and its tail"
    return LogLine(when, 0, "h", text)


def log_lines(path: Path, offset: int = 0) -> Iterator[tuple[LogLine, int]]:
    """Each complete line from `offset` on with the offset behind it."""
    while block := read_block(path, offset):
        if not block.data:
            return
        offset = block.start
        for raw in block.data[:-1].split(b"\n"):
            line = LogLine.parse(raw.decode("utf-8", "replace"))
            if block.dropped and offset == block.start:
                yield dropped_notice(block.dropped, line.time), offset
            offset += len(raw) + 1
            yield line, offset
