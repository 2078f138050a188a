"""Object stores: whole objects under keys. A folder, S3 and what else obstore speaks; one contract for all.

A key is a relative path of plain parts ("projects/default/packs/ab12.tar"); no part begins with a dot. A reader sees
an object whole or not at all. `testing.objects` is the suite that every implementation passes.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from headway.errors import UsageError
from headway.storage.publish import file_digest, publish_bytes, publish_file, sweep_temporaries
from headway.storage.verify import InvalidError, inside

if TYPE_CHECKING:
    import obstore.store

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_BLOCK = 8 << 20


class MissingObjectError(LookupError):
    """There is no object under `key`."""

    def __init__(self, key: str) -> None:
        super().__init__(f"there is no object {key}")
        self.key = key


class ObjectStore(ABC):
    """Objects under keys. Safe to use from several threads and processes.

    Every method raises ValueError for a key that is none. Reading and `fetch` raise MissingObjectError. Writing raises
    TargetFullError where the target is full, as far as the store can tell; other faults are the implementation's own.
    """

    @abstractmethod
    def put_file(self, key: str, path: Path, sha256: str | None = None) -> None:
        """Stores the content of `path`, in place of what `key` held. Raises InvalidError: it has another SHA-256."""

    @abstractmethod
    def put_bytes(self, key: str, content: bytes) -> None:
        """Stores `content`, in place of what `key` held."""

    @abstractmethod
    def get_bytes(self, key: str) -> bytes:
        """The whole object."""

    @abstractmethod
    def get_range(self, key: str, start: int, length: int) -> bytes:
        """`length` bytes from `start` on; fewer at the object's end. start and length are not negative."""

    @abstractmethod
    def fetch(self, key: str, path: Path) -> None:
        """Writes the object to the new file `path`."""

    @abstractmethod
    def head(self, key: str) -> int | None:
        """Its size in bytes; None when there is no such object."""

    @abstractmethod
    def list(self, prefix: str = "") -> Iterator[str]:
        """The keys below the folder `prefix` ("projects/default/packs"), sorted; "" is all of them."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Removes the object; one that is not there is no fault."""

    def local(self, key: str) -> Path | None:
        """The object as a file on this machine, to be read and not changed; None when there is none."""
        return None


def check_key(key: str) -> str:
    """`key`, when it is one. Raises ValueError."""
    if not inside(key) or not all(_PART.fullmatch(p) for p in key.split("/")):
        raise ValueError(f"{key!r} is no object key")
    return key


class FolderStore(ObjectStore):
    """Objects as files below a folder, published by the commit protocol."""

    def __init__(self, folder: Path) -> None:
        """folder: made on the first write."""
        self.folder = Path(folder)

    def _path(self, key: str) -> Path:
        return self.folder / check_key(key)

    def put_file(self, key: str, path: Path, sha256: str | None = None) -> None:
        publish_file(path, self._path(key), kind="any", sha256=sha256)

    def put_bytes(self, key: str, content: bytes) -> None:
        publish_bytes(content, self._path(key), kind="any")

    def get_bytes(self, key: str) -> bytes:
        try:
            return self._path(key).read_bytes()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise MissingObjectError(key) from None

    def get_range(self, key: str, start: int, length: int) -> bytes:
        try:
            with open(self._path(key), "rb") as file:
                file.seek(start)
                return file.read(length)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise MissingObjectError(key) from None

    def fetch(self, key: str, path: Path) -> None:
        import shutil

        try:
            with open(self._path(key), "rb") as source, open(path, "xb") as out:
                shutil.copyfileobj(source, out, _BLOCK)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise MissingObjectError(key) from None

    def head(self, key: str) -> int | None:
        path = self._path(key)
        return path.stat().st_size if path.is_file() else None

    def list(self, prefix: str = "") -> Iterator[str]:
        start = self.folder / check_key(prefix) if prefix else self.folder
        found = []
        for at, folders, files in os.walk(start):
            folders[:] = [f for f in folders if not f.startswith(".")]
            found += [Path(at, f).relative_to(self.folder).as_posix() for f in files if not f.startswith(".")]
        yield from sorted(found)

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


