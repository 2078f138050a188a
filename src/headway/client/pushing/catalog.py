"""What is in an archive, in a version's order: in a temporary database, so that a million members take no memory."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from headway.client.pushing.entries import Entry, Skipped
from headway.rules.datasets import folded

#: longest chain of links that is followed
_HOPS = 40


class Catalog:
    """Members of one file that has all their bytes; of two with the same path the later one counts, as in unpacking."""

    def __init__(self, path: Path) -> None:
        """path: of the database, which is made."""
        self._base = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._base.executescript(
            "pragma journal_mode = off; pragma synchronous = off; begin;"
            "create table members (sorted blob primary key, path text, folded text, offset integer, bytes integer)"
            " without rowid;"
            "create table links (path text primary key, target text, hard integer) without rowid;"
        )

    def close(self) -> None:
        self._base.close()

    def add(self, path: str, offset: int, size: int) -> None:
        self._base.execute("delete from links where path = ?", (path,))
        row = (_sorted(path), path, folded(path), offset, size)
        self._base.execute("insert or replace into members values (?, ?, ?, ?, ?)", row)

    def add_link(self, path: str, target: str, *, hard: bool) -> None:
        """target: of a hard link a member's path, else as a link says it."""
        self._base.execute("delete from members where sorted = ?", (_sorted(path),))
        self._base.execute("insert or replace into links values (?, ?, ?)", (path, target, hard))

    def resolve(self) -> Iterator[str]:
        """Makes members of the links whose targets are files in here; gives the paths of the others."""
        for path, target, hard in self._base.execute("select path, target, hard from links").fetchall():
            found = self._follow(path, target, hard)
            if found is None:
                yield path
            else:
                row = (_sorted(path), path, folded(path), *found)
                self._base.execute("insert or replace into members values (?, ?, ?, ?, ?)", row)

    def _follow(self, path: str, target: str, hard: bool) -> tuple[int, int] | None:
        for _ in range(_HOPS):
            aim = target if hard else os.path.join(os.path.dirname(path), target)
            if aim.startswith("/"):
                return None
            path = os.path.normpath(aim)
            at = self._base.execute("select offset, bytes from members where sorted = ?", (_sorted(path),)).fetchone()
            if at is not None:
                return int(at[0]), int(at[1])
            link = self._base.execute("select target, hard from links where path = ?", (path,)).fetchone()
            if link is None:
                return None
            target, hard = link
        return None

    def totals(self) -> tuple[int, int]:
        """Files and bytes."""
        files, size = self._base.execute("select count(*), coalesce(sum(bytes), 0) from members").fetchone()
        return int(files), int(size)

    def clashes(self) -> Skipped:
        """Paths that differ from another in case alone."""
        found = Skipped()
        for (path,) in self._base.execute("select max(path) from members group by folded having count(*) > 1"):
            found.add(path)
        return found

    def inside_files(self) -> Skipped:
        """Paths whose folder is a file of the archive as well."""
        found, last = Skipped(), "\0"
        for entry in self.entries():
            if entry.path.startswith(last + "/"):
                found.add(entry.path)
            last = entry.path
        return found

    def entries(self) -> Iterator[Entry]:
        for path, size, offset in self._base.execute("select path, bytes, offset from members order by sorted"):
            yield Entry(path, size, None, offset)


def _sorted(path: str) -> bytes:
    """Bytes that sort as `rules.datasets.order` does: no name holds a NUL, and none is before it."""
    return path.replace("/", "\0").encode("utf-8", "surrogateescape")
