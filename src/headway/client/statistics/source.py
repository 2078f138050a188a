"""Where statistics take a dataset's files from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from headway.rules.datasets import Row


class Source(Protocol):
    """The files of a version, or of what is to become one."""

    def rows(self) -> Iterator[Row]:
        """Path, bytes and SHA-256 of every file, in `rules.datasets.order`."""
        ...

    def open(self, path: str, size: int) -> BinaryIO:
        """The content of one of them, seekable; whoever opens it closes it. Called by several threads.

        size: bytes, as its row says.

        Raises OSError or a HeadwayError when it cannot be read.
        """
        ...


@dataclass(frozen=True)
class Folder:
    """A local folder, with the rows of what was scanned in it, or of the version that was pushed from it."""

    path: Path
    find: Callable[[], Iterator[Row]]

    def rows(self) -> Iterator[Row]:
        return self.find()

    def open(self, path: str, size: int) -> BinaryIO:
        return open(self.path / path, "rb")
