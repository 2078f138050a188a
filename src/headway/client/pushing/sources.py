"""What a push is given, as a source: a folder, an archive, a single file or a URL of one of these two."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from headway.client.pushing.entries import Choice, Entry, Scan, Source, Stamp, host, ignore
from headway.client.pushing.fetch import fetch, label
from headway.client.pushing.folder import Folder
from headway.client.pushing.reading import SIGNED
from headway.errors import FailedError, UsageError
from headway.rules.datasets import path_fault

#: how names of folders for temporary files begin, and seconds for which one may be unlocked
_SCRATCH, _YOUNG = "headway-push-", 60.0


def is_url(given: str) -> bool:
    return given.startswith(("http://", "https://"))


class SingleFile:
    """A version of one file."""

    def __init__(self, path: Path, label: str) -> None:
        self.label = label
        self.root = os.path.dirname(os.path.abspath(path))
        self._path = path

    def scan(self, each: Callable[[Entry], None] = ignore) -> Scan:
        fault = path_fault(self._path.name)
        if fault:
            raise UsageError(f"The name of {str(self._path)!r} {fault}.", "Rename it.")
        if not os.access(self._path, os.R_OK, effective_ids=True):
            raise UsageError(f"{self._path} cannot be read.", "Make it readable.")
        for entry in self.entries():
            each(entry)
        return Scan(1, self._path.stat().st_size)

    def entries(self) -> Iterator[Entry]:
        facts = self._path.stat()
        stamp = Stamp(facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino & SIGNED)
        yield Entry(self._path.name, facts.st_size, stamp)

    def open(self, entry: Entry) -> int:
        return os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)


@contextlib.contextmanager
def opened(
    given: Path | str, choice: Choice, told: Callable[[int, int], None] = lambda done, total: None
) -> Iterator[Source]:
    """The source, with its temporary files until the block ends. told: (bytes, bytes in all) of what is fetched.

    Raises UsageError for what is none, FailedError for a URL that breaks off, or where no temporary file can be made.
    """
    path = Path(given)
    if is_url(str(given)):
        with scratch_folder() as scratch:
            fetched = fetch(str(given), scratch, told)
            with _file(fetched, label(str(given)), choice, scratch) as source:
                yield source
    elif path.is_dir():
        yield Folder(path, choice)
    elif not path.exists():
        raise UsageError(f"There is no {path}.", "Give the folder, archive or URL with the data.")
    elif not stat.S_ISREG(path.stat().st_mode):
        raise UsageError(f"{path} is no file.", "Give the folder, archive or URL with the data.")
    else:
        with scratch_folder() as scratch, _file(path, f"{host()}:{path.absolute()}", choice, scratch) as source:
            yield source


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for temporary files; what a push that was killed left in its own is removed. Raises FailedError."""
    with contextlib.ExitStack() as stack:
        try:
            base = Path(tempfile.gettempdir())
            for left in base.glob(f"{_SCRATCH}*"):
                _sweep(left)
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix=_SCRATCH, ignore_cleanup_errors=True))
            # held for as long as the push lives
            stack.callback(os.close, _lock(Path(folder)))
        except OSError as error:
            raise FailedError(
                f"There is no place for temporary files ({error.strerror or error}).",
                "Free space in the temporary folder, or set TMPDIR to another one.",
                code="no_space",
            ) from None
        yield Path(folder)


def _sweep(left: Path) -> None:
    """Removes a scratch folder whose push lives no more: nobody holds it. One just made is not held yet."""
    with contextlib.suppress(OSError):
        if time.time() - left.lstat().st_mtime < _YOUNG:
            return
        fd = _lock(left)
        try:
            shutil.rmtree(left, ignore_errors=True)
        finally:
            os.close(fd)


def _lock(folder: Path) -> int:
    """Raises OSError where another one holds it, or it is no folder of ours."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd


@contextlib.contextmanager
def _file(path: Path, label: str, choice: Choice, scratch: Path) -> Iterator[Source]:
    # what reads archives takes longer to import than a folder that is unchanged to be looked through
    from headway.client.pushing.archives import FOREIGN, Archive, is_archive

    if path.name.lower().endswith(FOREIGN):
        raise UsageError(
            f"{path.name} is of a kind that is not read here.", "Give a tar (also .gz, .xz, .bz2) or a zip."
        )
    if is_archive(path.name):
        with contextlib.closing(Archive(path, label, choice, scratch)) as archive:
            yield archive
    else:
        yield SingleFile(path, label)
