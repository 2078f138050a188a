"""The commit protocol for the outputs of many cells at the price of a few.

A cell's outputs are staged on the file system of their target, in a folder of their own, and moved, not copied:
`settling` syncs and checks what a worker said that it is done with; `publish_cells` gives several settled folders their
manifests and renames them, with one reservation of quota, fsyncs together and one fsync for each folder that they come
to stand in. What cannot be moved safely (another file system, a second name, a writer that has it open still) is
copied, cell by cell, by `publish`.

A kill at any moment leaves each target whole or absent.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.storage import writing
from headway.storage.full import TargetFullError, from_oserror
from headway.storage.probe import probe
from headway.storage.publish import (
    Publication,
    found_folder,
    manifest_bytes,
    publish_checked,
)
from headway.storage.quota import MANIFEST, ProjectQuota
from headway.storage.settling import Settled
from headway.storage.syncing import sync_paths
from headway.storage.verify import InvalidError
from headway.storage.writing import Signature, signature

#: what became of a cell: published; wrong; not now, and all is as it was; or something that nobody foresees
Outcome = Publication | InvalidError | TargetFullError | OSError

#: errnos of a rename that only a copy can do
_ELSEWHERE = frozenset({errno.EXDEV, errno.ENOTEMPTY, errno.EEXIST})


@dataclass(frozen=True)
class Wanted:
    """A settled folder, where it is to stand, and its manifest (JSON; its "key" tells one content from another)."""

    settled: Settled
    target: Path
    manifest: dict[str, Any]


def publish_cells(wanted: Sequence[Wanted], quota: ProjectQuota | None = None) -> list[Outcome]:
    """Publishes each, and tells of each what became of it. Never raises TargetFullError, InvalidError or OSError.

    A target that verifies and has the same key is returned as found; another one is replaced. What is TargetFullError
    is staged still, to be asked for again.
    """
    return _Group(wanted, quota).outcomes()


class _Group:
    def __init__(self, wanted: Sequence[Wanted], quota: ProjectQuota | None) -> None:
        self._wanted, self._quota = wanted, quota
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
        self._sync([([index], path) for index in indices for path in self._inside(index)])
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
        self._sync([(sorted(indices), folder) for folder, indices in folders.items() if indices])

    def _sync(self, wanted: list[tuple[list[int], Path]]) -> None:
        """Syncs manifests and folders; a failure takes back what became of their cells."""
        for (indices, path), error in zip(wanted, sync_paths([path for _, path in wanted]), strict=True):
            if error is not None:
                for index in indices:
                    if not isinstance(self._outcomes.get(index), InvalidError):
                        self._outcomes[index] = from_oserror(error, path) or error

    # -- copying

    def _copy(self, index: int) -> None:
        one = self._wanted[index]
        settled = one.settled
        self._outcomes[index] = publish_checked(settled.folder, one.target, settled.files, one.manifest, self._quota)


def _signature(path: Path) -> Signature | None:
    try:
        return signature(path)
    except InvalidError:
        return None
