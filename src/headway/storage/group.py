"""The commit protocol for the outputs of many cells at the price of a few.

A cell's outputs are staged on the file system of their target, in a folder of their own, and moved, not copied:
`settle` syncs and checks what a worker said that it is done with; `publish_cells` gives several settled folders their
manifests and renames them, with one reservation of quota, fsyncs side by side and one fsync for each folder that they
come to stand in. What cannot be moved safely (another file system, a second name, a writer that has it open still) is
copied, cell by cell, by `publish`.

A kill at any moment leaves each target whole or absent.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

from headway.storage import verify, writing
from headway.storage.full import TargetFullError, from_oserror, full_of
from headway.storage.probe import probe
from headway.storage.publish import (
    Publication,
    Published,
    file_digest,
    found_folder,
    manifest_bytes,
    publish_checked,
    sync_folder,
)
from headway.storage.quota import MANIFEST, ProjectQuota
from headway.storage.verify import InvalidError
from headway.storage.writing import Signature, signature, sync_file

#: what became of a cell: published; wrong; not now, and all is as it was; or something that nobody foresees
Outcome = Publication | InvalidError | TargetFullError | OSError

_Item = TypeVar("_Item")
_Made = TypeVar("_Made")
#: threads that a group is spread over at most
_SIDE_BY_SIDE = 4
#: errnos of a rename that only a copy can do
_ELSEWHERE = frozenset({errno.EXDEV, errno.ENOTEMPTY, errno.EEXIST})
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


@dataclass(frozen=True)
class Wanted:
    """A settled folder, where it is to stand, and its manifest (JSON; its "key" tells one content from another)."""

    settled: Settled
    target: Path
    manifest: dict[str, Any]


def settle(folder: Path, rules: Sequence[Mapping[str, Any]]) -> Settled:
    """The outputs in `folder` that the rules ask for, synced, then checked by kind and rule.

    rules: [{"name" (`*` in its last part stands for several), "kind", "count", ...}]. Raises InvalidError (the worker's
    fault), TargetFullError (nothing in the folder can be relied upon any more: run the cell again) or OSError.
    """
    files: dict[str, Published] = {}
    signatures: dict[str, Signature] = {}
    own = True
    with full_of(folder):
        for name, rule in _named(folder, rules):
            path = folder / name
            own = _synced(path, folder) and own
            before = signature(path)
            facts = _check(path, name, rule)
            digest = file_digest(path)
            if signature(path) != before or signatures.setdefault(name, before) != before:
                raise InvalidError(f"{name}: It is still being written.", unfinished=True)
            files.setdefault(name, Published(name, before[1], digest, str(rule["kind"]), facts))
    return Settled(folder, list(files.values()), signatures, own)


def publish_cells(
    wanted: Sequence[Wanted], quota: ProjectQuota | None = None, pool: ThreadPoolExecutor | None = None
) -> list[Outcome]:
    """Publishes each, and tells of each what became of it. Never raises TargetFullError, InvalidError or OSError.

    A target that verifies and has the same key is returned as found; another one is replaced. What is TargetFullError
    is staged still, to be asked for again. pool: for fsyncs side by side.
    """
    return _Group(wanted, quota, pool).outcomes()


class _Group:
    def __init__(self, wanted: Sequence[Wanted], quota: ProjectQuota | None, pool: ThreadPoolExecutor | None) -> None:
        self._wanted, self._quota, self._pool = wanted, quota, pool
        self._outcomes: dict[int, Outcome] = {}
        #: indices of targets at which nothing stands yet
        self._absent: set[int] = set()
        #: index -> its publication and manifest, once it may be renamed
        self._ready: dict[int, Publication] = {}
        #: index -> bytes of its manifest
        self._notes: dict[int, int] = {}
        #: folders in which a name has appeared -> the cells that stand or fall with it
        self._appeared: dict[Path, set[int]] = {}

    def outcomes(self) -> list[Outcome]:
        movable: list[int] = []
        copied: list[int] = []
        for index, one in enumerate(self._wanted):
            if not self._attempt([index], lambda index=index: self._find(index)):  # type: ignore[misc]
                continue
            if index in self._outcomes:
                continue
            (movable if index in self._absent and one.settled.own else copied).append(index)
        if movable:
            copied += self._move(movable)
        else:
            self._sync_appeared()
        for index in sorted(copied):
            self._attempt([index], lambda index=index: self._copy(index))  # type: ignore[misc]
        return [self._outcomes[index] for index in range(len(self._wanted))]

    def _attempt(self, indices: Iterable[int], work: Callable[[], Any]) -> bool:
        """Whether the work was done. What hinders it is the outcome of these cells, unless they have one."""
        try:
            work()
            return True
        except (TargetFullError, InvalidError) as error:
            failed: Outcome = error
        except OSError as error:
            place = next((self._wanted[i].target.parent for i in indices), Path("/"))
            failed = from_oserror(error, place) or error
        for index in indices:
            self._outcomes.setdefault(index, failed)
        return False

    def _find(self, index: int) -> None:
        one = self._wanted[index]
        if not writing.there(one.target):
            self._absent.add(index)
        elif (there := found_folder(one.target, one.manifest.get("key"))) is not None:
            # whoever renamed it may have died before it was synced
            self._appeared.setdefault(one.target.parent, set()).add(index)
            self._outcomes[index] = there

    # -- moving

    def _move(self, indices: list[int]) -> list[int]:
        """Those that turned out to need a copy."""
        ready = [i for i in indices if self._attempt([i], lambda i=i: self._make_ready(i))]  # type: ignore[misc]
        if not ready:
            self._sync_appeared()
            return []
        sizes = [(self._wanted[i].target, *self._size(i)) for i in ready]
        again: list[int] = []
        try:
            with self._reserved(sizes) as (taken, hinders):
                for index in ready[taken:]:
                    assert hinders is not None
                    self._outcomes[index] = hinders
                again = self._commit(ready[:taken])
        except TargetFullError as full:
            for index in ready:
                self._outcomes.setdefault(index, full)
            self._sync_appeared()
        except OSError as error:
            for index in ready:
                place = self._wanted[index].target.parent
                self._outcomes.setdefault(index, from_oserror(error, place) or error)
        return again

    @contextlib.contextmanager
    def _reserved(self, sizes: list[tuple[Path, int, int]]) -> Iterator[tuple[int, TargetFullError | None]]:
        if self._quota is None:
            yield len(sizes), None
        else:
            with self._quota.reserve_group(sizes) as found:
                yield found

    def _size(self, index: int) -> tuple[int, int]:
        files = self._ready[index].files
        return sum(f.bytes for f in files) + self._notes[index], len(files) + 1

    def _make_ready(self, index: int) -> None:
        """The manifest, the folder of the target, and nothing in the staged folder but what is declared."""
        one = self._wanted[index]
        publication = Publication(os.urandom(16).hex(), one.settled.files, manifest=one.manifest)
        parent = one.target.parent
        if parent not in self._appeared:
            for folder in writing.made(parent):
                self._appeared.setdefault(folder, set()).add(index)
            self._appeared[parent] = set()
            probe(parent, bytes=4096, files=2, write=False)
        writing.strip(one.settled.folder, {file.name for file in one.settled.files})
        note = manifest_bytes(publication)
        writing.write(one.settled.folder / MANIFEST, note, 0o644, sync=False)
        self._ready[index] = publication
        self._notes[index] = len(note)

    def _commit(self, indices: list[int]) -> list[int]:
        """Syncs, renames, syncs. Those that turned out to need a copy."""
        self._side_by_side([([index], path) for index in indices for path in self._inside(index)])
        left = [index for index in indices if index not in self._outcomes]
        again = []
        with contextlib.ExitStack() as locks:
            for parent in sorted({self._wanted[index].target.parent for index in left}):
                locks.enter_context(writing.alone(parent))
            for index in left:
                if not self._attempt([index], lambda index=index: self._rename(index)):  # type: ignore[misc]
                    continue
                if index not in self._outcomes:
                    again.append(index)
            self._sync_appeared()
        return again

    def _inside(self, index: int) -> list[Path]:
        """What was not synced when the files were: the manifest and all folders."""
        settled = self._wanted[index].settled
        below = {str(part) for file in settled.files if "/" in file.name for part in Path(file.name).parents}
        return [settled.folder / MANIFEST, *(settled.folder / part for part in sorted(below | {"."}))]

    def _rename(self, index: int) -> None:
        """Leaves no outcome where the target cannot be had by a move."""
        one = self._wanted[index]
        if writing.there(one.target):
            if (there := found_folder(one.target, one.manifest.get("key"))) is not None:
                self._outcomes[index] = there
            return
        try:
            os.rename(one.settled.folder, one.target)
        except OSError as error:
            if error.errno in _ELSEWHERE:
                return
            raise
        self._appeared.setdefault(one.target.parent, set()).add(index)
        for name, before in one.settled.signatures.items():
            if _signature(one.target / name) != before:
                os.rename(one.target, one.settled.folder)
                raise InvalidError(f"{name}: It is still being written.", unfinished=True)
        self._outcomes[index] = self._ready[index]

    def _sync_appeared(self) -> None:
        folders, self._appeared = self._appeared, {}
        self._side_by_side([(sorted(indices), folder) for folder, indices in folders.items() if indices])

    def _side_by_side(self, wanted: list[tuple[list[int], Path]]) -> None:
        """Syncs manifests and folders; a failure takes back what became of their cells."""
        paths = [path for _, path in wanted]
        done = side_by_side(self._pool, _failure, paths)
        for (indices, path), error in zip(wanted, done, strict=True):
            if error is not None:
                for index in indices:
                    if not isinstance(self._outcomes.get(index), InvalidError):
                        self._outcomes[index] = from_oserror(error, path) or error

    # -- copying

    def _copy(self, index: int) -> None:
        one = self._wanted[index]
        settled = one.settled
        self._outcomes[index] = publish_checked(settled.folder, one.target, settled.files, one.manifest, self._quota)


def side_by_side(
    pool: ThreadPoolExecutor | None, work: Callable[[_Item], _Made], items: Sequence[_Item]
) -> list[_Made]:
    """What `work` gives for each, in their order, by a few threads of the pool: each takes several at once."""
    if pool is None or len(items) < 2:
        return [work(item) for item in items]
    count = min(_SIDE_BY_SIDE, len(items))
    found = list(pool.map(lambda first: [work(item) for item in items[first::count]], range(count)))
    return [found[index % count][index // count] for index in range(len(items))]


def _failure(path: Path) -> OSError | None:
    try:
        sync_file(path) if path.name == MANIFEST else sync_folder(path)
        return None
    except OSError as error:
        return error


# -- one file


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


def _synced(path: Path, folder: Path) -> bool:
    """Syncs a file; whether it may be moved: nobody else has it or can write to it, and all may read it."""
    try:
        fd = os.open(path, _FLAGS)
    except OSError:
        return False  # the check says what it is
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return False
        os.fsync(fd)
        between = list(path.relative_to(folder).parents)[:-1]
        if found.st_nlink != 1 or any((folder / part).is_symlink() for part in between):
            return False
        return _readable(fd, found.st_mode) and _unwritten(fd)
    finally:
        os.close(fd)


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


def _signature(path: Path) -> Signature | None:
    try:
        return signature(path)
    except InvalidError:
        return None
