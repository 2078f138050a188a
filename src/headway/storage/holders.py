"""Deleted files that processes still have open: their space comes back only when these are closed."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

#: less than this is not worth telling
LEAST_BYTES = 1 << 20
#: a look is good for so many times as long as it took: where there are many processes it takes its time
_FRESH = 20
#: processes that are named
_MOST_NAMED = 3
_DELETED = " (deleted)"


@dataclass(frozen=True)
class Holder:
    pid: int
    command: str
    #: that its deleted files take
    bytes: int
    #: the largest of them, as it was called
    path: str

    def to_json(self) -> dict[str, Any]:
        return {"pid": self.pid, "command": self.command, "bytes": self.bytes, "path": self.path}


_lock = threading.Lock()
#: device -> until when it is known, and what
_known: dict[int, tuple[float, list[Holder]]] = {}


def holders(path: str | os.PathLike[str]) -> list[Holder]:
    """Who holds deleted files of the file system at `path`, the largest first. Never raises.

    Seen are processes of this machine that this one may look at: as root all of them.
    """
    try:
        device = os.stat(path).st_dev
    except OSError:
        return []
    with _lock:
        began = time.monotonic()
        until, found = _known.get(device, (float("-inf"), []))
        if began > until or any(not os.path.exists(f"/proc/{h.pid}") for h in found):
            found = sorted(_look(device), key=lambda holder: -holder.bytes)
            ended = time.monotonic()
            _known[device] = ended + _FRESH * (ended - began), found
    return found


def sentence(found: list[Holder], size: str) -> str:
    """Who they are, for people; size: what they hold in all."""
    named = [f"{h.command} (process {h.pid})" for h in found[:_MOST_NAMED]]
    others = f" and {len(found) - _MOST_NAMED} others" if len(found) > _MOST_NAMED else ""
    return f"{size} there belong to deleted files that are still open in {', '.join(named)}{others}."


def _look(device: int) -> Iterator[Holder]:
    #: a file that several have open is told of the first
    seen: set[int] = set()
    with contextlib.suppress(OSError), os.scandir("/proc") as processes:
        for process in processes:
            if process.name.isdigit():
                files = list(_deleted(f"{process.path}/fd", device, seen))
                if files:
                    total, largest = sum(size for size, _ in files), max(files)[1]
                    yield Holder(int(process.name), _command(process.path), total, largest)


def _deleted(folder: str, device: int, seen: set[int]) -> Iterator[tuple[int, str]]:
    try:
        numbers = os.listdir(folder)
    except OSError:
        return
    for number in numbers:
        place = f"{folder}/{number}"
        try:
            name = os.readlink(place)
            if not name.endswith(_DELETED):
                continue
            found = os.stat(place)
        except OSError:
            continue
        if found.st_dev == device and not found.st_nlink and stat.S_ISREG(found.st_mode) and found.st_ino not in seen:
            seen.add(found.st_ino)
            if found.st_blocks:
                yield found.st_blocks * 512, name.removesuffix(_DELETED)


def _command(process: str) -> str:
    try:
        with open(f"{process}/comm") as file:
            return file.read().strip()
    except OSError:
        return "?"
