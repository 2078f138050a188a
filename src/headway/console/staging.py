"""What browsers have sent of their uploads: a folder for each, from which it is pushed; swept when nobody goes on.

A file is sent from its start to its end, so that its size says how much of it is there; the same bytes sent twice, also
by two at once, are written to the same place.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headway.errors import NotFoundError, RefusedError, UsageError
from headway.rules import datasets
from headway.rules.units import render_size

#: seconds after which an upload that nobody goes on with is removed
KEPT = 86_400.0
#: bytes and inodes of the disk that stay free for others
SPARE_BYTES, SPARE_FILES = 256 << 20, 1000
#: seconds for which the rest of an upload that is under way counts as taken
_UNDER_WAY = 600.0
#: of a request, bytes of files and of what says which they are
CHUNK, HEAD = 8 << 20, 4 << 20
#: files that one question may name
ASKED = 5000

_PLAN = "plan.json"
_FILES = "files"


@dataclass(frozen=True)
class Plan:
    """What an upload is to become."""

    user: str
    project: str
    #: of the dataset
    name: str
    #: by which a browser knows a selection of files again
    key: str
    files: int
    bytes: int

    @property
    def id(self) -> str:
        """The same for the same files of the same user: sent again, they go on where they were."""
        said = json.dumps([self.user, self.project, self.name, self.key, self.files, self.bytes])
        return hashlib.sha256(said.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class _Piece:
    """Bytes of one file in a request."""

    path: str
    offset: int
    bytes: int
    #: of the whole file
    total: int


class Staging:
    """folder: readable by the owner alone; made when it is not there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, plan: Plan) -> bool:
        """Makes room for an upload. Returns whether there may be something of it already.

        Raises UsageError for a name that no dataset can have or nothing to send, RefusedError (codes no_space,
        no_inodes, staging) when the disk cannot take it.
        """
        if not datasets.is_name(plan.name):
            raise UsageError(
                f"{plan.name!r} is no name of a dataset.",
                "Use up to 64 lower-case letters and digits, with . _ - inside.",
                code="bad_name",
            )
        if plan.files < 1 or plan.bytes < 0:
            raise UsageError("There is nothing to upload.", "Choose files, or a folder with files.", code="empty")
        folder = self._folder / plan.id
        with _said_as_refused(folder):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            there = (folder / _PLAN).exists()
            self._probe(plan, _amount(folder / _FILES) if there else (0, 0))
            (folder / _FILES).mkdir(parents=True, exist_ok=True)
            written = folder / f"{_PLAN}.{os.getpid()}"
            written.write_text(json.dumps(asdict(plan)))
            written.replace(folder / _PLAN)
        return there

    def plan(self, upload: str, user: str) -> Plan:
        """Raises NotFoundError (code gone) when that user has no such upload."""
        found = self._read(self._folder / upload) if upload.isalnum() else None
        if found is None or found.user != user:
            raise NotFoundError("This upload is no longer there.", "Start it again.", code="gone")
        return found

    def held(self, upload: str, paths: Sequence[Any]) -> list[int]:
        """How many bytes of each file are there; -1: none, not even an empty file."""
        if len(paths) > ASKED:
            raise UsageError(f"{len(paths)} files are too many for one question.", f"Ask for {ASKED}.")
        found = []
        for path in paths:
            try:
                found.append(os.stat(self._place(upload, path)).st_size)
            except (FileNotFoundError, NotADirectoryError):
                found.append(-1)
        return found

    def write(self, upload: str, body: bytes) -> None:
        """Keeps pieces of files: a line of JSON, [[path, offset, bytes, total], ...], and the bytes in that order.

        Raises UsageError for what is no such thing or a path that no dataset can have, RefusedError (code behind)
        for a piece that does not follow on what is there, and as `open` does for a full disk.
        """
        head = body.find(b"\n")
        pieces = _pieces(body[: max(head, 0)])
        rest = memoryview(body)[head + 1 :]
        if sum(piece.bytes for piece in pieces) != len(rest):
            raise UsageError("The request is not whole.", "Send it again.", code="cut")
        folder = self._folder / upload
        with _said_as_refused(folder):
            self._spare(len(rest), len(pieces))
            # whoever cancelled meanwhile does not get the folder back
            os.utime(folder / _PLAN)
            made = ""
            for piece in pieces:
                place = self._place(upload, piece.path)
                if place.parent.as_posix() != made:
                    made = place.parent.as_posix()
                    place.parent.mkdir(parents=True, exist_ok=True)
                _put(place, piece, rest[: piece.bytes])
                rest = rest[piece.bytes :]

    def ready(self, upload: str, plan: Plan) -> Path:
        """The folder with the files, once all of them are there. Raises RefusedError (code incomplete) before."""
        folder = self._folder / upload / _FILES
        files, size = _amount(folder)
        if (files, size) != (plan.files, plan.bytes):
            raise RefusedError(
                f"{files} of {plan.files} files and {size} of {plan.bytes} bytes are there.",
                "Send the rest.",
                code="incomplete",
            )
        return folder

    def touch(self, upload: str) -> None:
        with contextlib.suppress(OSError):
            os.utime(self._folder / upload / _PLAN)

    def remove(self, upload: str) -> None:
        folder = self._folder / upload
        # first what makes it an upload, so that nobody writes into what is being removed
        with contextlib.suppress(OSError):
            (folder / _PLAN).unlink()
        shutil.rmtree(folder, ignore_errors=True)

    def sweep(self, now: float | None = None) -> None:
        """Removes uploads that nobody has gone on with for `KEPT` seconds."""
        now = time.time() if now is None else now
        for folder in self._all():
            if now - _touched(folder) > KEPT:
                self.remove(folder.name)

    def _all(self) -> list[Path]:
        try:
            return [path for path in self._folder.iterdir() if path.is_dir()]
        except FileNotFoundError:
            return []

    def _read(self, folder: Path) -> Plan | None:
        try:
            return Plan(**json.loads((folder / _PLAN).read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def _place(self, upload: str, path: Any) -> Path:
        """Where a file lies. Raises UsageError (code bad_path) for a path that leads elsewhere."""
        fault = datasets.path_fault(path) if isinstance(path, str) else "is no text"
        if fault is not None:
            raise UsageError(f"The path {path!a} {fault}.", "Rename it, or leave it out.", code="bad_path")
        place: Path = self._folder / upload / _FILES / path
        return place

    def _probe(self, plan: Plan, there: tuple[int, int]) -> None:
        """Raises RefusedError when the disk cannot take what is to come beside what others are about to send."""
        files, size = plan.files - there[0], plan.bytes - there[1]
        for folder in self._all():
            other = self._read(folder)
            if other is None or other.id == plan.id or time.time() - _touched(folder) > _UNDER_WAY:
                continue
            their_files, their_size = _amount(folder / _FILES)
            files, size = files + other.files - their_files, size + other.bytes - their_size
        self._spare(size, files)

    def _spare(self, size: int, files: int) -> None:
        """Raises RefusedError when fewer than so many bytes and files can be had."""
        disk = os.statvfs(self._folder)
        free = disk.f_bavail * disk.f_frsize - SPARE_BYTES
        if size > free:
            raise RefusedError(
                f"The console's disk has {render_size(max(free, 0))} to spare, and {render_size(size)} are to come.",
                "Free some, or push from a terminal with `headway dataset push`.",
                code="no_space",
            )
        # file systems without a table of inodes say 0
        room = disk.f_favail - SPARE_FILES
        if disk.f_files and files > room:
            raise RefusedError(
                f"The console's disk has room for {max(room, 0)} files, and {files} are to come.",
                "Free some, or push from a terminal with `headway dataset push`.",
                code="no_inodes",
            )


def _pieces(head: bytes) -> list[_Piece]:
    """Raises UsageError."""
    try:
        pieces = [_Piece(*row) for row in json.loads(head)]
        for piece in pieces:
            numbers = (piece.offset, piece.bytes, piece.total)
            if any(type(n) is not int for n in numbers) or not 0 <= numbers[0] <= sum(numbers[:2]) <= numbers[2]:
                raise ValueError
        return pieces
    except (ValueError, TypeError) as error:
        raise UsageError(
            "The request does not say which bytes of which files it brings.", "Reload the page."
        ) from error


def _put(place: Path, piece: _Piece, content: memoryview) -> None:
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if piece.offset > size:
            raise RefusedError(f"{size} bytes of {piece.path!a} are there.", "Send it from there on.", code="behind")
        written = 0
        while written < len(content):
            written += os.pwrite(descriptor, content[written:], piece.offset + written)
    finally:
        os.close(descriptor)


def _amount(folder: Path) -> tuple[int, int]:
    """Files below a folder, and their bytes."""
    files = size = 0
    waiting = [os.fspath(folder)]
    while waiting:
        with contextlib.suppress(FileNotFoundError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    files += 1
                    size += entry.stat(follow_symlinks=False).st_size
    return files, size


def _touched(folder: Path) -> float:
    for path in (folder / _PLAN, folder):
        with contextlib.suppress(OSError):
            return path.stat().st_mtime
    return 0.0


@contextlib.contextmanager
def _said_as_refused(folder: Path) -> Iterator[None]:
    """What the disk answers, as errors with a code."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFoundError("This upload is no longer there.", "Start it again.", code="gone") from error
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
        name = Path(error.filename or "").name
        raise UsageError(f"{name!a} is a file and a folder.", "Rename one of them.", code="bad_path") from error
    except OSError as error:
        code = "no_space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "staging"
        raise RefusedError(
            f"{folder} cannot be written: {error.strerror}.", "Look after the console's disk.", code=code
        ) from error
