"""What a push is given, as a source: a folder, an archive, a single file or a URL of one of these two."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from headway.client.pushing.entries import Choice, Entry, Scan, Source, Stamp, host, ignore
from headway.client.pushing.fetch import fetch, label
from headway.client.pushing.folder import Folder
from headway.client.pushing.reading import SIGNED
from headway.errors import UsageError
from headway.rules.datasets import path_fault


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

    Raises UsageError for what is none, FailedError for a URL that breaks off.
    """
    with tempfile.TemporaryDirectory(prefix="headway-push-") as scratch:
        if is_url(str(given)):
            path, said = fetch(str(given), Path(scratch), told), label(str(given))
        else:
            path = Path(given)
            said = f"{host()}:{path.absolute()}"
        if path.is_dir():
            yield Folder(path, choice)
        elif not path.exists():
            raise UsageError(f"There is no {path}.", "Give the folder, archive or URL with the data.")
        elif not stat.S_ISREG(path.stat().st_mode):
            raise UsageError(f"{path} is no file.", "Give the folder, archive or URL with the data.")
        else:
            with _file(path, said, choice, Path(scratch)) as source:
                yield source


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
