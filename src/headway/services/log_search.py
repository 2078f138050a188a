"""Looking for lines in one node's log, forwards and backwards, a bounded piece at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf, nextafter
from pathlib import Path

from headway.errors import UsageError
from headway.protocol.logs import Block, LogLine, back_blocks, dropped_notice, end_of, find_time, read_block
from headway.rules import expressions
from headway.rules.nearest import unknown

STREAMS = {"o": "out", "e": "err", "h": "headway"}
#: what one request looks through at most, bytes and seconds; then it answers with what it has
MOST_BYTES, MOST_SECONDS = 256 << 20, 0.5
#: bytes read at once: little for a page of lines, much for a search
_SMALL, _LARGE = 1 << 18, 1 << 20
_LONGEST_GREP = 500


@dataclass(frozen=True)
class Filter:
    """Which lines are wanted; None: all. since, until: seconds since the epoch, both inclusive."""

    since: float | None = None
    until: float | None = None
    rank: int | None = None
    #: as in the file: o, e, h
    stream: str | None = None
    #: lower-cased when `fold`; in UTF-8
    needle: bytes | None = None
    fold: bool = False
    expression: expressions.Expression | None = None

    @property
    def whole(self) -> bool:
        """Whether every line of the time range is wanted."""
        return self.rank is None and self.stream is None and self.needle is None and self.expression is None

    def fits(self, line: LogLine) -> bool:
        """All but the time range and the needle."""
        return (
            (self.rank is None or line.rank == self.rank)
            and (self.stream is None or line.stream == self.stream)
            and (self.expression is None or self.expression.found(line.text))
        )


ALL = Filter()


def make_filter(
    grep: str = "",
    since: float | None = None,
    until: float | None = None,
    rank: int | None = None,
    stream: str | None = None,
) -> Filter:
    """grep: text, or a regular expression between slashes. Text in lower case finds capitals as well.

    Raises UsageError.
    """
    letter = None
    if stream is not None:
        letter = next((key for key, name in STREAMS.items() if name == stream), None)
        if letter is None:
            raise unknown("stream", stream, STREAMS.values())
    if since is not None and until is not None and since > until:
        raise UsageError(f"since: {since:g} is later than until, {until:g}.", "Exchange them.")
    if len(grep) > _LONGEST_GREP:
        raise UsageError(f"grep: {len(grep)} characters are too many.", f"Use at most {_LONGEST_GREP}.")
    if "\n" in grep:
        raise UsageError("grep: no line holds a line break.", "Look for what stands in one line.")
    needle, expression = None, None
    if len(grep) > 2 and grep[0] == grep[-1] == "/":
        expression = expressions.bounded(grep[1:-1], "grep")
    elif grep:
        needle = grep.encode("utf-8", "replace")
    fold = needle is not None and grep == grep.lower()
    return Filter(since, until, rank, letter, needle, fold, expression)


@dataclass
class Budget:
    """What is left of one request's work."""

    left: int = MOST_BYTES
    deadline: float = field(default_factory=lambda: time.monotonic() + MOST_SECONDS)

    def spend(self, size: int) -> None:
        self.left -= size

    @property
    def spent(self) -> bool:
        return self.left <= 0 or time.monotonic() > self.deadline


@dataclass(frozen=True)
class Found:
    line: LogLine
    #: offset of the line, and behind it
    start: int
    behind: int


def _search(block: Block, want: Filter) -> Iterator[Found]:
    """The lines of a block that are wanted, whatever their time."""
    data, start = block.data, block.start
    for begin, end in _hits(data, want) if want.needle is not None else _bounds(data):
        line = LogLine.parse(data[begin:end].decode("utf-8", "replace"))
        if want.needle is not None and not _holds(line.text, want):
            continue  # it stands in the time before the text
        if want.fits(line):
            yield Found(line, start + begin, start + end + 1)


def _bounds(data: bytes) -> Iterator[tuple[int, int]]:
    begin = 0
    while begin < len(data):
        end = data.index(b"\n", begin)
        yield begin, end
        begin = end + 1


def _hits(data: bytes, want: Filter) -> Iterator[tuple[int, int]]:
    """Lines that hold the needle: whole blocks are searched, not lines."""
    assert want.needle is not None
    hay = data.lower() if want.fold else data
    at = 0
    while (at := hay.find(want.needle, at)) >= 0:
        end = data.index(b"\n", at)
        yield data.rfind(b"\n", 0, at) + 1, end
        at = end + 1


