"""What a worker says that it is done with, made sure of: on the disk, valid, and nobody else's to change.

The files of several cells are synced together, see `syncing`, and then checked by kind and rule.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import signal
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

from headway.storage import verify
from headway.storage.full import TargetFullError, full_of
from headway.storage.publish import Published, file_digest, signature
from headway.storage.quota import MANIFEST
from headway.storage.syncing import sync_all
from headway.storage.verify import InvalidError
from headway.storage.writing import Signature

_Item = TypeVar("_Item")
_Made = TypeVar("_Made")
#: threads that checks are spread over at most
_SIDE_BY_SIDE = 4
#: files of so many bytes in all are read sooner than they are handed to threads
_SMALL = 1 << 20
#: files that are open at once
_OPEN = 64
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class Settled:
    """Outputs that are on the disk and valid."""

    folder: Path
    files: list[Published]
    #: by name: what they were when they were checked
    signatures: Mapping[str, Signature]
    #: nobody else has them: they may be moved
    own: bool

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


#: why there is none: the worker's fault; nothing in the folder can be relied upon any more (run the cell again); or
#: something that nobody foresees
Unsettled = InvalidError | TargetFullError | OSError


def settle_cells(
    folders: Sequence[Path], rules: Sequence[Mapping[str, Any]], pool: ThreadPoolExecutor | None = None
) -> list[Settled | Unsettled]:
    """Of each folder the outputs that the rules ask for, synced, then checked by kind and rule.

    rules: [{"name" (`*` in its last part stands for several), "kind", "count", ...}]. pool: for checks side by side.
    """
    cells = [_Cell(folder, rules) for folder in folders]
    files = [file for cell in cells for file in cell.files.values()]
    for first in range(0, len(files), _OPEN):
        _sync(files[first : first + _OPEN])
    large = sum(file.size for file in files) > _SMALL
    return side_by_side(pool if large else None, _Cell.settled, cells)


class _File:
    """An output with that name, as it was when it was synced."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name, self.path = folder, name, folder / name
        #: None: it could not be opened, or is no regular file; its check says what it is
        self.before: Signature | None = None
        self.size = 0
        #: of a small one
        self.digest: str | None = None
        self.own = False
        self.failure: OSError | None = None

    def open(self) -> int | None:
        try:
            fd = os.open(self.path, _FLAGS)
        except OSError:
            return None
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            os.close(fd)
            return None
        self.before, self.size = (found.st_ino, found.st_size, found.st_mtime_ns), found.st_size
        between = list(Path(self.name).parents)[:-1] if "/" in self.name else []
        own = found.st_nlink == 1 and not any((self.folder / part).is_symlink() for part in between)
        self.own = own and _readable(fd, found.st_mode)
        return fd

    def synced(self, fd: int, failure: OSError | None) -> None:
        self.failure = failure
        if failure is None and self.size <= _SMALL // _OPEN:
            content = os.pread(fd, self.size + 1, 0)
            self.digest = hashlib.sha256(content).hexdigest() if len(content) == self.size else None
        self.own = self.own and _unwritten(fd)


def _sync(files: Sequence[_File]) -> None:
    opened: list[tuple[_File, int]] = []
    try:
        opened = [(file, fd) for file in files if (fd := file.open()) is not None]
        for (file, fd), failure in zip(opened, sync_all([fd for _, fd in opened]), strict=True):
            try:
                file.synced(fd, failure)
            except OSError as error:
                file.failure = error
    finally:
        for _, fd in opened:
            os.close(fd)


class _Cell:
    def __init__(self, folder: Path, rules: Sequence[Mapping[str, Any]]) -> None:
        self.folder = folder
        self.failure: Unsettled | None = None
        self._named: list[tuple[str, Mapping[str, Any]]] = []
        try:
            with full_of(folder):
                self._named = list(_named(folder, rules))
        except (InvalidError, TargetFullError, OSError) as error:
            self.failure = error
        self.files = {name: _File(folder, name) for name, _ in self._named}

    def settled(self) -> Settled | Unsettled:
        if self.failure is None:
            try:
                with full_of(self.folder):
                    return self._checked()
            except (InvalidError, TargetFullError, OSError) as error:
                self.failure = error
        return self.failure

    def _checked(self) -> Settled:
        published: dict[str, Published] = {}
        signatures: dict[str, Signature] = {}
        for name, rule in self._named:
            file = self.files[name]
            if file.failure is not None:
                raise file.failure
            before = file.before or signature(file.path)
            facts = _check(file.path, name, rule)
            digest = file.digest or file_digest(file.path)
            if signature(file.path) != before:
                raise InvalidError(f"{name}: It is still being written.", unfinished=True)
            signatures[name] = before
            published.setdefault(name, Published(name, before[1], digest, str(rule["kind"]), facts))
        own = all(file.own for file in self.files.values())
        return Settled(self.folder, list(published.values()), signatures, own)


def _named(folder: Path, rules: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for rule in rules:
        name = str(rule["name"])
        if not verify.inside(name) or name == MANIFEST:
            raise InvalidError(f"An output may not be called {name!r}.")
        if "*" not in name:
            yield name, rule
            continue
        above, _, pattern = name.rpartition("/")
        try:
            there = sorted(n for n in os.listdir(folder / above) if fnmatchcase(n, pattern) and not n.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            there = []
        found = [n for n in (f"{above}/{n}" if above else n for n in there) if n != MANIFEST]
        _check_count(name, len(found), rule.get("count"))
        for one in found:
            if one != one.encode(errors="replace").decode():
                raise InvalidError(f"{one!a} is no name in UTF-8.")
            yield one, rule


def _check_count(name: str, found: int, count: Any) -> None:
    least, dots, most = str(count if count is not None else "1..").partition("..")
    if found < int(least) or (not dots and found != int(least)) or (most and found > int(most)):
        raise InvalidError(f"{name}: {found} such files were written; {count or 'at least one'} are asked for.")


def _readable(fd: int, mode: int) -> bool:
    if mode & 0o777 != 0o644:
        try:
            os.fchmod(fd, 0o644)
        except OSError:
            return False
    return True


def _unwritten(fd: int) -> bool:
    """Whether no process has the file open to write: only then the kernel grants a lease to read."""
    try:
        # whoever opens it just now must not have us killed
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:
        return False
    return True


def _check(path: Path, name: str, rule: Mapping[str, Any]) -> verify.Facts:
    try:
        return verify.check(path, str(rule["kind"]), rule)
    except InvalidError as error:
        raise InvalidError(f"{name}: {error.reason}", unfinished=error.unfinished) from error


def side_by_side(
    pool: ThreadPoolExecutor | None, work: Callable[[_Item], _Made], items: Sequence[_Item]
) -> list[_Made]:
    """What `work` gives for each, in their order, by a few threads of the pool: each takes several."""
    if pool is None or len(items) < 2:
        return [work(item) for item in items]
    count = min(_SIDE_BY_SIDE, len(items))
    found = list(pool.map(lambda first: [work(item) for item in items[first::count]], range(count)))
    return [found[index % count][index // count] for index in range(len(items))]
