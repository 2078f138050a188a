"""Columns of CSV, JSON lines and Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from headway.client.statistics.columns import Column
from headway.client.statistics.inventory import File
from headway.client.statistics.kinds import kind
from headway.client.statistics.readers import Reading, UnreadableError, rows
from headway.client.statistics.samerows import SameRows
from headway.client.statistics.source import Source
from headway.errors import HeadwayError

#: tables, bytes and rows of them that are read at most, spread evenly
SAMPLE, SAMPLE_BYTES, ROWS = 200, 100_000_000, 200_000
#: groups of tables that are told apart, and columns of each
_GROUPS, _COLUMNS = 20, 200
_MOST = 20


@dataclass
class Group:
    """Tables of one kind and split with the same columns: mostly the parts of one table."""

    kind: str
    split: str
    example: str
    files: int = 0
    rows: int = 0
    read_rows: int = 0
    exact: bool = True
    bad: int = 0
    bad_at: str = ""
    columns: dict[str, Column] = field(default_factory=dict)

    def add_row(self, row: dict[str, Any]) -> None:
        for name, value in row.items():
            if name not in self.columns:
                if len(self.columns) >= _COLUMNS:
                    continue
                column = self.columns[name] = Column(name)
                # rows before had no such key
                column.missing = self.read_rows
            self.columns[name].add(value)
        for name in self.columns.keys() - row.keys():
            self.columns[name].missing += 1
        self.read_rows += 1

    def view(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "split": self.split,
            "example": self.example,
            "files": self.files,
            "rows": self.rows,
            "read_rows": self.read_rows,
            "exact": self.exact,
            "bad_rows": self.bad,
            "bad_at": self.bad_at,
            "columns": [column.view() for column in self.columns.values()],
        }


@dataclass
class Tables:
    groups: list[Group] = field(default_factory=list)
    #: path -> why
    unreadable: dict[str, str] = field(default_factory=dict)
    unreadable_files: int = 0

    def labels(self) -> dict[str, dict[str, dict[str, int]]]:
        """Column -> split -> value -> rows: of the columns that are classes."""
        found: dict[str, dict[str, dict[str, int]]] = {}
        for group in self.groups:
            for column in group.columns.values():
                if column.values:
                    counts = found.setdefault(column.name, {}).setdefault(group.split, {})
                    for value, count in column.values.items():
                        counts[str(value)] = counts.get(str(value), 0) + count
        return found


def add(
    found: Tables,
    same: SameRows,
    source: Source,
    files: Iterable[File],
    chosen: int,
    progress: Callable[[int, int], None],
) -> None:
    """Reads the `chosen` tables, each as far as `readers.FILE_BYTES` and its share of `ROWS`."""
    most = max(1000, ROWS // max(1, chosen))
    for number, file in enumerate(files, start=1):
        progress(number, chosen)
        try:
            _read(source, file, found, same, most)
        except (OSError, HeadwayError, UnreadableError) as error:
            found.unreadable_files += 1
            if len(found.unreadable) < _MOST:
                found.unreadable[file.path] = str(error)[:200]


def _read(source: Source, file: File, found: Tables, same: SameRows, most: int) -> None:
    what, reading = kind(file.path), Reading()
    group: Group | None = None
    with source.open(file.path, file.bytes) as opened:
        for number, row in enumerate(rows(what, file.path, opened, reading), start=1):
            if group is None:
                group = _group(found, what, file, reading.columns or list(row))
            group.add_row(row)
            same.add(file.split, file.path, number, row)
            if number >= most:
                break
    if group is None:
        group = _group(found, what, file, reading.columns)
        for name in reading.columns[:_COLUMNS]:
            group.columns.setdefault(name, Column(name))
    group.files += 1
    group.bad += reading.bad
    if reading.bad and not group.bad_at:
        group.bad_at = f"{file.path}:{reading.bad_line}"
    group.rows += reading.read_rows if reading.rows is None else reading.rows
    group.exact = group.exact and reading.rows is not None


def _group(found: Tables, what: str, file: File, columns: list[str]) -> Group:
    """The one that a table belongs to. JSON lines share a group with any key: not every row has every one."""
    for group in found.groups:
        known = list(group.columns)
        alike = bool(set(known) & set(columns)) if what == "jsonl" else known == columns[:_COLUMNS]
        if (group.kind, group.split) == (what, file.split) and alike:
            return group
    group = Group(what, file.split, file.path)
    if what != "jsonl":
        group.columns = {name: Column(name) for name in columns[:_COLUMNS]}
    if len(found.groups) < _GROUPS:
        found.groups.append(group)
    return group
