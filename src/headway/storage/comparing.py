"""What differs between two versions. Neither a million rows nor as many changes are held in memory."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass

from headway.rules import datasets as rules
from headway.storage.full import TargetFullError
from headway.storage.manifests import Manifest, Placed

#: changes that are told one by one
MOST = 1000
#: rows that are written to the table at once
_BATCH = 10_000

_TABLES = """
    -- in the order of the paths; before: of what moved, the path that it had
    create table changes (seq integer primary key, what text, path text, bytes integer, sha256 text, before text);
    -- every content of the older version
    create table held (sha256 text);
    create table pairs (came integer primary key, gone integer);
"""
_MOVE = """
    update changes set what = 'moved', before = (
        select other.path from changes as other join pairs on other.seq = pairs.gone where pairs.came = changes.seq
    ) where seq in (select came from pairs)
"""


@dataclass(frozen=True)
class Changed:
    path: str
    #: "added", "removed", "changed", "moved"
    what: str
    bytes: int
    #: of moved: the path it had
    before: str | None = None


@dataclass(frozen=True)
class Differences:
    #: how many of each kind; those that there are none of are missing
    counts: dict[str, int]
    same: int
    #: bytes of contents that only the newer version has, each counted once
    new_bytes: int
    #: the first `MOST`, in the order of their paths
    changes: list[Changed]


def compare(older: Manifest, newer: Manifest) -> Differences:
    """A removed and an added file of the same content are one that moved; each is part of one such pair.

    Raises MissingObjectError, InvalidError for a damaged manifest, TargetFullError where there is no room for the
    tables that it makes meanwhile.
    """
    if older.digest == newer.digest:
        return Differences({}, older.files, 0, [])
    # a database without a name: in memory as far as its cache goes, then in a file that nobody else sees
    with closing(sqlite3.connect("", isolation_level=None)) as db:
        try:
            db.executescript(_TABLES)
            same = _fill(db, older.rows(), newer.rows())
            return _told(db, same)
        except sqlite3.OperationalError as error:
            raise TargetFullError(
                "no_space",
                os.environ.get("TMPDIR", "/var/tmp"),
                f"There is no room for the temporary files in which the versions are compared ({error}).",
                "Free space, or start the api with TMPDIR set to a folder that has some.",
            ) from error


def _fill(db: sqlite3.Connection, older: Iterable[Placed], newer: Iterable[Placed]) -> int:
    """Writes the changes as they are seen path by path, none moved yet; how many files are the same."""
    same = 0
    changes: list[tuple[str, str, int, str]] = []
    held: list[tuple[str]] = []
    db.execute("begin")
    for old, new in _side_by_side(older, newer):
        if old is not None:
            held.append((old.sha256,))
        if new is None and old is not None:
            changes.append(("removed", old.path, old.bytes, old.sha256))
        elif new is not None and (old is None or old.sha256 != new.sha256):
            changes.append(("added" if old is None else "changed", new.path, new.bytes, new.sha256))
        else:
            same += 1
        if len(held) + len(changes) >= _BATCH:
            _write(db, changes, held)
    _write(db, changes, held)
    db.execute("commit")
    return same


def _write(db: sqlite3.Connection, changes: list[tuple[str, str, int, str]], held: list[tuple[str]]) -> None:
    db.executemany("insert into changes (what, path, bytes, sha256) values (?, ?, ?, ?)", changes)
    db.executemany("insert into held values (?)", held)
    changes.clear()
    held.clear()


def _side_by_side(older: Iterable[Placed], newer: Iterable[Placed]) -> Iterator[tuple[Placed | None, Placed | None]]:
    """The files of both, in order, those of one path together."""
    left, right = iter(older), iter(newer)
    old, new = next(left, None), next(right, None)
    while old is not None or new is not None:
        before = old is not None and (new is None or rules.order(old.path) < rules.order(new.path))
        behind = new is not None and (old is None or rules.order(new.path) < rules.order(old.path))
        yield None if behind else old, None if before else new
        if not behind:
            old = next(left, None)
        if not before:
            new = next(right, None)


def _told(db: sqlite3.Connection, same: int) -> Differences:
    db.execute("begin")
    db.executemany("insert into pairs values (?, ?)", _pairs(db))
    db.execute(_MOVE)
    db.execute("delete from changes where seq in (select gone from pairs)")
    db.execute("commit")
    counts = dict(db.execute("select what, count(*) from changes group by what"))
    listed = db.execute("select path, what, bytes, before from changes order by seq limit ?", (MOST,))
    return Differences(counts, same, _new_bytes(db), [Changed(*row) for row in listed])


# sorted by SQLite, which does it in files, and then gone through side by side: a join may be planned badly


def _pairs(db: sqlite3.Connection) -> Iterator[tuple[int, int]]:
    """Which added and which removed file have the same content; an empty one has none that could move."""
    query = "select sha256, seq from changes where what = ? and bytes > 0 order by sha256, seq"
    added, removed = db.execute(query, ("added",)), db.execute(query, ("removed",))
    came, gone = next(added, None), next(removed, None)
    while came is not None and gone is not None:
        if came[0] == gone[0]:
            yield came[1], gone[1]
        first, second = came[0] <= gone[0], gone[0] <= came[0]
        came = next(added, None) if first else came
        gone = next(removed, None) if second else gone


def _new_bytes(db: sqlite3.Connection) -> int:
    new = db.execute("select sha256, bytes from changes where what in ('added', 'changed') order by sha256")
    held = db.execute("select sha256 from held order by sha256")
    found, had, before = 0, next(held, None), None
    for sha256, size in new:
        while had is not None and had[0] < sha256:
            had = next(held, None)
        if sha256 != before and (had is None or had[0] != sha256):
            found += size
        before = sha256
    return found
