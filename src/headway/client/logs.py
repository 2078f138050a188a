"""Logs of runs: pages, search, follow, download."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headway.client.transport import Transport
from headway.errors import UsageError
from headway.wire.runs import LogLineView, LogPage


class Logs:
    """What `client.runs` knows of logs. Filters are the same everywhere:

    kind: "run" or "diag". grep: text (in lower case it finds capitals as well), or a regular expression between
    slashes. since, until: seconds since the epoch. rank: of one process. stream: "out", "err" or "headway".
    """

    _transport: Transport

    def logs(
        self,
        run: int,
        *,
        kind: str = "run",
        after: str | None = None,
        limit: int | None = None,
        tail: int | None = None,
        **filters: Any,
    ) -> LogPage:
        """One page. after: a cursor; tail: only the last lines. While it says `more`, there is more behind it."""
        params = {"kind": kind, "after": after, "limit": limit, "tail": tail, **filters}
        return LogPage.model_validate(self._transport.call("GET", f"/runs/{run}/logs", params=params))

    def follow(self, run: int, *, kind: str = "run", after: str | None = None, **filters: Any) -> Iterator[LogLineView]:
        """Every line, live, until the run has ended; survives restarts of the server. Raises UnreachableError."""
        cursor = after
        while True:
            moved = False
            params = {"kind": kind, "after": cursor, **filters}
            for event in self._transport.events(f"/runs/{run}/logs/stream", params=params):
                if event.event == "end":
                    return
                if event.data:
                    line = LogLineView.model_validate_json(event.data)
                    cursor, moved = line.cursor or event.id, True
                    yield line
            if not moved:
                time.sleep(0.2)  # a stream that ends at once must not become a busy loop

    def all_logs(self, run: int, *, kind: str = "run", **filters: Any) -> Iterator[LogLineView]:
        """Every line that is there now, page by page."""
        cursor: str | None = None
        while True:
            page = self.logs(run, kind=kind, after=cursor, **filters)
            yield from page.lines
            if not page.more:
                return
            cursor = page.cursor

    def download(self, run: int, file: str | Path, *, kind: str = "run", raw: bool = False, **filters: Any) -> int:
        """Writes the log up to now to `file`, which appears when it is whole; its bytes.

        raw: the text alone, without time, rank and stream. Raises UnreachableError when the connection breaks, and
        UsageError when the folder is not there.
        """
        target = Path(file)
        if not target.parent.is_dir():
            raise UsageError(f"{target.parent} is no folder.", "Give a file in a folder that is there.")
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        size = 0
        try:
            with open(part, "wb") as out:
                for piece in self._transport.pieces(
                    f"/runs/{run}/logs/download", params={"kind": kind, "raw": raw or None, **filters}
                ):
                    out.write(piece)
                    size += len(piece)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        return size