class ObstoreStore(ObjectStore):
    """Objects in what obstore speaks: S3, GCS, Azure, memory. Uploads of large files go in parts."""

    def __init__(self, store: obstore.store.ObjectStore) -> None:
        self._store: Any = store

    def put_file(self, key: str, path: Path, sha256: str | None = None) -> None:
        import obstore

        check_key(key)
        if sha256 is not None and (found := file_digest(path)) != sha256:
            raise InvalidError(f"Its SHA-256 is {found}, not {sha256}.")
        obstore.put(self._store, key, path)

    def put_bytes(self, key: str, content: bytes) -> None:
        import obstore

        obstore.put(self._store, check_key(key), content)

    def get_bytes(self, key: str) -> bytes:
        import obstore

        try:
            return bytes(obstore.get(self._store, check_key(key)).bytes())
        except FileNotFoundError:
            raise MissingObjectError(key) from None

    def get_range(self, key: str, start: int, length: int) -> bytes:
        import obstore

        size = self.head(key)
        if size is None:
            raise MissingObjectError(key)
        # stores differ in what they say about ranges that are empty or begin behind the end
        end = min(start + length, size)
        if start >= end:
            return b""
        try:
            return bytes(obstore.get_range(self._store, key, start=start, end=end))
        except FileNotFoundError:
            raise MissingObjectError(key) from None
        except obstore.exceptions.GenericError as error:
            if "non-partial" not in str(error):
                raise
            # some S3-compatible servers answer a range with the status of a whole object, which obstore does not take
            return self._cut(key, start, end)

    def _cut(self, key: str, start: int, end: int) -> bytes:
        """Bytes `start` to `end` out of a stream of the whole object."""
        import obstore

        at, found = 0, b""
        for block in obstore.get(self._store, key).stream(min_chunk_size=_BLOCK):
            piece = bytes(block)
            found += piece[max(0, start - at) : max(0, end - at)]
            at += len(piece)
            if at >= end:
                break
        return found

    def fetch(self, key: str, path: Path) -> None:
        import obstore

        try:
            blocks = obstore.get(self._store, check_key(key)).stream(min_chunk_size=_BLOCK)
        except FileNotFoundError:
            raise MissingObjectError(key) from None
        with open(path, "xb") as out:
            for block in blocks:
                out.write(block)

    def head(self, key: str) -> int | None:
        import obstore

        try:
            return int(obstore.head(self._store, check_key(key))["size"])
        except FileNotFoundError:
            return None

    def list(self, prefix: str = "") -> Iterator[str]:
        import obstore

        below = check_key(prefix) if prefix else None
        found: list[str] = []
        for page in obstore.list(self._store, prefix=below):
            found += [str(o["path"]) for o in page]
        yield from sorted(found)

    def delete(self, key: str) -> None:
        import obstore

        # asked first: a server over folders may take a key that is none for a folder, and remove all that is in it
        if self.head(key) is None:
            return
        try:
            obstore.delete(self._store, key)
        except FileNotFoundError:
            pass


def open_objects(url: str) -> ObjectStore:
    """The store that `url` names: file:///FOLDER (or an absolute path), s3://BUCKET/PREFIX, gs://, az://, memory:///.

    Credentials, region and endpoint of a cloud store come from its usual variables (AWS_ACCESS_KEY_ID,
    AWS_ENDPOINT_URL, ...). Raises UsageError for a URL that names no store.
    """
    parts = urlsplit(url)
    if parts.scheme == "file":
        return FolderStore(Path(unquote(parts.path)))
    if not parts.scheme and url.startswith("/"):
        return FolderStore(Path(url))
    if parts.scheme not in ("s3", "s3a", "gs", "az", "azure", "memory"):
        raise UsageError(f"{url!r} names no object store.", "Write file:///FOLDER or s3://BUCKET/PREFIX.")
    from obstore.store import from_url

    options: dict[str, Any] = {}
    if os.environ.get("AWS_ENDPOINT_URL", os.environ.get("AWS_ENDPOINT", "")).startswith("http://"):
        options["client_options"] = {"allow_http": True}
    try:
        return ObstoreStore(from_url(url, **options))
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"The object store {url!r} cannot be opened: {reason}", "Correct the URL.") from error
