"""Columns of metrics.jsonl: each file is read once, as it grows, and a window then costs what it shows.

Columns are kept in memory (the most recently used), and of long files also in `<root>/index/metrics`, as a cache that
may be deleted at any time: written whole and renamed, so that several api processes can share it without a lock.
"""

from __future__ import annotations

import json
import os
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from headway.protocol.files import read_lines
from headway.protocol.layout import write_whole

#: points of which the lowest and the highest are noted
BLOCK = 64
#: points of a file from which on its columns are worth keeping on disk, and how much it must have grown since
WORTH = 100_000
#: points kept in memory over all files
ROOM = 8_000_000
_FORM = 1


class Column:
    """Points of one metric and rank in one file, in the order of the file."""

    def __init__(self, name: str, rank: int) -> None:
        self.name, self.rank = name, rank
        self.steps, self.times, self.values = array("q"), array("d"), array("d")
        #: whether steps rise from point to point; whether times never fall
        self.rising = self.in_time = True
        #: of each whole block: index of its lowest and of its highest value, and these values (infinite: it has none)
        self._low, self._high = array("q"), array("q")
        self._lowest, self._highest = array("d"), array("d")
        self._sorted: tuple[int, Column] | None = None

    def __len__(self) -> int:
        return len(self.steps)

    def add(self, step: int, time: float, value: float) -> None:
        if self.steps:
            self.rising = self.rising and step > self.steps[-1]
            self.in_time = self.in_time and time >= self.times[-1]
        self.steps.append(step)
        self.times.append(time)
        self.values.append(value)

    def tidy(self) -> Column:
        """The same with each step once, the later value of it, in the order of steps."""
        if self.rising:
            return self
        if self._sorted is None or self._sorted[0] != len(self):
            last = {step: n for n, step in enumerate(self.steps)}
            column = Column(self.name, self.rank)
            for step in sorted(last):
                column.add(step, self.times[last[step]], self.values[last[step]])
            self._sorted = (len(self), column)
        return self._sorted[1]

    def extremes(self, start: int, end: int) -> tuple[int, int]:
        """Indices of the lowest and of the highest value of points [start, end); what is no number counts as none."""
        self._note_blocks()
        first, last = -(-start // BLOCK), min(end // BLOCK, len(self._low))
        if first >= last:
            return self._look(start, end)
        # over arrays of numbers, so that a thousand blocks cost microseconds
        lowest, highest = self._lowest[first:last], self._highest[first:last]
        low = self._low[first + lowest.index(min(lowest))]
        high = self._high[first + highest.index(max(highest))]
        for a, b in ((start, first * BLOCK), (last * BLOCK, end)):
            if a < b:
                one, other = self._look(a, b)
                low = min(low, one, key=self.as_low)
                high = max(high, other, key=self.as_high)
        return low, high

    def as_low(self, index: int) -> float:
        value = self.values[index]
        return value if value == value else inf

    def as_high(self, index: int) -> float:
        value = self.values[index]
        return value if value == value else -inf

    def _note_blocks(self) -> None:
        while (len(self._low) + 1) * BLOCK <= len(self):
            start = len(self._low) * BLOCK
            low, high = self._look(start, start + BLOCK)
            self._low.append(low)
            self._high.append(high)
            self._lowest.append(self.as_low(low))
            self._highest.append(self.as_high(high))

    def _look(self, start: int, end: int) -> tuple[int, int]:
        part = self.values[start:end]
        low, high = min(part), max(part)
        # a comparison with what is no number is false, so that it hides what follows; the sum does not overlook it
        if (total := sum(part)) != total:
            numbers = [value for value in part if value == value] or [part[0]]
            low, high = min(numbers), max(numbers)
            if low != low:
                return start, start
        return start + part.index(low), start + part.index(high)


class FileIndex:
    """Columns of one metrics.jsonl. Thread-safe."""

    def __init__(self, path: Path, cache: Path | None) -> None:
        """cache: where its columns are kept when they are long."""
        self._path, self._cache = path, cache
        self.lock = threading.Lock()
        #: (metric, rank) -> its points
        self.columns: dict[tuple[str, int], Column] = {}
        self.points = 0
        self._offset = self._inode = self._saved = 0

    def refresh(self) -> None:
        """Reads what is new. The lock must be held."""
        try:
            status = self._path.stat()
        except OSError:
            return
        if status.st_ino != self._inode or status.st_size < self._offset:
            # another file of that name: its home was made anew
            self.columns, self._offset, self.points, self._saved = {}, 0, 0, 0
            self._inode = status.st_ino
            if self._cache is not None:
                self._load(status.st_size)
        while status.st_size > self._offset:
            lines, after = read_lines(self._path, self._offset)
            if after == self._offset:
                break
            self._offset = after
            self._take(lines)
        if self._cache is not None and self.points >= WORTH and self.points >= 1.25 * self._saved:
            self._save()

    def _take(self, lines: list[bytes]) -> None:
        try:
            records = json.loads(b"[" + b",".join(lines) + b"]")
        except (ValueError, RecursionError):
            records = list(_each(lines))
        columns = self.columns
        for record in records:
            try:
                key = record["name"], record.get("rank", 0)
                step, time, value = int(record["step"]), float(record["t"]), float(record["value"])
                column = columns.get(key)
                if column is None:
                    if not (isinstance(key[0], str) and isinstance(key[1], int)):
                        continue
                    column = columns[key] = Column(*key)
                column.add(step, time, value)
                self.points += 1
            except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
                continue  # a line that is no point

    # -- on disk

    def _save(self) -> None:
        assert self._cache is not None
        columns = [c for c in self.columns.values() if len(c)]
        head = json.dumps({
            "form": _FORM, "inode": self._inode, "offset": self._offset,
            "columns": [[c.name, c.rank, len(c), c.rising, c.in_time] for c in columns],
        }).encode()  # fmt: skip
        parts = [len(head).to_bytes(8, "little"), head]
        for column in columns:
            parts += [column.steps.tobytes(), column.times.tobytes(), column.values.tobytes()]
        try:
            self._cache.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._cache, b"".join(parts))
        except OSError:
            pass  # a full disk: it is read from its source then
        self._saved = self.points

    def _load(self, size: int) -> None:
        assert self._cache is not None
        try:
            data = memoryview(self._cache.read_bytes())
            at = 8 + int.from_bytes(data[:8], "little")
            head = json.loads(bytes(data[8:at]))
            if head["form"] != _FORM or head["inode"] != self._inode or head["offset"] > size:
                return
            columns: dict[tuple[str, int], Column] = {}
            for name, rank, count, rising, in_time in head["columns"]:
                column = columns[name, rank] = Column(name, rank)
                column.rising, column.in_time = rising, in_time
                for one in (column.steps, column.times, column.values):
                    one.frombytes(data[at : at + 8 * count])
                    at += 8 * count
            if at != len(data):
                return
        except (OSError, ValueError, KeyError, TypeError):
            return
        self.columns, self._offset = columns, head["offset"]
        self.points = self._saved = sum(len(column) for column in columns.values())


