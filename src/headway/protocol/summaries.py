"""Where TensorBoard's event files are looked for: under a few places, not deep, and a folder only when it changed."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: part of each such file's name
SIGN = ".tfevents."
#: folders below a place; folders in all; entries of one folder that are looked at
DEPTH, FOLDERS, ENTRIES = 4, 500, 5000
_NOT_IN = frozenset(("__pycache__", "node_modules", "site-packages"))
#: seconds for which a folder's time does not tell whether it changed once more
_FRESH = 2.0


class Finder:
    """Remembers each folder's time: a look at folders that did not change costs one `stat` each."""

    def __init__(self, places: Iterable[str]) -> None:
        self.places = list(dict.fromkeys(places))
        #: folder -> its time, folders and event files in it
        self._known: dict[str, tuple[int, list[str], list[str]]] = {}

    def look(self) -> list[tuple[str, str]]:
        """(place, path) of each event file."""
        found: dict[str, str] = {}
        known: dict[str, tuple[int, list[str], list[str]]] = {}
        for place in self.places:
            level = [place]
            for _ in range(DEPTH + 1):
                below: list[str] = []
                for folder in level:
                    if folder not in known and len(known) < FOLDERS and (one := self._folder(folder)) is not None:
                        known[folder] = one
                        below += one[1]
                        for path in one[2]:
                            found.setdefault(path, place)
                level = below
        self._known = known
        return [(place, path) for path, place in found.items()]

    def _folder(self, folder: str) -> tuple[int, list[str], list[str]] | None:
        try:
            changed = os.stat(folder).st_mtime_ns
            before = self._known.get(folder)
            if before is not None and before[0] == changed:
                return before
            folders, files = [], []
            with os.scandir(folder) as entries:
                for count, entry in enumerate(entries):
                    if count >= ENTRIES:
                        break
                    if SIGN in entry.name:
                        files.append(entry.path)
                    elif entry.is_dir(follow_symlinks=False) and entry.name[0] != "." and entry.name not in _NOT_IN:
                        folders.append(entry.path)
        except OSError:
            return None
        # what is made at this very moment may leave the time as it is
        fresh = time.time() - changed / 1e9 < _FRESH
        return (0 if fresh else changed), sorted(folders), sorted(files)
