"""What a store can do and how it is, tried out: each thing a line with what it means and what to do about it."""

from __future__ import annotations

import email.utils
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from headway.rules.units import render_size
from headway.storage import diskquota
from headway.storage.full import TargetFullError, free
from headway.storage.objects import FolderStore, ObjectStore, ObstoreStore, StoreFault
from headway.storage.objects.faults import Fault

#: with less than this a folder takes hardly anything
LEAST_BYTES, LEAST_FILES = 1 << 30, 10_000
#: seconds; S3 refuses requests that are 15 minutes off
CLOCK_SECONDS = 60.0
_CONTENT = bytes(range(256)) * 1024
#: faults that the store itself told: it was reached
_TOLD = {Fault.WRONG_KEY, Fault.EXPIRED, Fault.NO_BUCKET, Fault.CLOCK, Fault.REGION, Fault.STYLE, Fault.NOT_ALLOWED}


@dataclass(frozen=True)
class Line:
    """One thing that was tried: "reach", "list", "write", "read back", "range", "sign", "delete", "clock", "space"."""

    what: str
    ok: bool
    says: str
    remedy: str = ""


class _WrongError(Exception):
    """The store did it, and it came out wrong: one sentence, and a remedy."""


def check(store: ObjectStore, now: Callable[[], float]) -> list[Line]:
    """Tries everything that headway does with a store, on an object of its own below `checks/`, which it removes.

    now: seconds since the epoch by this machine's clock. Raises nothing: a fault is a line. A fault that hinders all
    that follows ends it.
    """
    listed, fault = _try("list", lambda: _list(store))
    if fault is not None and fault.fault not in _TOLD:
        return [Line("reach", False, listed.says, listed.remedy)]
    lines = [Line("reach", True, "The store answers."), listed, *_clock(store, now)]
    if fault is None or fault.fault is Fault.NOT_ALLOWED:
        lines += _objects(store, f"checks/{os.urandom(8).hex()}")
    return lines + _space(store)


def _objects(store: ObjectStore, key: str) -> Iterator[Line]:
    written, _ = _try("write", lambda: _write(store, key))
    yield written
    if written.ok:
        for what, probe in (("read back", _read), ("range", _range), ("sign", _sign), ("delete", _delete)):
            yield _try(what, lambda probe=probe: probe(store, key))[0]  # type: ignore[misc]


def _try(what: str, probe: Callable[[], str]) -> tuple[Line, StoreFault | None]:
    """The line of a probe, which returns what it found, and the store's fault if there was one."""
    try:
        return Line(what, True, probe()), None
    except StoreFault as fault:
        return Line(what, False, fault.message, fault.remedy), fault
    except TargetFullError as full:
        return Line(what, False, full.message, full.remedy), None
    except _WrongError as wrong:
        return Line(what, False, str(wrong), "Do not keep data there before that is mended."), None
    except (OSError, LookupError) as error:
        return Line(what, False, f"It failed: {error}.", "Correct the URL, or mend what is there."), None


def _list(store: ObjectStore) -> str:
    return "Objects can be listed." if next(iter(store.details()), None) else "Objects can be listed; there are none."


def _write(store: ObjectStore, key: str) -> str:
    store.put_bytes(key, _CONTENT)
    return "An object can be written."


def _read(store: ObjectStore, key: str) -> str:
    if store.get_bytes(key) != _CONTENT:
        raise _WrongError("What was written is read back with other bytes.")
    if key not in (found.key for found in store.details("checks")):
        raise _WrongError("What was written is not listed.")
    return "It is read back as it was written, and listed."


def _range(store: ObjectStore, key: str) -> str:
    if store.get_range(key, 1000, 5000) != _CONTENT[1000:6000]:
        raise _WrongError("A range is read with other bytes.")
    if isinstance(store, ObstoreStore) and not store.ranges:
        return "A range is answered with the whole object: that works, slower where little of a pack is wanted."
    return "A range can be read."


def _sign(store: ObjectStore, key: str) -> str:
    if (url := store.sign_get(key, 300)) is None:
        return "No URLs are signed for it: files travel through headway's api."
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            content = answer.read()
    except OSError as error:
        raise _WrongError(f"A signed URL does not give the object: {error}.") from None
    if content != _CONTENT:
        raise _WrongError("A signed URL gives other bytes.")
    return "Signed URLs work: files travel straight to the store."


def _delete(store: ObjectStore, key: str) -> str:
    store.delete(key)
    if store.head(key) is not None:
        raise _WrongError("What was deleted is still there.")
    return "An object can be deleted."


def _clock(store: ObjectStore, now: Callable[[], float]) -> list[Line]:
    """How far the clocks are apart, by the Date of any answer; no line where none is given."""
    if (url := store.sign_get("checks/clock", 60)) is None:
        return []
    parts = urlsplit(url)
    try:
        with urllib.request.urlopen(f"{parts.scheme}://{parts.netloc}/", timeout=30) as answer:
            date = answer.headers.get("Date")
    except urllib.error.HTTPError as error:
        date = error.headers.get("Date")
    except OSError:
        date = None
    if not date:
        return []
    apart = email.utils.parsedate_to_datetime(date).timestamp() - now()
    if abs(apart) <= CLOCK_SECONDS:
        return [Line("clock", True, f"Its clock and this machine's are {abs(apart):.0f} s apart.")]
    said = f"Its clock is {abs(apart):.0f} s {'ahead of' if apart > 0 else 'behind'} this machine's."
    return [Line("clock", False, said, "Set the clocks (NTP): requests are refused beyond 15 minutes.")]


def _space(store: ObjectStore) -> list[Line]:
    """What a folder still takes; a cloud store tells nothing of that."""
    if not isinstance(store, FolderStore):
        return []
    try:
        space, files = free(store.folder)
    except OSError:
        return []  # writing has told what is wrong
    for quota in diskquota.left(store.folder):
        space = min(space, space if quota.free_bytes is None else quota.free_bytes)
        files = (
            quota.free_files if files is None else min(files, files if quota.free_files is None else quota.free_files)
        )
    said = f"{render_size(space)} are free" + ("." if files is None else f", for {files} files.")
    if space >= LEAST_BYTES and (files is None or files >= LEAST_FILES):
        return [Line("space", True, said)]
    return [Line("space", False, said, "Free space or inodes, raise the quota, or choose another folder.")]
