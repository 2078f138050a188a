"""The user's side of a dataset push: which files, with what contents, packed for the way."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from headway.errors import UsageError

#: a pack is closed when it holds this much; a larger file has one of its own
PACK_BYTES = 64 << 20
_HEADER = 512


@dataclass(frozen=True)
class Scanned:
    #: below the folder, with forward slashes
    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Pack:
    """A tar of contents, each under its own SHA-256 as name."""

    #: temporary file; whoever takes the pack removes it
    path: Path
    sha256: str
    #: content -> where its bytes begin
    offsets: dict[str, int] = field(default_factory=dict)


def scan(folder: Path) -> list[Scanned]:
    """Every regular file under `folder` with its checksum, sorted by path. Hidden files and folders are left out.

    Raises UsageError when there is no such folder or no file in it.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder.", "Give the folder with the data.")
    found = []
    for at, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        for name in files:
            path = Path(at, name)
            if not name.startswith(".") and path.is_file():
                size, digest = _hash(path)
                found.append(Scanned(path.relative_to(folder).as_posix(), size, digest))
    if not found:
        raise UsageError(f"{folder} holds no files.", "Give the folder with the data.")
    return sorted(found, key=lambda f: f.path)


def digest(files: list[Scanned]) -> str:
    """The digest of a version with these files: SHA-256 of the canonical JSON of [path, bytes, sha256], by path."""
    rows = sorted([f.path, f.bytes, f.sha256] for f in files)
    text = json.dumps(rows, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _hash(path: Path) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
            size += len(block)
    return size, digest.hexdigest()


def packs(folder: Path, files: Iterable[Scanned], *, limit: int = PACK_BYTES) -> Iterator[Pack]:
    """The contents of `files` in packs of about `limit` bytes. Raises UsageError when a file has changed meanwhile."""
    portion: list[Scanned] = []
    size = 0
    for file in files:
        if portion and size + file.bytes > limit:
            yield _pack(folder, portion)
            portion, size = [], 0
        portion.append(file)
        size += file.bytes
    if portion:
        yield _pack(folder, portion)


def _pack(folder: Path, files: list[Scanned]) -> Pack:
    offsets: dict[str, int] = {}
    with tempfile.NamedTemporaryFile(prefix="headway-pack-", suffix=".tar", delete=False) as out:
        path = Path(out.name)
        try:
            with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
                for file in files:
                    entry = tarfile.TarInfo(file.sha256)
                    entry.size = file.bytes
                    offsets[file.sha256] = tar.offset + _HEADER
                    with open(folder / file.path, "rb") as source:
                        reader = _Checked(source)
                        tar.addfile(entry, reader)
                        if reader.digest.hexdigest() != file.sha256:
                            raise OSError
        except OSError as error:
            path.unlink(missing_ok=True)
            raise UsageError(
                f"{folder / file.path} changed (or could not be read) while it was pushed.",
                "Push again once it is still.",
            ) from error
    return Pack(path, _hash(path)[1], offsets)


class _Checked:
    """Reads a file and digests what was read."""

    def __init__(self, source: object) -> None:
        self._read = source.read  # type: ignore[attr-defined]
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        block: bytes = self._read(size)
        self.digest.update(block)
        return block
