"""Logs of a run: its attempts' files, read one after another as one log; those of several nodes merged by time.

A cursor is "<attempt>:<offset>", of several nodes "<attempt>:<offset>,<offset>,..."; the empty one is the beginning.
Lines of attempt 2 follow those of attempt 1. A request looks through a bounded part of a log: where a page says `more`,
the next one goes on behind its cursor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from headway.errors import UsageError
from headway.protocol import logs as files
from headway.protocol.files import AttemptFolder, LogLine
from headway.rules.access import Action, Caller
from headway.rules.states import ENDED_RUNS
from headway.services import access
from headway.services.context import Services
from headway.services.log_search import (
    ALL,
    STREAMS,
    BackReader,
    Budget,
    Filter,
    Found,
    Reader,
    choose,
    earliest,
    latest,
    make_filter,
)
from headway.wire.runs import LogLineView, LogPage

__all__ = ["ALL", "KINDS", "MOST", "USUAL", "Filter", "Log", "check_cursor", "download", "grown", "make_filter",
           "open_log", "page", "read"]  # fmt: skip

KINDS = ("run", "diag")
#: most lines of one page, and how many when none is asked for
MOST, USUAL = 10_000, 1_000


@dataclass(frozen=True)
class Log:
    """One run's log as it is known now."""

    root: Path
    run: int
    #: how many nodes each attempt has
    nodes: tuple[int, ...]
    kind: str
    #: whether nothing can follow what is on disk
    ended: bool

    @property
    def attempts(self) -> int:
        return len(self.nodes)

    def paths(self, number: int) -> list[Path]:
        """The log of each node of that attempt."""
        folder = AttemptFolder.of(self.root, f"{self.run}-{number}")
        nodes = [folder.node(index) for index in range(self.nodes[number - 1])]
        return [node.run_log if self.kind == "run" else node.diag_log for node in nodes]


def open_log(ctx: Services, caller: Caller, run_id: int, kind: str) -> Log:
    """Raises UsageError for an unknown kind, NotFoundError, ForbiddenError."""
    if kind not in KINDS:
        raise UsageError(f"kind: {kind!r} is no log.", "Known: run, diag.")
    with ctx.store.read() as tx:
        run, _ = access.run(tx, caller, run_id, Action.VIEW)
        counts = {a.number: max(1, len(a.placement)) for a in tx.runs.attempts(run_id)} if run.attempts else {}
    nodes = tuple(counts.get(number, 1) for number in range(1, run.attempts + 1))
    return Log(ctx.root, run.id, nodes, kind, run.state in ENDED_RUNS)


def page(
    ctx: Services,
    caller: Caller,
    run_id: int,
    *,
    kind: str = "run",
    after: str = "",
    limit: int = USUAL,
    tail: int | None = None,
    want: Filter = ALL,
) -> LogPage:
    """Wanted lines behind `after` (at most `limit`), or with `tail` the last so many of them."""
    log = open_log(ctx, caller, run_id, kind)
    return read(log, after, limit, want) if tail is None else last(log, tail, want)


class _Walk:
    """Through a run's attempts, forwards."""

    def __init__(self, log: Log, after: str, want: Filter) -> None:
        self._log, self._want = log, want
        self.number, offsets = _position(log, after)
        self._readers = self._open(offsets) if log.attempts else []

    def _open(self, offsets: list[int]) -> list[Reader]:
        paths = self._log.paths(self.number)
        return [Reader(path, offset, self._want) for path, offset in zip(paths, offsets, strict=True)]

    @property
    def cursor(self) -> str:
        return _cursor(self._log, self.number, [reader.position for reader in self._readers] or [0])

    @property
    def at_end(self) -> bool:
        """Whether all that is there now was read."""
        return self.number >= self._log.attempts and all(reader.done for reader in self._readers)

    @property
    def complete(self) -> bool:
        """Whether nothing can follow."""
        past = bool(self._readers) and all(reader.past for reader in self._readers)
        return self.at_end and (self._log.ended or past)

    def look(self, budget: Budget) -> None:
        """Looks whether there are more lines, without going on to another attempt."""
        choose(self._readers, earliest, budget)

    def lines(self, limit: int, budget: Budget) -> Iterator[LogLine]:
        """At most `limit` lines; fewer at the end and when the budget is spent. `cursor` is behind each."""
        while limit > 0 and self._readers:
            index = choose(self._readers, earliest, budget)
            if index is not None:
                limit -= 1
                yield self._readers[index].take().line
            elif all(reader.done for reader in self._readers) and self.number < self._log.attempts:
                self.number += 1
                self._readers = self._open([0] * self._log.nodes[self.number - 1])
            else:
                return


