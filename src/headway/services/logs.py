"""Logs of a run: its attempts' files, read one after another as one log.

A cursor is "<attempt>:<byte offset>"; the empty one is the beginning. Lines of attempt 2 follow those of attempt 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headway.errors import UsageError
from headway.protocol.files import AttemptFolder, LogLine, read_lines
from headway.rules.access import Action, Caller
from headway.rules.states import ENDED_RUNS
from headway.services import access
from headway.services.context import Services
from headway.wire.runs import LogLineView, LogPage

KINDS = ("run", "diag")
#: most lines of one page, and how many when none is asked for
MOST, USUAL = 10_000, 1_000
_STREAMS = {"o": "out", "e": "err", "h": "headway"}
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Log:
    """One run's log as it is known now."""

    root: Path
    run: int
    attempts: int
    kind: str
    #: whether nothing can follow what is on disk
    ended: bool

    def path(self, number: int) -> Path:
        node = AttemptFolder.of(self.root, f"{self.run}-{number}").node()
        return node.run_log if self.kind == "run" else node.diag_log


def open_log(ctx: Services, caller: Caller, run_id: int, kind: str) -> Log:
    """Raises UsageError for an unknown kind, NotFoundError, ForbiddenError."""
    if kind not in KINDS:
        raise UsageError(f"kind: {kind!r} is no log.", "Known: run, diag.")
    with ctx.store.read() as tx:
        run, _ = access.run(tx, caller, run_id, Action.VIEW)
    return Log(ctx.root, run.id, run.attempts, kind, run.state in ENDED_RUNS)


def page(
    ctx: Services,
    caller: Caller,
    run_id: int,
    *,
    kind: str = "run",
    after: str = "",
    limit: int = USUAL,
    tail: int | None = None,
) -> LogPage:
    """Lines behind `after` (at most `limit`), or with `tail` the last so many lines."""
    log = open_log(ctx, caller, run_id, kind)
    if tail is not None:
        after = tail_cursor(log, tail)
        limit = MOST
    return read(log, after, limit)


def read(log: Log, after: str, limit: int) -> LogPage:
    """One page. Raises UsageError for a cursor that is none of this run's."""
    number, offset = _position(log, after)
    lines: list[LogLineView] = []
    while log.attempts:
        for line, behind in _lines(log.path(number), offset, limit - len(lines)):
            offset = behind
            lines.append(_view(line, f"{log.run}-{number}", behind))
        if len(lines) >= limit:
            break
        if number >= log.attempts:
            return LogPage(lines=lines, cursor=_cursor(log, number, offset), complete=log.ended)
        number, offset = number + 1, 0
    return LogPage(lines=lines, cursor=_cursor(log, number, offset), complete=log.ended and not log.attempts)


def grown(log: Log, after: str) -> bool:
    """Whether there are bytes behind the cursor: one `stat`, for those who wait."""
    number, offset = _position(log, after)
    if number < log.attempts:
        return True
    try:
        return log.path(number).stat().st_size > offset
    except OSError:
        return False


def _lines(path: Path, offset: int, most: int) -> Iterator[tuple[LogLine, int]]:
    while most > 0:
        found, after = read_lines(path, offset, _BLOCK)
        if not found:
            return
        for raw in found[:most]:
            offset += len(raw) + 1
            yield LogLine.parse(raw.decode("utf-8", "replace")), offset
        most -= len(found)
        offset = after


def _view(line: LogLine, attempt: str, behind: int) -> LogLineView:
    return LogLineView(
        time=line.time,
        rank=line.rank,
        stream=_STREAMS.get(line.stream, line.stream),
        text=line.text,
        attempt=attempt,
        cursor=f"{attempt}:{behind}",
    )


def _cursor(log: Log, number: int, offset: int) -> str:
    return f"{log.run}-{number}:{offset}"


def _position(log: Log, cursor: str) -> tuple[int, int]:
    if not cursor:
        return 1, 0
    attempt, _, offset = cursor.partition(":")
    run, _, number = attempt.partition("-")
    if run == str(log.run) and number.isascii() and number.isdigit() and offset.isascii() and offset.isdigit():
        return max(1, int(number)), int(offset)
    raise UsageError(
        f"after: {cursor!r} is no position in the log of run {log.run}.", "Give a cursor that an earlier answer held."
    )


def tail_cursor(log: Log, count: int) -> str:
    """The position before the last `count` lines."""
    for number in range(log.attempts, 0, -1):
        start, found = _tail(log.path(number), count)
        count -= found
        if count <= 0:
            return _cursor(log, number, start)
    return ""


def _tail(path: Path, count: int) -> tuple[int, int]:
    """Where the last `count` complete lines begin, and how many there are of them (fewer in a short file)."""
    try:
        with open(path, "rb") as file:
            end = file.seek(0, 2)
            position, found, block = end, 0, b""
            while position > 0:
                size = min(_BLOCK // 16, position)
                position -= size
                file.seek(position)
                block = file.read(size)
                at = len(block)
                while (at := block.rfind(b"\n", 0, at)) >= 0:
                    # the newline that ends the line before the ones wanted
                    if found == count:
                        return position + at + 1, count
                    found += 1
            return 0, found
    except FileNotFoundError:
        return 0, 0


def check_cursor(log: Log, cursor: str) -> None:
    """Raises UsageError for a cursor that is none of this run's."""
    _position(log, cursor)
