"""Workers that could not write: told apart from cells that fail, and held back until there is room."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.helper.gate import Gate
from headway.storage import staging
from headway.storage.full import TargetFullError, full_of, is_full
from headway.storage.mounts import Mounted
from headway.storage.probe import hindrance, probe
from headway.storage.quota import ProjectQuota

#: a refusal with one of these may also be the script's own mistake: only the probe tells
_PERMISSION = (errno.EACCES, errno.EPERM)
#: so often a cell may be refused where all can be written; then it is its own failure
_PHANTOMS = 5
#: what a refused cell must find besides what it had written
_SPARE_BYTES, _SPARE_FILES = 64 << 10, 2
#: seconds between looks at a target that takes writes
_LOOK_SECONDS = 0.1


class Refusals:
    """Of one target. Shared by threads."""

    def __init__(self, target: Path, quota: ProjectQuota | None, mounted: Mounted, gate: Gate, files: int) -> None:
        """files: that a cell leaves, about."""
        self._target, self._quota, self._mounted, self._gate, self._files = target, quota, mounted, gate, files
        self._phantoms: dict[int, int] = {}
        self._lock = threading.Lock()
        self._looked_at = 0.0
        self._probed = False

    def make_room(self, out: Path, size: int) -> None:
        """Makes the empty folder `out` once there is room for a cell like the last one, of `size` bytes.

        Raises ClosedError.
        """

        def room() -> None:
            with full_of(self._target, whatever=True):
                self._room(out, size)

        self._gate.through(room)

    def _room(self, out: Path, size: int) -> None:
        # a real write before the first cell and after each refusal; figures alone, and not each time, before later ones
        with self._lock:
            write, self._probed = not self._probed, False
            due = write or self._gate.shut or time.monotonic() - self._looked_at >= _LOOK_SECONDS
        if due:
            self._mounted.check()
            probe(self._target, quota=self._quota, bytes=size, files=self._files, write=write)
            with self._lock:
                self._looked_at = time.monotonic()
        staging.forget(out)
        try:
            self._make_empty(out)
        except OSError:
            probe(self._target, files=2)
            raise
        self._probed = True

    def is_one(self, cell: int, failed: Mapping[str, Any], out: Path, size: int) -> bool:
        """Whether the target, and not the cell, is to blame for what a worker tells. Then there is room again.

        Raises ClosedError.
        """
        number = failed.get("errno")
        place = self._place(failed.get("path"))
        written, files = content(out)
        needed = max(size, written) + _SPARE_BYTES, max(files, self._files) + _SPARE_FILES
        # some libraries tell a full disk without its errno; and a script may lack a permission somewhere else
        told = (is_full(number) and number not in _PERMISSION) or not out.is_dir()
        refused = self._lacks(place, 0, 0) or (None if told else self._lacks(place, *needed))
        if refused is None and not told:
            return False
        if refused is None:
            self._phantoms[cell] = self._phantoms.get(cell, 0) + 1
            if self._phantoms[cell] > _PHANTOMS and self._lacks(place, written + 1, 1) is None:
                return False
        shutil.rmtree(out, ignore_errors=True)
        self._gate.through(lambda: self._require(place, *needed))
        self._probed = False
        return True

    def _lacks(self, place: Path | None, size: int, files: int) -> TargetFullError | None:
        # without the project's quota, which hinders publishing, and never a worker's own writes
        found = self._mounted.away() or hindrance(self._target, bytes=size, files=files)
        return found if found or place is None else hindrance(place, bytes=size, files=files)

    def _require(self, place: Path | None, size: int, files: int) -> None:
        if full := self._lacks(place, size, files):
            raise full

    def _make_empty(self, out: Path) -> None:
        try:
            out.mkdir()
        except FileExistsError:
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir(exist_ok=True)
        except FileNotFoundError:
            # what is missing may be on a file system that is away
            self._mounted.check()
            out.mkdir(parents=True)

    def _place(self, path: Any) -> Path | None:
        """The folder elsewhere that the worker could not write in; None: the target."""
        if not isinstance(path, str) or not path:
            return None
        folder = Path(path).parent
        inside = folder.is_relative_to(self._target) or not folder.is_absolute()
        return None if inside or not folder.is_dir() else folder


def content(folder: Path) -> tuple[int, int]:
    """(bytes, files) that are in the folder now."""
    size = files = 0
    waiting = [os.fspath(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    files += 1
                    with contextlib.suppress(OSError):
                        size += entry.stat(follow_symlinks=False).st_size
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
        except OSError:
            continue
    return size, files
