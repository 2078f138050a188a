"""Files of another format as a folder, which can be pushed."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.client.convert import target
from headway.client.convert.member import Format, Member
from headway.errors import RefusedError, UsageError
from headway.rules.datasets import path_fault
from headway.rules.units import render_size

#: what is unpacked may be so many times what it is unpacked from; less than this is no matter
_RATIO, _HARMLESS = 200, 1 << 30


@dataclass(frozen=True)
class Unpacked:
    files: int
    bytes: int


def unpack(
    sources: Sequence[tuple[Path, Format]],
    into: Path,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Unpacked:
    """Writes every file that the sources hold into a folder that is empty or not there.

    When it fails the folder is empty again. progress: told (sources done, in all).
    Raises UsageError for a source that is damaged, holds a path that leads out of the folder or a path twice, or
    whose content is not its SHA-256; RefusedError for a folder that is not empty, and where there is no room for what
    comes, or far more comes than could be meant; FailedError when the disk does not take it.
    """
    packed = sum(_size(path) for path, _ in sources)
    if target.begin(into, {"unpack": [str(path.absolute()) for path, _ in sources]}):
        raise RefusedError(
            f"{into} is left of an unpacking that was cut off.", f"Remove it: rm -r {into}.", code="not_empty"
        )
    with target.emptied_on_error(into):
        room = _Room(into, packed)
        files = size = 0
        for number, (path, form) in enumerate(sources):
            progress(number, len(sources))
            for member in form.read(path):
                _write(path, into, member, room)
                files += 1
                size += member.size
        if not files:
            raise UsageError("There are no files in it.", "Name the files that `headway dataset pack` wrote.")
        progress(len(sources), len(sources))
        os.sync()  # once for all files: one by one takes longer than writing them
        target.finish(into)
    return Unpacked(files, size)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", "Name files that are there.") from None


class _Room:
    """Counts what is written, before it is."""

    def __init__(self, folder: Path, packed: int) -> None:
        self._free, self._packed, self._written = shutil.disk_usage(folder).free, packed, 0
        self._folder = folder

    def take(self, count: int) -> None:
        """Raises RefusedError."""
        self._written += count
        if self._written > self._free:
            raise RefusedError(
                f"{self._folder} has no room for it: {render_size(self._free)} were free.",
                "Make room there, or name another folder.",
                code="no_space",
            )
        if self._written > max(_HARMLESS, self._packed * _RATIO):
            raise RefusedError(
                f"Over {render_size(_HARMLESS)} come out of {render_size(self._packed)}: this looks like a bomb.",
                "If it is none, unpack it by other means and push the folder.",
                code="bomb",
            )


def _write(source: Path, into: Path, member: Member, room: _Room) -> None:
    path = into / member.path
    if fault := path_fault(member.path):
        raise UsageError(f"{source}: {member.path!r} {fault}.", "Make it anew without that file.")
    digest = hashlib.sha256()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # a file that is there is none of ours to write over: the folder was empty
        with open(path, "xb") as file:
            for piece in member.pieces:
                room.take(len(piece))
                digest.update(piece)
                file.write(piece)
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise UsageError(
            f"{source}: {member.path!r} is there twice, or as file and folder, or differs from another in case alone.",
            "Unpack fewer files at once, or on a disk that tells case apart.",
        ) from None
    except OSError as error:
        raise target.not_written(path, error) from error
    if member.sha256 is not None and digest.hexdigest() != member.sha256:
        raise UsageError(
            f"{source}: the content of {member.path!r} is not what its SHA-256 says.", "Get the file again."
        )
