"""Units: what is fetched, locked and evicted as one, and what of it is held in a cache's folder."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from headway.protocol import identity
from headway.storage.writing import file_digest

#: every content has this modification time (seconds): one that was written to since does not
HELD_AT = 946_684_800
#: seconds after which a content is read and checked again
TRUST_SECONDS = 7 * 86_400.0
NOTE = "note.json"
#: what a file takes is a multiple of this
_PAGE = 4096


@dataclass(frozen=True)
class Content:
    """The bytes of one file."""

    sha256: str
    bytes: int
    #: where they begin in their unit
    offset: int
    #: one of the files that hold it, for people
    path: str


@dataclass(frozen=True)
class Unit:
    """A sequence of bytes made of objects in a store, and what of it is wanted."""

    #: SHA-256 of the pack, or of the large file
    name: str
    #: (key, bytes) of the objects, one after another; bytes None: to the end
    objects: tuple[tuple[str, int | None], ...]
    #: by offset
    contents: tuple[Content, ...]

    @property
    def bytes(self) -> int:
        return sum(c.bytes for c in self.contents)


@dataclass
class Note:
    """What `note.json` says of a unit."""

    #: on disk, of what is held
    bytes: int = 0
    files: int = 0
    #: what it is going to take, once what is being fetched is there
    reserved: int = 0
    #: when and in which boot its contents were read whole
    verified_at: float = 0.0
    boot: str = ""

    def trusted(self, now: float) -> bool:
        return self.boot == identity.own().boot and 0 <= now - self.verified_at < TRUST_SECONDS


def on_disk(sizes: Iterable[int]) -> int:
    """Bytes that files of these sizes take, about."""
    return sum(-(-size // _PAGE) * _PAGE for size in sizes)


class UnitFolder:
    """`units/<sha256>` of a cache. Only who holds `locked` adds or removes contents."""

    def __init__(self, cache: Path, name: str) -> None:
        self.name = name
        self.path = cache / "units" / name
        self._lock = cache / "locks" / name

    def content(self, sha256: str) -> Path:
        return self.path / sha256

    @contextlib.contextmanager
    def locked(self, *, wait: bool = True) -> Iterator[bool]:
        """One at a time, over processes and threads; False when `wait` is not and somebody else is at it."""
        self._lock.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            yield True
        finally:
            os.close(fd)

    def holds(self, content: Content) -> bool:
        """Whether it is there, and nobody wrote to it since."""
        return whole(self.content(content.sha256), content.bytes)

    def missing(self, contents: Iterable[Content]) -> list[Content]:
        return [c for c in contents if not self.holds(c)]

    def verify(self) -> list[str]:
        """Reads all that is held and removes what is not what its name says; the SHA-256 of what was removed."""
        removed = []
        for sha256 in self._held():
            path = self.content(sha256)
            if not whole(path) or file_digest(path) != sha256:
                path.unlink(missing_ok=True)
                removed.append(sha256)
        return removed

    def measure(self) -> tuple[int, int]:
        """Bytes on disk and number of what is held."""
        sizes = [self.content(sha256).lstat().st_size for sha256 in self._held()]
        return on_disk(sizes), len(sizes)

    def _held(self) -> list[str]:
        try:
            return [name for name in os.listdir(self.path) if len(name) == 64]
        except FileNotFoundError:
            return []

    # -- the note

    def note(self) -> Note:
        """A new one where there is none, or one that cannot be read."""
        try:
            return Note(**json.loads((self.path / NOTE).read_bytes()))
        except (OSError, ValueError, TypeError):
            return Note()

    def write_note(self, note: Note) -> None:
        """Raises OSError."""
        self.path.mkdir(parents=True, exist_ok=True)
        temporary = self.path / f".{NOTE}.{os.getpid()}.{os.urandom(3).hex()}"
        try:
            temporary.write_text(json.dumps(asdict(note)))
            os.replace(temporary, self.path / NOTE)
        finally:
            temporary.unlink(missing_ok=True)

    def used_at(self) -> float:
        """0.0: never."""
        try:
            return (self.path / NOTE).stat().st_mtime
        except OSError:
            return 0.0

    def use(self, now: float | None = None) -> None:
        with contextlib.suppress(OSError):
            moment = time.time() if now is None else now
            os.utime(self.path / NOTE, (moment, moment))

    def remove(self) -> None:
        """At once for whoever looks. Raises OSError when it cannot be taken away."""
        trash = self.path.parent / f".{self.name}.{os.urandom(4).hex()}"
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.path, trash)
            shutil.rmtree(trash, ignore_errors=True)
        self._lock.unlink(missing_ok=True)


def whole(path: Path, size: int | None = None) -> bool:
    """Whether a content's file has that size and was not written to."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return found.st_mtime_ns == HELD_AT * 10**9 and size in (None, found.st_size)


def seal(fd: int) -> None:
    """Makes a verified file read-only and says by its time that it is whole."""
    os.fchmod(fd, 0o444)
    os.utime(fd, (HELD_AT, HELD_AT))
