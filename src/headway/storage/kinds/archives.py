"""Tar archives, and the packs of datasets."""

from __future__ import annotations

from collections.abc import Callable
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


def pack(path: Path, rule: Rule) -> Facts:
    """A tar whose members are regular files, each named by the SHA-256 of its content."""
    import hashlib
    import tarfile

    contents: dict[str, tuple[int, int]] = {}
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isreg() else None
                if content is None:
                    raise InvalidError(f"Member {member.name} is not a regular file.")
                digest = hashlib.sha256()
                size = _length(content, digest.update)
                if size != member.size or digest.hexdigest() != member.name:
                    raise InvalidError(f"Member {member.name} has other bytes than its name says.")
                contents[member.name] = (member.offset_data, member.size)
            _whole_tar(path, archive.offset)
    except tarfile.TarError as error:
        raise InvalidError(f"It is not a whole tar archive ({error}).", unfinished=True) from error
    return {"contents": contents}


def _whole_tar(path: Path, end: int) -> None:
    """A tar ends with zero blocks; without them its tail may be missing."""
    with open(path, "rb") as file:
        file.seek(end)
        tail = file.read(BLOCK)
    if len(tail) < 512 or tail.strip(b"\0"):
        raise InvalidError("The tar archive has no end.", unfinished=True)


def _length(content: IO[bytes], each: Callable[[bytes], object] = lambda block: None) -> int:
    size = 0
    while block := content.read(BLOCK):
        each(block)
        size += len(block)
    return size
