"""Placing: the folder that a run sees. Its folders are the run's own, its files are the cache's contents."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from headway.storage.cache.units import seal

#: ioctl that makes a copy share the blocks of its source (btrfs, XFS)
_FICLONE = 0x40049409
_BLOCK = 1 << 20


class Placer:
    """Makes files below one folder. Each is a reflink of its content where the disk can do that, else a hard link."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made: set[str] = set()
        self._reflinks = True

    def add(self, path: str, content: Path) -> None:
        """`content` on another file system is linked to by its path. Raises OSError."""
        head, _, _ = path.rpartition("/")
        if head not in self._made:
            (self.folder / head).mkdir(parents=True, exist_ok=True)
            self._made.add(head)
        target = self.folder / path
        if self._reflinks and self._reflink(content, target):
            return
        try:
            os.link(content, target)
        except OSError:
            # a file has so many names at most (65,000 on ext4)
            if content.stat().st_dev == self.folder.stat().st_dev:
                _copy(content, target)
            else:
                os.symlink(content, target)

    def _reflink(self, content: Path, target: Path) -> bool:
        with open(content, "rb", buffering=0) as source:
            if os.fstat(source.fileno()).st_size == 0:
                return False
            fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                fcntl.ioctl(fd, _FICLONE, source.fileno())
                seal(fd)
                return True
            except OSError:
                self._reflinks = False
                target.unlink()
                return False
            finally:
                os.close(fd)


def _copy(content: Path, target: Path) -> None:
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    # buffered: an unbuffered file takes less than it is given when the disk is almost full, and raises nothing
    with open(content, "rb", buffering=0) as source, open(fd, "wb") as out:
        shutil.copyfileobj(source, out, _BLOCK)
        out.flush()
        seal(out.fileno())


def place(folder: Path, files: Iterable[tuple[str, Path]]) -> bool:
    """Makes `folder` with these files (path in it, its content), whole or not at all; False: it is there already.

    Several helpers of one run on one machine make it once. Raises OSError.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _alone(folder.parent):
        if folder.is_dir():
            return False
        for left in folder.parent.glob(f".{folder.name}.*.placing"):
            shutil.rmtree(left, ignore_errors=True)  # we hold the lock: whoever made it is dead
        scratch = folder.parent / f".{folder.name}.{os.getpid()}.placing"
        try:
            scratch.mkdir()
            placer = Placer(scratch)
            for path, content in files:
                placer.add(path, content)
            os.rename(scratch, folder)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
    return True


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