def _holds(text: str, want: Filter) -> bool:
    assert want.needle is not None
    raw = text.encode("utf-8", "replace")
    return want.needle in (raw.lower() if want.fold else raw)


def _first_time(block: Block) -> float:
    return LogLine.parse(block.data[: block.data.index(b"\n")].decode("utf-8", "replace")).time


class Reader:
    """One node's log from an offset on: `look` at the next line that is wanted, then `take` it."""

    def __init__(self, path: Path, offset: int, want: Filter) -> None:
        self._path, self._want = path, want
        if want.since is not None and not offset:
            offset = find_time(path, want.since)
        #: where to go on: before the line that `look` gave, or behind all that was looked through
        self.position = offset
        self._read_to = offset
        self._lines: Iterator[Found] = iter(())
        self._next: Found | None = None
        #: nothing more is there now; `past`: nor will there be, as the lines are later than wanted
        self.done = self.past = False
        self._size = _SMALL if want.whole else _LARGE

    def look(self, budget: Budget) -> Found | None:
        """The next line; None at the end (`done`) and when the budget is spent."""
        while self._next is None:
            self._next = next(self._lines, None)
            if self._next is None:
                self.position = self._read_to
                if self.done or budget.spent or not self._read(budget):
                    return None
            elif self._late(self._next.line.time):
                self.position, self._next, self._lines = self._next.start, None, iter(())
                self._read_to = self.position
                return None
            elif self._want.since is not None and self._next.line.time < self._want.since:
                self._next = None
            else:
                self.position = self._next.start
        return self._next

    def take(self) -> Found:
        found, self._next = self._next, None
        assert found is not None
        self.position = found.behind
        return found

    def _late(self, when: float) -> bool:
        if self._want.until is not None and when > self._want.until:
            self.done = self.past = True
        return self.past

    def _read(self, budget: Budget) -> bool:
        block = read_block(self._path, self._read_to, self._size)
        if not block.data:
            self.done = True
            return False
        first = _first_time(block)
        if self._late(first):
            return False
        budget.spend(len(block.data))
        self._lines = _search(block, self._want)
        if block.dropped and self._want.whole:
            self._lines = _after(Found(dropped_notice(block.dropped, first), self._read_to, block.start), self._lines)
        self._read_to = block.end
        return True


def _after(first: Found, others: Iterator[Found]) -> Iterator[Found]:
    yield first
    yield from others


class BackReader:
    """One node's log from its end backwards."""

    def __init__(self, path: Path, want: Filter) -> None:
        self._want = want
        #: where the log ended when it was opened
        self.end = end_of(path)
        end = self.end if want.until is None else find_time(path, nextafter(want.until, inf))
        self._blocks = back_blocks(path, min(end, self.end), _SMALL if want.whole else _LARGE)
        self._lines: list[Found] = []
        self.done = False

    def look(self, budget: Budget) -> Found | None:
        """The last line before those taken; None at the beginning (`done`) and when the budget is spent."""
        while not self._lines and not self.done:
            if budget.spent:
                return None
            block = next(self._blocks, None)
            if block is None:
                self.done = True
            else:
                budget.spend(len(block.data))
                self._lines = list(_search(block, self._want))
                if block.dropped and self._want.whole:
                    notice = dropped_notice(block.dropped, _first_time(block))
                    self._lines.insert(0, Found(notice, block.start - block.dropped, block.start))
        if self._lines and self._want.since is not None and self._lines[-1].line.time < self._want.since:
            self._lines.clear()
            self.done = True
        return self._lines[-1] if self._lines else None

    def take(self) -> Found:
        return self._lines.pop()


Pick = Callable[[list[tuple[Found, int]]], tuple[Found, int]]


def earliest(found: list[tuple[Found, int]]) -> tuple[Found, int]:
    return min(found, key=lambda one: (one[0].line.time, one[1]))


def latest(found: list[tuple[Found, int]]) -> tuple[Found, int]:
    return max(found, key=lambda one: (one[0].line.time, one[1]))


def choose(readers: Sequence[Reader | BackReader], pick: Pick, budget: Budget) -> int | None:
    """The node whose line comes next; None when there is none, or the budget ended before that was known."""
    found = []
    for index, reader in enumerate(readers):
        if (one := reader.look(budget)) is not None:
            found.append((one, index))
        elif not reader.done:
            return None
    return pick(found)[1] if found else None
