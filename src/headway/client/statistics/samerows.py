"""Rows of tables that stand in two splits: training and test made from one table, which no file's checksum shows."""

from __future__ import annotations

import hashlib
import sqlite3
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations, groupby
from pathlib import Path
from types import TracebackType
from typing import Any

from headway.client.statistics.columns import is_label
from headway.client.statistics.copies import rank
from headway.client.statistics.layout import role

#: columns that number rows, in any case of letters: they differ in rows that are the same
_NUMBERS = frozenset({"", "id", "idx", "index", "row", "row_id", "uid", "uuid", "guid"})
#: rows whose values are shorter than this, written out, are the same by chance
_LEAST = 40
_BATCH = 5000
_EXAMPLES = 5


@lru_cache(maxsize=1000)
def _telling(names: tuple[str, ...]) -> tuple[str, ...]:
    """The columns, in one order, that say whether two rows are the same."""
    return tuple(sorted(name for name in names if not is_label(name) and name.casefold() not in _NUMBERS))


class SameRows:
    """Is told rows one by one and holds a checksum of each on the disk. Use it in a `with` block."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="headway-statistics-")
        self._db = sqlite3.connect(Path(self._folder.name, "lines.db"), isolation_level=None)
        self._db.executescript(
            "pragma journal_mode = off; pragma synchronous = off;"
            "create table lines (sum blob, split text, path text, number integer); begin;"
        )
        self._waiting: list[tuple[bytes, str, str, int]] = []

    def __enter__(self) -> SameRows:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()
        self._folder.cleanup()

    def add(self, split: str, path: str, number: int, row: dict[str, Any]) -> None:
        """number: of the row in its file, from 1. Rows outside of splits are passed over."""
        if role(split) is None:
            return
        names = _telling(tuple(row))
        text = repr([row[name] for name in names])
        if len(text) < _LEAST:
            return
        checksum = hashlib.blake2b(f"{names}{text}".encode(errors="surrogatepass"), digest_size=8).digest()
        self._waiting.append((checksum, split, path, number))
        if len(self._waiting) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        self._db.executemany("insert into lines values (?, ?, ?, ?)", self._waiting)
        self._waiting = []

    def leaks(self) -> list[dict[str, Any]]:
        """[{"splits": [a, b], "rows": of b that a has too, "examples": [["a.csv", 5, "b.csv", 12]]}]"""
        self._flush()
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for _, group in groupby(self._shared(), key=lambda line: line[0]):
            splits = {split: (count, path, number) for _, split, count, path, number in group}
            for one, other in combinations(sorted(splits, key=rank), 2):
                if role(one) == role(other):
                    continue
                leak = found.setdefault((one, other), {"splits": [one, other], "rows": 0, "examples": []})
                leak["rows"] += splits[other][0]
                if len(leak["examples"]) < _EXAMPLES:
                    leak["examples"].append([*splits[one][1:], *splits[other][1:]])
        return [leak for _, leak in sorted(found.items())]

    def _shared(self) -> Iterator[tuple[bytes, str, int, str, int]]:
        """Checksum, split, rows, path and number of the first of them: of rows that several splits have."""
        yield from self._db.execute(
            # what stands bare beside min() is of the row that has the least
            "select sum, split, count(*), path, min(number) from lines where sum in"
            " (select sum from lines group by sum having count(distinct split) > 1)"
            " group by sum, split order by sum, split"
        )
