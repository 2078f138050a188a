"""Rows out of CSV, JSON lines and Parquet, as far as a limit of bytes."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from headway.client.statistics.columns import read_cell

#: bytes of one table that are read at most
FILE_BYTES = 16_000_000
#: bytes of one cell or line
_CELL = 16_000_000
#: rows of Parquet that are held at once, and about how many bytes of them
_BATCH_ROWS, _BATCH_BYTES = 1000, 16_000_000
_NOT_ASCII = bytes(range(0x80, 0x100))
_DELIMITERS = ",;\t|"


@dataclass
class Reading:
    """What was found in one file, filled while its rows are read."""

    #: names of the columns as far as they are known; of JSON lines, those of the rows so far
    columns: list[str] = field(default_factory=list)
    #: of the whole file; None while it is not known
    rows: int | None = None
    read_rows: int = 0
    #: rows that are none, and the line of the first
    bad: int = 0
    bad_line: int = 0

    def is_bad(self, line: int) -> None:
        self.bad += 1
        self.bad_line = self.bad_line or line


class UnreadableError(Exception):
    """This file is no table of its kind."""


def rows(kind: str, name: str, opened: BinaryIO, into: Reading) -> Iterator[dict[str, Any]]:
    """The rows of a table, first to last, until `FILE_BYTES` are read.

    kind: "csv", "jsonl" or "parquet". Raises UnreadableError.
    """
    try:
        if kind == "parquet":
            yield from _parquet(opened, into)
            return
        is_packed = name.casefold().endswith(".gz")
        plain: Any = gzip.GzipFile(fileobj=opened) if is_packed else opened
        head = _Head(plain, FILE_BYTES)
        with io.TextIOWrapper(io.BufferedReader(head, 1 << 20), encoding="utf-8-sig", newline="") as text:
            yield from (_csv if kind == "csv" else _jsonl)(text, head, into)
    except (OSError, EOFError, ValueError, csv.Error, RecursionError, zlib.error) as error:
        raise UnreadableError(str(error)) from error


class _Head(io.RawIOBase):
    """The first `limit` bytes of a file."""

    def __init__(self, file: Any, limit: int) -> None:
        self._file, self._left = file, limit

    @property
    def is_cut(self) -> bool:
        return self._left <= 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block: bytes = self._file.read(min(len(buffer), max(0, self._left)))
        self._left -= len(block)
        if self.is_cut:
            # it may end within a character, and its last row is left out anyway
            block = block.rstrip(_NOT_ASCII)
        buffer[: len(block)] = block
        return len(block)


def _csv(text: io.TextIOWrapper, head: _Head, into: Reading) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(_CELL)
    first = text.readline()
    if not first:
        raise UnreadableError("it is empty")
    delimiter = max(_DELIMITERS, key=first.count)
    lines = csv.reader(_again(first, text), delimiter=delimiter)
    cells = next(lines)
    has_names = len(set(cells)) == len(cells) and all(isinstance(read_cell(c), str) for c in cells)
    into.columns = cells if has_names else [f"column {n}" for n in range(1, len(cells) + 1)]
    if not has_names:
        into.read_rows = 1
        yield _named(into.columns, cells)
    for line, row in _whole(((lines.line_num, row) for row in lines), head):
        if not row:
            continue
        into.read_rows += 1
        if len(row) == len(into.columns):
            yield _named(into.columns, row)
        else:
            into.is_bad(line)
    into.rows = None if head.is_cut else into.read_rows


def _named(columns: list[str], cells: list[str]) -> dict[str, Any]:
    return {name: read_cell(cell) for name, cell in zip(columns, cells, strict=True)}


def _again(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _whole(found: Iterator[Any], head: _Head) -> Iterator[Any]:
    """All of them but the last of a file that was cut."""
    last = _NONE
    for item in found:
        if last is not _NONE:
            yield last
        last = item
    if last is not _NONE and not head.is_cut:
        yield last


_NONE = object()


def _jsonl(text: io.TextIOWrapper, head: _Head, into: Reading) -> Iterator[dict[str, Any]]:
    seen = Counter[str]()
    for number, line in enumerate(_whole(iter(text), head), start=1):
        if not line.strip():
            continue
        into.read_rows += 1
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            into.is_bad(number)
            continue
        if len(seen) < 1000:
            seen.update(row.keys())
        yield row
    if into.read_rows and into.bad == into.read_rows:
        raise UnreadableError("no line is a JSON object")
    into.columns = list(seen)
    into.rows = None if head.is_cut else into.read_rows


def _parquet(opened: BinaryIO, into: Reading) -> Iterator[dict[str, Any]]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise UnreadableError("pyarrow is not installed") from None
    try:
        file = parquet.ParquetFile(opened, buffer_size=1 << 20)
        into.columns, into.rows = list(file.schema_arrow.names), file.metadata.num_rows
        left = FILE_BYTES
        groups = [file.metadata.row_group(n) for n in range(file.metadata.num_row_groups)]
        widest = max((g.total_byte_size / max(1, g.num_rows) for g in groups), default=1.0)
        for batch in file.iter_batches(max(1, min(_BATCH_ROWS, int(_BATCH_BYTES / max(1.0, widest))))):
            left -= batch.nbytes
            into.read_rows += batch.num_rows
            yield from batch.to_pylist()
            if left <= 0:
                return
    except pa.ArrowException as error:
        raise UnreadableError(str(error)) from error
