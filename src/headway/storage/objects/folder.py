"""Objects as files below a folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from headway.storage.objects.base import STREAM_BLOCK, MissingObjectError, ObjectStore, Stored, check_key
from headway.storage.publish import publish_bytes, publish_file, sweep_temporaries

_BLOCK = 8 << 20


class FolderStore(ObjectStore):
    """Objects as files below a folder, published by the commit protocol."""

    def __init__(self, folder: Path) -> None:
        """folder: made on the first write."""
        self.folder = Path(folder)

    def _path(self, key: str) -> Path:
        return self.folder / check_key(key)

    def _open(self, key: str) -> BinaryIO:
        """Raises MissingObjectError."""
        try:
            return open(self._path(key), "rb")
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise MissingObjectError(key) from None

    def put_file(self, key: str, path: Path, sha256: str | None = None) -> None:
        publish_file(path, self._path(key), kind="any", sha256=sha256)

    def put_bytes(self, key: str, content: bytes) -> None:
        publish_bytes(content, self._path(key), kind="any")

    def get_bytes(self, key: str) -> bytes:
        with self._open(key) as file:
            return file.read()

    def get_range(self, key: str, start: int, length: int) -> bytes:
        with self._open(key) as file:
            file.seek(start)
            return file.read(length)

    def stream(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        file = self._open(key)

        def blocks() -> Iterator[bytes]:
            left = length
            with file:
                file.seek(start)
                while block := file.read(STREAM_BLOCK if left is None else min(STREAM_BLOCK, left)):
                    left = None if left is None else left - len(block)
                    yield block

        return blocks()

    def fetch(self, key: str, path: Path) -> None:
        with self._open(key) as source, open(path, "xb") as out:
            shutil.copyfileobj(source, out, _BLOCK)

    def head(self, key: str) -> int | None:
        path = self._path(key)
        return path.stat().st_size if path.is_file() else None

    def _files(self, prefix: str) -> Iterator[Path]:
        start = self.folder / check_key(prefix) if prefix else self.folder
        for at, folders, files in os.walk(start):
            folders[:] = [f for f in folders if not f.startswith(".")]
            yield from (Path(at, f) for f in files if not f.startswith("."))

    def _key(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def list(self, prefix: str = "") -> Iterator[str]:
        yield from sorted(self._key(p) for p in self._files(prefix))

    def details(self, prefix: str = "") -> Iterator[Stored]:
        for path in self._files(prefix):
            try:
                found = path.stat()
            except FileNotFoundError:
                continue  # removed meanwhile
            yield Stored(self._key(path), found.st_size, found.st_mtime)

    def delete(self, key: str) -> None:
        try:
            self._path(key).unlink(missing_ok=True)
        except (IsADirectoryError, NotADirectoryError):
            pass

    def local(self, key: str) -> Path | None:
        path = self._path(key)
        return path if path.is_file() else None

    def sweep(self, older_than: float = 3600.0) -> int:
        """Removes what writers that died left; see `publish.sweep_temporaries`."""
        return sweep_temporaries(self.folder, older_than)
