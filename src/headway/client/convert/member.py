"""What every format holds: files with their paths, and how they are written and read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Member:
    path: str
    #: bytes
    size: int
    #: None where the format does not say
    sha256: str | None
    #: the content, to be taken before the next member is asked for
    pieces: Iterator[bytes]

    @property
    def label(self) -> str:
        """The name of the folder that it lies in; "" for none."""
        return self.path.rpartition("/")[0].rpartition("/")[2]


class Writer(Protocol):
    """One file of a format that is being written."""

    def add(self, member: Member) -> None: ...

    def close(self) -> None:
        """Writes what is held back; the file is whole then."""
        ...


class Format(Protocol):
    #: of the names of its files
    ending: str
    #: bytes of a file that it can hold; None: any
    largest: int | None

    def write(self, path: Path) -> Writer:
        """Raises UsageError where what it takes is not installed."""
        ...

    def read(self, path: Path) -> Iterator[Member]:
        """Raises UsageError for a file that is damaged, cut off, or of another kind."""
        ...