def read(log: Log, after: str, limit: int, want: Filter = ALL) -> LogPage:
    """One page. Raises UsageError for a cursor that is none of this run's."""
    walk, budget = _Walk(log, after, want), Budget()
    lines = [_view(line, f"{log.run}-{walk.number}", walk.cursor) for line in walk.lines(limit, budget)]
    if len(lines) == limit:
        walk.look(budget)  # a full page may have been the last one
    return LogPage(lines=lines, cursor=walk.cursor, complete=walk.complete, more=bool(log.attempts) and not walk.at_end)


def last(log: Log, count: int, want: Filter = ALL) -> LogPage:
    """The last `count` lines; with a filter those of them that stand in the part that one request looks through."""
    budget, found, after = Budget(), list[LogLineView](), ""
    for number in range(log.attempts, 0, -1):
        readers = [BackReader(path, want) for path in log.paths(number)]
        after = after or _cursor(log, number, [reader.end for reader in readers])
        taken: list[tuple[int, Found]] = []
        while len(taken) + len(found) < count and (index := choose(readers, latest, budget)) is not None:
            taken.append((index, readers[index].take()))
        found = _forwards(log, number, readers, taken[::-1]) + found
        if len(found) >= count or budget.spent:
            break
    return LogPage(lines=found, cursor=after or _cursor(log, 1, [0]), complete=log.ended)


def _forwards(log: Log, number: int, readers: list[BackReader], taken: list[tuple[int, Found]]) -> list[LogLineView]:
    """Lines in order, each with the cursor behind it."""
    offsets = [reader.end for reader in readers]
    for index, one in reversed(taken):
        offsets[index] = one.start
    views = []
    for index, one in taken:
        offsets[index] = one.behind
        views.append(_view(one.line, f"{log.run}-{number}", _cursor(log, number, offsets)))
    return views


def grown(log: Log, after: str) -> bool:
    """Whether there are bytes behind the cursor: without reading, for those who wait."""
    number, offsets = _position(log, after)
    if number < log.attempts:
        return True
    return bool(log.attempts) and any(map(files.grown, log.paths(number), offsets))


def _view(line: LogLine, attempt: str, cursor: str) -> LogLineView:
    return LogLineView(
        time=line.time,
        rank=line.rank,
        stream=STREAMS.get(line.stream, line.stream),
        text=line.text,
        attempt=attempt,
        cursor=cursor,
    )


# -- cursors


def _cursor(log: Log, number: int, offsets: list[int]) -> str:
    return f"{log.run}-{number}:{','.join(map(str, offsets))}"


def _position(log: Log, cursor: str) -> tuple[int, list[int]]:
    """The attempt and the offset in each of its nodes' logs. Raises UsageError."""
    if not cursor:
        return 1, [0] * (log.nodes[0] if log.nodes else 1)
    attempt, _, rest = cursor.partition(":")
    run, _, digits = attempt.partition("-")
    words = rest.split(",")
    if run == str(log.run) and all(w.isascii() and w.isdigit() and len(w) < 19 for w in (digits, *words)):
        number = max(1, int(digits))
        nodes = log.nodes[number - 1] if number <= log.attempts else 1
        if number <= max(1, log.attempts) and len(words) <= nodes:
            return number, [*map(int, words), *[0] * (nodes - len(words))]
    raise UsageError(
        f"after: {cursor!r} is no position in the log of run {log.run}.", "Give a cursor that an earlier answer held."
    )


def check_cursor(log: Log, cursor: str) -> None:
    """Raises UsageError for a cursor that is none of this run's."""
    _position(log, cursor)


# -- as a file

_PREFIX = re.compile(rb"^(\d+)(\.\d+) (\d+) ([oeh]) ", re.MULTILINE)
#: lines and bytes of one piece of a download
_PIECE_LINES, _PIECE_BYTES = 5_000, 4 << 20


def download(log: Log, want: Filter = ALL, *, raw: bool = False) -> Iterator[bytes]:
    """The log up to now, in pieces: lines `<UTC time> <rank> <stream> <text>`, or with `raw` the text alone."""
    walk = _Walk(log, "", want)
    while True:
        lines = walk.lines(_PIECE_LINES, Budget(_PIECE_BYTES))
        if piece := b"".join([line.render().encode("utf-8", "replace") for line in lines]):
            yield _render(piece, raw)
        if walk.at_end or not log.attempts:
            return


def _render(data: bytes, raw: bool) -> bytes:
    if raw:
        return _PREFIX.sub(b"", data)
    seconds: dict[bytes, bytes] = {}

    def spoken(found: re.Match[bytes]) -> bytes:
        whole, part, rank, stream = found.groups()
        if whole not in seconds:
            seconds[whole] = datetime.fromtimestamp(int(whole), timezone.utc).strftime("%Y-%m-%dT%H:%M:%S").encode()
        return b"%s%sZ %s %s " % (seconds[whole], part, rank, STREAMS[stream.decode()].encode())

    return _PREFIX.sub(spoken, data)
