"""A file's bytes, read into place and hashed, as they stood at one moment."""

from __future__ import annotations

import os
from collections.abc import Callable

from headway.client.pushing.entries import Entry, Source, Stamp
from headway.client.pushing.packing import digest
from headway.errors import UsageError

#: times that a file which changes under the reading is read again
_TRIES = 3
#: what SQLite can hold of a number
SIGNED = (1 << 63) - 1


def changed(entry: Entry) -> UsageError:
    return UsageError(f"{entry.path} changes while it is read.", "Push again once it is still.", code="changing")


def small(source: Source, entry: Entry, place: Callable[[Entry], memoryview]) -> tuple[Entry, str]:
    """The entry as it was read, and its SHA-256. place: gives the bytes' place for an entry of that size.

    Raises UsageError when it changes again and again, or cannot be read.
    """
    for _ in range(_TRIES):
        fd = opened(source, entry)
        try:
            found = as_it_is(fd, entry)
            view = place(found)
            if fill(fd, view, found) and as_it_is(fd, found) == found:
                return found, digest(view)
        finally:
            os.close(fd)
        if entry.stamp is None:
            break
    raise changed(entry)


def opened(source: Source, entry: Entry) -> int:
    try:
        return source.open(entry)
    except FileNotFoundError:
        raise UsageError(f"{entry.path} is gone since the push began.", "Push again.", code="changing") from None
    except OSError as error:
        raise _unreadable(entry, error) from None


def _unreadable(entry: Entry, error: OSError) -> UsageError:
    return UsageError(
        f"{entry.path} cannot be read ({error.strerror}).",
        "Make it readable, or give --skip-unreadable to leave such files out.",
    )


def as_it_is(fd: int, entry: Entry) -> Entry:
    """With size and times of now; a member of an archive stays as it is listed."""
    if entry.stamp is None:
        return entry
    facts = os.fstat(fd)
    stamp = (facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino & SIGNED)
    if (facts.st_size, stamp) == (entry.bytes, entry.stamp):
        return entry
    return Entry(entry.path, facts.st_size, Stamp(*stamp), entry.offset)


def fill(fd: int, view: memoryview, entry: Entry, start: int = 0) -> bool:
    """Reads the entry's bytes from `start` on until the view is full; False when it ends before."""
    done = 0
    try:
        while done < len(view):
            read = os.preadv(fd, [view[done:]], entry.offset + start + done)
            if not read:
                return False
            done += read
    except OSError as error:
        raise _unreadable(entry, error) from None
    return True
