"""The contract of object stores."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headway.storage.verify import inside

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
#: bytes of a block that `stream` gives
STREAM_BLOCK = 1 << 20


class MissingObjectError(LookupError):
    """There is no object under `key`."""

    def __init__(self, key: str) -> None:
        super().__init__(f"there is no object {key}")
        self.key = key


@dataclass(frozen=True)
class Stored:
    """An object as a listing has it."""

    key: str
    bytes: int
    #: when it was put there, in seconds since the epoch by the store's clock
    modified: float


class ObjectStore(ABC):
    """Objects under keys. Safe to use from several threads and processes.

    A key is a relative path of plain parts ("projects/default/packs/ab12.tar"); no part begins with a dot. A reader
    sees an object whole or not at all.

    Every method raises ValueError for a key that is none. Reading and `fetch` raise MissingObjectError. Writing raises
    TargetFullError where the target is full, as far as the store can tell. A store over a network raises
    `faults.StoreFault`; other faults are the implementation's own.
    """

    #: HOST:PORT of the URLs that are signed; None: nothing is signed
    direct_host: str | None = None

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
    def stream(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Those bytes in order, by one request, in blocks of a MiB or more but the last, none empty; see `get_range`.

        length: None is all of the rest. What the call raises, it raises before the first block.
        """

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
    def details(self, prefix: str = "") -> Iterator[Stored]:
        """What `list` finds, in any order, with sizes and times; never all of it in memory."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Removes the object; one that is not there is no fault."""

    def sweep(self, older_than: float = 3600.0) -> int:
        """Removes what writers that died `older_than` seconds ago left beside the objects; how many."""
        return 0

    def local(self, key: str) -> Path | None:
        """The object as a file on this machine, to be read and not changed; None when there is none."""
        return None

    def sign_put(self, key: str, seconds: float) -> str | None:
        """A URL that takes the object by one plain PUT for so long; None: this store gives none."""
        return None

    def sign_get(self, key: str, seconds: float) -> str | None:
        """A URL that gives the object by GET for so long; None: this store gives none."""
        return None


def check_key(key: str) -> str:
    """`key`, when it is one. Raises ValueError."""
    if not inside(key) or not all(_PART.fullmatch(p) for p in key.split("/")):
        raise ValueError(f"{key!r} is no object key")
    return key
