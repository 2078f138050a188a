"""Copies a version, or what is below a path of it, into a folder; a pull that broke off goes on where it was."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from headway.client.contents import Version
from headway.errors import FailedError, UsageError
from headway.rules.datasets import folded, path_fault
from headway.wire.datasets import PlacedRow

_STAGING = ".headway-pull-"
#: seconds after which what a killed pull left is removed
_LEFT = 86_400.0
_BLOCK = 1 << 20


@dataclass
class Pulled:
    files: int = 0
    bytes: int = 0
    #: that had to be fetched; the others were there
    fetched_files: int = 0
    fetched_bytes: int = 0


def pull(
    version: Version,
    into: Path,
    *,
    path: str = "",
    force: bool = False,
    told: Callable[[Pulled], None] = lambda pulled: None,
) -> Pulled:
    """Every file gets its name when it is whole and checked; one that is there with the same content stays.

    path: only that file, or those below that folder. force: replace files with other contents, instead of refusing.
    Raises UsageError for a folder that cannot take them, FailedError for contents that are not the version's.
    """
    try:
        into.mkdir(parents=True, exist_ok=True)
        with _staging(into) as staging:
            return _Pull(into, staging, force, told).run(version, path.rstrip("/"))
    except OSError as error:
        raise FailedError(
            f"{into} cannot take the files ({error.strerror or error}).", "Put that right, and pull again: it goes on."
        ) from None


@contextlib.contextmanager
def _staging(into: Path) -> Iterator[Path]:
    """A folder for unfinished files, on the disk of the finished ones; those of killed pulls go."""
    for left in into.glob(f"{_STAGING}*"):
        if time.time() - left.stat().st_mtime > _LEFT:
            shutil.rmtree(left, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=_STAGING, dir=into))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


class _Pull:
    def __init__(self, into: Path, staging: Path, force: bool, told: Callable[[Pulled], None]) -> None:
        self._into, self._staging, self._force, self._told = into, staging, force, told
        self._done = Pulled()
        self._folders = {into}
        #: paths as a disk that ignores case sees them; None where the disk does not
        self._seen: dict[str, str] | None = {} if _ignores_case(staging) else None

    def run(self, version: Version, below: str) -> Pulled:
        for row, pieces in version.contents(self._missing(version.places(below))):
            target = self._into / row.path
            self._make_folder(target.parent)
            fresh = self._staging / "file"
            with open(fresh, "wb") as out:
                out.writelines(pieces)
            os.replace(fresh, target)
            self._done.fetched_files += 1
            self._done.fetched_bytes += row.bytes
            self._count(row)
        if not self._done.files:
            raise UsageError(
                f"{version.name}@{version.version} has no file {below!r} and no such folder.",
                f"`headway dataset ls {version.name}@{version.version}` lists its files.",
            )
        return self._done

    def _count(self, row: PlacedRow) -> None:
        self._done.files += 1
        self._done.bytes += row.bytes
        self._told(self._done)

    def _missing(self, rows: Iterator[PlacedRow]) -> Iterator[PlacedRow]:
        """Those that are not there; each is looked at before it is asked for."""
        for row in rows:
            fault = path_fault(row.path)
            if fault:
                raise FailedError(f"The path {row.path!r} {fault}.", "Do not trust this version.")
            self._check_case(row.path)
            target = self._into / row.path
            self._check_folders(target.parent)
            if _holds(target, row):
                self._count(row)
                continue
            if os.path.lexists(target) and not (self._force and not target.is_dir()):
                raise UsageError(
                    f"{target} is there and is not what {row.path!r} of the version is.",
                    "Pull into another folder, or give --force to replace such files.",
                )
            yield row

    def _check_case(self, path: str) -> None:
        if self._seen is None:
            return
        other = self._seen.setdefault(folded(path), path)
        if other != path:
            raise UsageError(
                f"{path!r} and {other!r} are one file on the disk of {self._into}, which ignores case.",
                "Pull to another disk, or one of them with --path.",
            )

    def _check_folders(self, folder: Path) -> None:
        """Refuses a link in the way, which might lead out."""
        way = []
        while folder not in self._folders:
            way.append(folder)
            folder = folder.parent
        for at in reversed(way):
            try:
                kind = os.lstat(at).st_mode
            except FileNotFoundError:
                return
            if not stat.S_ISDIR(kind):
                raise UsageError(f"{at} is no folder, and one is needed there.", "Pull into another folder.")
            self._folders.add(at)

    def _make_folder(self, folder: Path) -> None:
        if folder not in self._folders:
            self._make_folder(folder.parent)
            with contextlib.suppress(FileExistsError):
                folder.mkdir()
            self._check_folders(folder)


def _holds(target: Path, row: PlacedRow) -> bool:
    """Whether the file is there already, by its content."""
    try:
        facts = os.lstat(target)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size != row.bytes:
            return False
        found = hashlib.sha256()
        with open(target, "rb") as file:
            while block := file.read(_BLOCK):
                found.update(block)
        return found.hexdigest() == row.sha256
    except FileNotFoundError:
        return False


def _ignores_case(folder: Path) -> bool:
    (folder / "case").touch()
    try:
        return (folder / "CASE").exists()
    finally:
        (folder / "case").unlink()
