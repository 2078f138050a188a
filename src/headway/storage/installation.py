"""Which headway a root belongs to: what several leave beside each other on one disk, each tells apart by it."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from pathlib import Path

#: in the root: eight hexadecimal digits, written once by whoever needs them first
_FILE = "installation"


@functools.lru_cache(maxsize=64)
def name_of(root: Path) -> str:
    """Eight hexadecimal digits. A root that takes no writes goes by its path. Raises OSError when it cannot be read."""
    if found := _read(root / _FILE):
        return found
    try:
        return lasting_name_of(root)
    except OSError:
        return hashlib.sha256(os.fsencode(root)).hexdigest()[:8]


def lasting_name_of(root: Path) -> str:
    """The same, of a root that has it written down. Raises OSError where it cannot be written."""
    place = root / _FILE
    if found := _read(place):
        return found
    fresh = root / f".{_FILE}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
    try:
        fresh.write_text(os.urandom(4).hex() + "\n")
        with contextlib.suppress(FileExistsError):
            # whole or not there, and of two that come at once the second takes what the first wrote
            os.link(fresh, place)
    finally:
        fresh.unlink(missing_ok=True)
    return place.read_text().strip()[:8]


def _read(place: Path) -> str:
    try:
        return place.read_text().strip()[:8]
    except (FileNotFoundError, NotADirectoryError):
        return ""
