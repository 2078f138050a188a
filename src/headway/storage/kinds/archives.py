"""Tar archives."""

from __future__ import annotations

from pathlib import Path
from typing import IO

from headway.storage.kinds.base import BLOCK, Facts, InvalidError, Rule


def tar(path: Path, rule: Rule) -> Facts:
    import tarfile

    members = 0
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                members += 1
                content = archive.extractfile(member) if member.isreg() else None
                if content and _length(content) != member.size:
                    raise InvalidError(f"Member {member.name} is cut off.", unfinished=True)
            _whole_tar(path, archive.offset)
    except tarfile.TarError as error:
        raise InvalidError(f"It is not a whole tar archive ({error}).", unfinished=True) from error
    return {"members": members}


def _whole_tar(path: Path, end: int) -> None:
    """A tar ends with zero blocks; without them its tail may be missing."""
    with open(path, "rb") as file:
        file.seek(end)
        tail = file.read(BLOCK)
    if len(tail) < 512 or tail.strip(b"\0"):
        raise InvalidError("The tar archive has no end.", unfinished=True)


def _length(content: IO[bytes]) -> int:
    size = 0
    while block := content.read(BLOCK):
        size += len(block)
    return size
