"""A dataset's rows in a temporary database: whatever is asked of them takes disk, not memory."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType

from headway.client.statistics.kinds import SAMPLES, TABLES, kind
from headway.client.statistics.layout import ALL, layout, split_of_name
from headway.rules.datasets import Row

_TABLES = """
create table folders (id integer primary key, path text unique, split text, label text);
create table files
  (n integer primary key, folder integer, name text, bytes integer, sha256 blob, kind text, split text);
"""
#: a file's path and split
_PATH = "case d.path when '' then f.name else d.path || '/' || f.name end"
_SPLIT = f"coalesce(d.split, f.split, '{ALL}')"
_JOINED = "files f join folders d on d.id = f.folder"
_BATCH = 5000


@dataclass(frozen=True)
class File:
    path: str
    bytes: int
    split: str


@dataclass(frozen=True)
class Copy:
    """A file whose content another one has too."""

    sha256: bytes
    bytes: int
    path: str
    split: str
    label: str | None


class Inventory:
    """Use it in a `with` block: the database goes at its end."""

    def __init__(self, rows: Iterator[Row]) -> None:
        """Takes them all in. Raises sqlite3.Error when the temporary folder's disk is full."""
        self._folder = tempfile.TemporaryDirectory(prefix="headway-statistics-")
        try:
            self._db = sqlite3.connect(Path(self._folder.name, "rows.db"), isolation_level=None)
            self._db.executescript("pragma journal_mode = off; pragma synchronous = off;" + _TABLES + "begin;")
            self._fill(rows)
        except BaseException:
            self._folder.cleanup()
            raise
        counts = self.kinds()
        #: the kind of file that is one sample each; None: there is none
        self.sample_kind = _sample_kind(counts)
        #: of which duplicates and leaks are worth telling: a note that lies in each folder is no leak
        self._data = (self.sample_kind,) if self.sample_kind else tuple(k for k in counts if k in TABLES)
        self._placed()

    def __enter__(self) -> Inventory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()
        self._folder.cleanup()

    def _fill(self, rows: Iterator[Row]) -> None:
        last, number = None, 0
        while batch := list(islice(rows, _BATCH)):
            into = []
            for path, size, sha256 in batch:
                folder, _, name = path.rpartition("/")
                if folder != last:
                    last, number = folder, self._folder_id(folder)
                what = kind(name)
                split = None if what == "image" else split_of_name(name)
                into.append((number, name, size, bytes.fromhex(sha256), what, split))
            self._db.executemany(
                "insert into files (folder, name, bytes, sha256, kind, split) values (?, ?, ?, ?, ?, ?)", into
            )

    def _folder_id(self, path: str) -> int:
        self._db.execute("insert or ignore into folders (path) values (?)", (path,))
        found: tuple[int] = self._db.execute("select id from folders where path = ?", (path,)).fetchone()
        return found[0]

    def _placed(self) -> None:
        """Says of each folder which split and class it is."""
        self._db.execute("create index in_folder on files (folder, kind)")
        chosen = self._db.execute(
            "select path from folders d where ? is null or exists"
            " (select 1 from files f where f.folder = d.id and f.kind = ?)",
            (self.sample_kind, self.sample_kind),
        )
        found = layout(_parts(path) for (path,) in chosen)
        after = 0
        while batch := self._db.execute(
            "select id, path from folders where id > ? order by id limit ?", (after, _BATCH)
        ).fetchall():
            places = [(found.place(_parts(path)), number) for number, path in batch]
            self._db.executemany(
                "update folders set split = ?, label = ? where id = ?", [(p.split, p.label, n) for p, n in places]
            )
            after = batch[-1][0]

    def totals(self) -> tuple[int, int, int]:
        """Files, bytes, files of 0 bytes."""
        found: tuple[int, int, int] = self._db.execute(
            "select count(*), coalesce(sum(bytes), 0), coalesce(sum(bytes = 0), 0) from files"
        ).fetchone()
        return found

    def kinds(self) -> dict[str, int]:
        """Files of each kind."""
        return dict(self._db.execute("select kind, count(*) from files group by kind order by kind").fetchall())

    def of_kind(self, kind: str) -> tuple[int, int]:
        """Files of a kind, bytes of them."""
        found: tuple[int, int] = self._db.execute(
            "select count(*), coalesce(sum(bytes), 0) from files where kind = ?", (kind,)
        ).fetchone()
        return found

    def labels(self) -> Iterator[tuple[str, str, int]]:
        """Split, class, samples: of class folders, in order of their names."""
        yield from self._db.execute(
            f"select {_SPLIT} as s, d.label, sum(f.kind is ?) from {_JOINED} where d.label is not null"
            " group by s, d.label order by s, d.label",
            (self.sample_kind,),
        )

    def files(self, kind: str, *, every: int = 1) -> Iterator[File]:
        """Those of a kind, in order, or each `every`-th of them."""
        found = self._db.execute(
            f"select {_PATH}, f.bytes, {_SPLIT} from {_JOINED} where f.kind = ? order by f.n", (kind,)
        )
        return (File(*row) for row in islice(found, 0, None, every))

    def named(self, *names: str) -> list[File]:
        """The files with one of these names, the first 10."""
        marks = ", ".join("?" * len(names))
        found = self._db.execute(
            f"select {_PATH}, f.bytes, {_SPLIT} from {_JOINED} where f.name in ({marks}) order by f.n limit 10", names
        )
        return [File(*row) for row in found]

    def copies(self) -> Iterator[Copy]:
        """Files of data, not empty, whose content occurs more than once; those of one content one after another."""
        marks = ", ".join("?" * len(self._data))
        chosen = f"f.bytes > 0 and f.kind in ({marks})"
        found = self._db.execute(
            f"select f.sha256, f.bytes, {_PATH}, {_SPLIT}, d.label from {_JOINED} where {chosen} and f.sha256 in"
            f" (select f.sha256 from files f where {chosen} group by f.sha256 having count(*) > 1)"
            " order by f.sha256, f.n",
            (*self._data, *self._data),
        )
        return (Copy(*row) for row in found)


def _sample_kind(counts: dict[str, int]) -> str | None:
    """A readme beside tables, or a cover beside films, is no sample: the kind must be a good part of the files."""
    most = sum(counts.values()) / 10
    tables = sum(counts.get(k, 0) for k in TABLES)
    return next((k for k in SAMPLES if counts.get(k, 0) > tables and counts[k] >= most), None)


def _parts(path: str) -> list[str]:
    return path.split("/") if path else []