def _each(lines: list[bytes]) -> Iterator[Any]:
    for line in lines:
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            continue


class Indexes:
    """The indexes of all files; the least recently used go when there is no room."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._kept: OrderedDict[Path, FileIndex] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, path: Path, cache: Path | None) -> FileIndex:
        with self._lock:
            found = self._kept.get(path)
            if found is None:
                found = self._kept[path] = FileIndex(path, cache)
            self._kept.move_to_end(path)
            total = sum(index.points for index in self._kept.values())
            while total > self._room and len(self._kept) > 1:
                total -= self._kept.popitem(last=False)[1].points
            return found


@dataclass(frozen=True)
class Span:
    """Points [start, end) of a column."""

    column: Column
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


def overlay(columns: list[Column]) -> list[Span]:
    """Columns of one metric and rank, of one attempt after the other, as one series by step.

    Where a later attempt began anew, what an earlier one had from that step on was done again, and is left out.
    """
    spans: list[Span] = []
    limit: float = inf
    for column in reversed([column.tidy() for column in columns if len(column)]):
        end = len(column) if limit == inf else bisect_left(column.steps, int(limit))
        if end:
            spans.append(Span(column, 0, end))
        limit = min(limit, column.steps[0])
    return spans[::-1]


def window(spans: list[Span], first: float | None, last: float | None, by: str) -> list[Span]:
    """The part from `first` to `last`, both included, by step or time."""
    found = []
    for span in spans:
        column = span.column
        places = column.steps if by == "step" else column.times
        if by == "time" and not column.in_time:
            some = [n for n in range(span.start, span.end) if _within(column.times[n], first, last)]
            # in the order of steps, so perhaps not all in one piece
            found += [Span(column, n, n + 1) for n in some]
            continue
        start = span.start if first is None else bisect_left(places, first, span.start, span.end)
        end = span.end if last is None else bisect_right(places, last, start, span.end)
        if start < end:
            found.append(Span(column, start, end))
    return found


def _within(time: float, first: float | None, last: float | None) -> bool:
    return (first is None or time >= first) and (last is None or time <= last)


def sample(spans: list[Span], most: int) -> Iterator[tuple[Column, int]]:
    """At most `most` (at least 4) points of the spans: of each stretch the lowest and the highest, and both ends."""
    total = sum(len(span) for span in spans)
    if total <= most:
        for span in spans:
            for index in range(span.start, span.end):
                yield span.column, index
        return
    stretches = max(1, (most - 2) // 2)
    # a stretch may begin in one span and end in the next
    flat = _joined(spans)
    edges = [_edge(flat, total * n // stretches, total // stretches) for n in range(stretches)] + [total]
    sent: set[tuple[int, int]] = set()
    for n in range(stretches):
        pieces = [(at, s, max(a, s.start), b) for at, s, a, b in _cut(flat, edges[n], edges[n + 1])]
        lows, highs = [], []
        for at, span, a, b in pieces:
            low, high = span.column.extremes(a, b)
            lows.append((at, span.column, low))
            highs.append((at, span.column, high))
        if not pieces:
            continue
        chosen = [min(lows, key=_low_key), max(highs, key=_high_key)]
        if n == 0:
            chosen.append((flat[0][0], spans[0].column, spans[0].start))
        if n == stretches - 1:
            chosen.append((flat[-1][0], spans[-1].column, spans[-1].end - 1))
        for at, column, index in sorted(chosen, key=lambda one: (one[0], one[2])):
            if (at, index) not in sent:
                sent.add((at, index))
                yield column, index


def _low_key(one: tuple[int, Column, int]) -> float:
    return one[1].as_low(one[2])


def _high_key(one: tuple[int, Column, int]) -> float:
    return one[1].as_high(one[2])


def _edge(flat: list[tuple[int, Span]], place: int, length: int) -> int:
    """`place`, or where its block begins if stretches are longer than blocks: whole blocks need no look at points."""
    if length < 2 * BLOCK:
        return place
    at, span = flat[bisect_right(flat, place, key=lambda one: one[0]) - 1]
    inside = span.start + place - at
    return at + max(0, inside - inside % BLOCK - span.start)


def _joined(spans: list[Span]) -> list[tuple[int, Span]]:
    """Each span with the number of points before it."""
    found, at = [], 0
    for span in spans:
        found.append((at, span))
        at += len(span)
    return found


def _cut(flat: list[tuple[int, Span]], start: int, end: int) -> Iterator[tuple[int, Span, int, int]]:
    """Of the points [start, end) over all spans: (points before the span, span, start, end in its column)."""
    first = bisect_right(flat, start, key=lambda one: one[0]) - 1
    for at, span in flat[first:]:
        if at >= end:
            return
        a, b = max(start - at, 0), min(end - at, len(span))
        if a < b:
            yield at, span, span.start + a, span.start + b


def cache_of(root: Path, attempt: str, node: str) -> Path:
    """Where the columns of one file are kept."""
    return root / "index" / "metrics" / attempt / f"{node}.columns"


def sweep(root: Path, attempt: str) -> None:
    """Forgets what is kept on disk of an attempt."""
    folder = root / "index" / "metrics" / attempt
    for path in folder.glob("*"):
        path.unlink(missing_ok=True)
    try:
        os.rmdir(folder)
    except OSError:
        pass
