"""What publishing is made of: a name beside the target, a synced copy, one publisher at a time, a synced folder."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from headway.protocol import identity
from headway.storage.verify import InvalidError

_BLOCK = 1 << 20
#: ioctl that makes a copy share the blocks of its source (btrfs, XFS)
_FICLONE = 0x40049409
_SUFFIX = ".publishing.tmp"
#: inode, size, mtime in ns: another file, or the same written to, has another one
Signature = tuple[int, int, int]


def sweep_temporaries(folder: Path, older_than: float = 3600.0) -> int:
    """Removes what publishers that died left under `folder`; how many.

    A temporary whose publisher was of this boot goes when that process is gone; others when `older_than` seconds old.
    """
    swept = 0
    boot = identity.own().boot
    for at, folders, files in os.walk(folder):
        for name in [n for n in [*folders, *files] if n.startswith(".") and n.endswith(_SUFFIX)]:
            path = Path(at, name)
            if _abandoned(path, boot, older_than):
                with contextlib.suppress(OSError):
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
                    swept += 1
        folders[:] = [n for n in folders if not n.endswith(_SUFFIX)]
    return swept


def file_digest(path: Path) -> str:
    """SHA-256 of a file's content, hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def sync_folder(folder: Path) -> None:
    _sync(folder, os.O_DIRECTORY)


def sync_file(path: Path) -> None:
    _sync(path, os.O_NOFOLLOW)


def _sync(path: Path, flags: int) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def signature(path: Path) -> Signature:
    """(inode, size, mtime in ns). Raises InvalidError when there is no such file."""
    try:
        found = path.stat()
    except FileNotFoundError as error:
        raise InvalidError("There is no such file.") from error
    return found.st_ino, found.st_size, found.st_mtime_ns


def there(path: Path) -> bool:
    """Whether something has that name, be it a link to nothing. Raises OSError where that cannot be told."""
    try:
        path.lstat()
        return True
    except (FileNotFoundError, NotADirectoryError):
        return False


def temporary_name(target: Path) -> Path:
    """A name beside `target` that tells whose it is, so that it is swept once that process is gone."""
    me = identity.own()
    owner = f"{me.boot[:8]}-{me.pid}-{me.started}-{os.urandom(4).hex()}"
    return target.with_name(f".{target.name[:80]}.{owner}{_SUFFIX}")


@contextlib.contextmanager
def temporary(target: Path) -> Iterator[Path]:
    """A name beside `target` that tells whose it is; nothing is left there afterwards."""
    path = temporary_name(target)
    try:
        yield path
    finally:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def _abandoned(path: Path, boot: str, older_than: float) -> bool:
    owner = path.name.removesuffix(_SUFFIX).rpartition(".")[2].split("-")
    try:
        if owner[0] == boot[:8]:
            return not identity.alive(identity.Identity(int(owner[1]), int(owner[2]), boot))
        return time.time() - path.lstat().st_mtime > older_than
    except (OSError, ValueError, IndexError):
        return False


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One publisher at a time between the look and the rename. Where folders cannot be locked, the rename decides."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@contextlib.contextmanager
def aside(target: Path) -> Iterator[None]:
    """Takes what is damaged out of the way of a rename, puts it back when that fails, removes it when it does not."""
    with temporary(target) as old:
        stood = there(target)
        if stood:
            os.rename(target, old)
        try:
            yield
        except OSError:
            if stood:
                os.rename(old, target)
            raise


def copy(source: Path, target: Path, digest: str, mode: int) -> None:
    """A synced copy whose content has the digest. Raises InvalidError when the source has changed."""
    found = hashlib.sha256()
    with open(source, "rb") as file:
        fd = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            cloned = _clone(file.fileno(), fd)
            with open(fd, "rb", closefd=False) if cloned else contextlib.nullcontext(file) as origin:
                while block := origin.read(_BLOCK):
                    found.update(block)
                    if not cloned:
                        write_all(fd, block)
            os.fsync(fd)
        finally:
            os.close(fd)
    if found.hexdigest() != digest:
        raise InvalidError("It is still being written.", unfinished=True)


def share(source: Path, target: Path, expected: Signature) -> bool:
    """Makes `target` another name of the source file; False where that cannot be."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        return False
    if signature(target) == expected:
        return True
    target.unlink()
    return False


def _clone(source: int, target: int) -> bool:
    try:
        fcntl.ioctl(target, _FICLONE, source)
        return True
    except OSError:
        return False


def write(path: Path, content: bytes, mode: int, sync: bool = True) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        write_all(fd, content)
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)


def write_all(fd: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]


def made(folder: Path) -> list[Path]:
    """Makes the folder; those in which a name has appeared by it."""
    missing = []
    above = folder
    while not above.is_dir():
        missing.append(above.parent)
        above = above.parent
    folder.mkdir(parents=True, exist_ok=True)
    return missing


def strip(folder: Path, names: set[str]) -> None:
    """Removes whatever is not one of the files with these names, or a folder above one."""
    folders = {str(parent) for name in names for parent in Path(name).parents}
    waiting = [""]
    while waiting:
        at = waiting.pop()
        with os.scandir(folder / at) as entries:
            for entry in list(entries):
                name = f"{at}/{entry.name}" if at else entry.name
                if entry.is_dir(follow_symlinks=False):
                    if name in folders:
                        waiting.append(name)
                    else:
                        shutil.rmtree(entry.path)
                elif name not in names:
                    os.unlink(entry.path)
