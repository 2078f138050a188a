"""The hash cache: SHA-256 of files as they were when they were last read, so that a push reads only what is new.

A cache and nothing more: one that is damaged, full or not writable is done without.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from headway.client.pushing.entries import Entry, Stamp

#: a file that was changed less than this before it was read may change again without its times telling; nanoseconds
_RACY = 2_000_000_000
#: rows written in one transaction
_BATCH = 5000
#: a cache that has grown beyond this is made anew
_LARGEST = 1 << 30

_Row = tuple[str, int, int, int, int, bytes]

_TABLES = """
create table if not exists folders (id integer primary key, path text not null unique);
create table if not exists files (
  folder integer not null, name text not null, bytes integer not null,
  modified integer not null, changed integer not null, inode integer not null, sha256 blob not null,
  primary key (folder, name)
) without rowid;
"""


def default_path() -> Path:
    """In the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "headway" / "hashes-1.sqlite"


class HashCache:
    """For one push; not safe for threads. Close it, or what was added last is not kept."""

    def __init__(self, root: str, path: Path | None = None) -> None:
        """root: absolute path of the folder that entries' paths lie below."""
        self._root = root
        self._added: list[tuple[str, str, Entry, bytes]] = []
        #: the folder that is being looked at, and how far
        self._at: str | None = None
        self._rows: Iterator[_Row] = iter(())
        self._row: _Row | None = None
        self._path = path or default_path()
        self._base = _open(self._path)

    def close(self) -> None:
        self._write()
        self._shut()

    def rewind(self) -> None:
        """Before `look` is asked from the first file on again."""
        self._at = None

    def look(self, entry: Entry) -> str | None:
        """SHA-256 of a file, if the cache has it as it is. To be asked in order: folders are read along."""
        folder, _, name = entry.path.rpartition("/")
        if folder != self._at:
            # a folder's files need not stand together, subfolders come between: it is read on from here then
            self._at, self._rows = folder, self._read(folder, name)
            self._row = next(self._rows, None)
        while self._row is not None and self._row[0] < name:
            self._row = next(self._rows, None)
        if self._row is None or self._row[:5] != (name, entry.bytes, *(entry.stamp or ())):
            return None
        return self._row[5].hex()

    def add(self, entry: Entry, sha256: str) -> None:
        """Keeps what was read just now; not of a file that changed a moment ago."""
        stamp = entry.stamp
        if self._base is None or stamp is None or time.time_ns() - max(stamp.modified, stamp.changed) < _RACY:
            return
        folder, _, name = entry.path.rpartition("/")
        self._added.append((folder, name, entry, bytes.fromhex(sha256)))
        if len(self._added) >= _BATCH:
            self._write()

    def _read(self, folder: str, start: str) -> Iterator[_Row]:
        """A folder's rows from a name on, by name; none where the cache cannot be read."""
        if self._base is None:
            return
        try:
            yield from self._base.execute(
                "select name, bytes, modified, changed, inode, sha256 from files"
                " where folder = (select id from folders where path = ?) and name >= ? order by name",
                (os.path.join(self._root, folder), start),
            )
        except sqlite3.Error as error:
            self._give_up(error)

    def _write(self) -> None:
        added, self._added = self._added, []
        if self._base is None or not added:
            return
        try:
            with self._base:
                folders = {folder: os.path.join(self._root, folder) for folder, *_ in added}
                self._base.executemany(
                    "insert or ignore into folders (path) values (?)", [(p,) for p in folders.values()]
                )
                numbers = {
                    f: self._base.execute("select id from folders where path = ?", (p,)).fetchone()[0]
                    for f, p in folders.items()
                }
                self._base.executemany(
                    "insert or replace into files values (?, ?, ?, ?, ?, ?, ?)",
                    [(numbers[f], n, e.bytes, *(e.stamp or Stamp(0, 0, 0)), sha) for f, n, e, sha in added],
                )
        except sqlite3.Error as error:
            self._give_up(error)

    def _shut(self) -> None:
        base, self._base = self._base, None
        # its cursor is closed with it, which fails once the base is closed
        self._at, self._rows, self._row = None, iter(()), None
        if base is not None:
            base.close()

    def _give_up(self, error: sqlite3.Error) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._shut()
        if not isinstance(error, sqlite3.OperationalError):  # that one is of the disk or of another process
            with contextlib.suppress(OSError):
                _remove(self._path)


def _open(path: Path) -> sqlite3.Connection | None:
    """The cache; made anew when it is damaged or too large; None where there can be none."""
    for _ in range(2):
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if path.exists() and path.stat().st_size > _LARGEST:
                _remove(path)
            base = sqlite3.connect(path, timeout=5)
            base.executescript("pragma journal_mode = wal; pragma synchronous = off;" + _TABLES)
            return base
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                return None  # locked, read-only or no space: not damaged
            with contextlib.suppress(OSError):
                _remove(path)
        except OSError:
            return None
    return None


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
