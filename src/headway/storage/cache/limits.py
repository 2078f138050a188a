"""How much a cache may hold, and who goes when it holds more. Pure but for `measured`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.storage.full import free

#: share of a file system's inodes, and of its bytes, that a cache leaves free
LEFT = 0.02


@dataclass(frozen=True)
class Limits:
    """Above `high` it is emptied down to `low`: shares of `bytes`, or of its file system where that is None."""

    bytes: int | None = None
    high: float = 0.8
    low: float = 0.6

    @classmethod
    def from_json(cls, raw: dict[str, Any] | None) -> Limits:
        raw = raw or {}
        known = raw.get("bytes")
        return cls(None if known is None else int(known), float(raw.get("high", 0.8)), float(raw.get("low", 0.6)))


@dataclass(frozen=True)
class Disk:
    """The file system that a cache lies on. files: free inodes, total; None where they are not counted."""

    total: int
    free: int
    files: int | None = None
    all_files: int = 0


@dataclass(frozen=True)
class Need:
    bytes: int
    files: int


def measured(folder: Path) -> Disk:
    """Raises OSError."""
    bytes_, files = free(folder)
    found = os.statvfs(folder)
    return Disk(found.f_blocks * found.f_frsize, bytes_, files, found.f_files)


def marks(limits: Limits, disk: Disk) -> tuple[int, int]:
    """High and low watermark in bytes. A number of bytes that was given is the high one."""
    if limits.bytes is not None:
        return limits.bytes, int(limits.bytes * min(1.0, limits.low / limits.high))
    return int(disk.total * limits.high), int(disk.total * limits.low)


def fits(need: Need, held: int, limits: Limits, disk: Disk) -> bool:
    """Whether `need` may come to the `held` bytes."""
    return held + need.bytes <= marks(limits, disk)[0] and _beside(need, disk)


def to_free(need: Need, held: int, limits: Limits, disk: Disk) -> Need:
    """How much has to go before `need` comes; nothing while all stays below the high watermark."""
    high, low = marks(limits, disk)
    bytes_ = held + need.bytes - low if held + need.bytes > high else 0
    bytes_ = max(bytes_, need.bytes + int(disk.total * LEFT) - disk.free)
    files = 0 if disk.files is None else need.files + int(disk.all_files * LEFT) - disk.files
    return Need(max(0, bytes_), max(0, files))


def _beside(need: Need, disk: Disk) -> bool:
    """Whether the disk, which others use too, has that much."""
    if need.bytes + int(disk.total * LEFT) > disk.free:
        return False
    return disk.files is None or need.files + int(disk.all_files * LEFT) <= disk.files


@dataclass(frozen=True)
class Held:
    """A unit that may go."""

    name: str
    bytes: int
    files: int
    used_at: float


def leaving(units: Iterable[Held], need: Need) -> list[Held]:
    """The least recently used whose going frees `need`; all of them where even that does not."""
    chosen: list[Held] = []
    bytes_, files = need.bytes, need.files
    for unit in sorted(units, key=lambda u: u.used_at):
        if bytes_ <= 0 and files <= 0:
            break
        chosen.append(unit)
        bytes_ -= unit.bytes
        files -= unit.files
    return chosen
