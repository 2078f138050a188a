"""The files of a channel as columns: written once by the helper beside a run, mapped by every process of the script.

One file: a line of JSON, {"files", "text", "packs": [[SHA-256, bytes]], "parts": {row: [numbers of packs]}}, filled up
with spaces to a multiple of 8 bytes, then of each row, in this machine's byte order: where its path ends in the text
(8 bytes), its size (8), where it begins in its pack (8), the rows in the order of the packs (8), the number of its pack
(4; -1: none), its SHA-256 (32); then the text of the paths. Rows stand in the order of their paths.
"""

from __future__ import annotations

import json
import mmap
import os
from array import array
from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

FILE = "columns"
_DIGEST = 32


class Columns:
    """The rows, one value of each list a row. Raises ValueError, KeyError, TypeError for a file that is damaged."""

    def __init__(self, head: dict[str, Any], body: memoryview, file: str = "") -> None:
        """file: where they were read; "": nowhere."""
        self._head, self._body, self._file = head, body, file
        count = int(head["files"])
        #: SHA-256 and bytes of packs and parts
        self.packs: list[tuple[str, int]] = [(str(sha256), int(size)) for sha256, size in head["packs"]]
        #: of a large file, by its row: numbers of its parts in `packs`, in order
        self.parts: dict[int, list[int]] = {int(row): list(numbers) for row, numbers in head["parts"].items()}
        widths = (8, 8, 8, 8, 4, _DIGEST, 1)
        starts = [0]
        for width, rows in zip(widths, (*[count] * 6, int(head["text"])), strict=True):
            starts.append(starts[-1] + width * rows)
        if starts[-1] != len(body):
            raise ValueError(f"{len(body)} of {starts[-1]} bytes")
        ends, sizes, offsets, order, pack, digests, text = (body[a:b] for a, b in pairwise(starts))
        self._ends, self._digests, self._text = ends.cast("Q"), digests, text
        self.sizes: Sequence[int] = sizes.cast("Q")
        self.offsets: Sequence[int] = offsets.cast("Q")
        #: numbers of the rows in the order of the packs, then those in parts, or in none
        self.order: Sequence[int] = order.cast("Q")
        #: number of each row's pack; -1: a large file, or one in a folder
        self.pack: Sequence[int] = pack.cast("i")

    def __len__(self) -> int:
        return len(self.sizes)

    def __reduce__(self) -> tuple[Any, ...]:
        # a worker that is not forked maps the file anew
        return (read, (self._file,)) if self._file else (_of_bytes, (self._head, bytes(self._body)))

    def path(self, row: int) -> str:
        return str(self._text[self._ends[row - 1] if row else 0 : self._ends[row]], "utf-8", "surrogateescape")

    def sha256(self, row: int) -> bytes:
        """32 bytes; all 0: not known."""
        return bytes(self._digests[row * _DIGEST : (row + 1) * _DIGEST])


class Builder:
    """Takes rows in the order of their paths."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._packs: list[tuple[str, int]] = []
        self._parts: dict[int, list[int]] = {}
        self._ends, self._sizes, self._offsets, self._pack = array("Q"), array("Q"), array("Q"), array("i")
        self._digests, self._text = bytearray(), bytearray()

    def number(self, sha256: str, size: int) -> int:
        """Of a pack or part."""
        number = self._numbers.setdefault(sha256, len(self._packs))
        if number == len(self._packs):
            self._packs.append((sha256, size))
        return number

    def add(self, path: str, size: int, sha256: str = "", pack: int = -1, offset: int = 0) -> None:
        self._text += path.encode("utf-8", "surrogateescape")
        self._ends.append(len(self._text))
        self._sizes.append(size)
        self._offsets.append(offset)
        self._pack.append(pack)
        self._digests += bytes.fromhex(sha256) if sha256 else bytes(_DIGEST)

    def add_parts(self, path: str, size: int, sha256: str, parts: Iterable[int]) -> None:
        """A large file. parts: their numbers."""
        self._parts[len(self._sizes)] = list(parts)
        self.add(path, size, sha256)

    def _order(self) -> array[int]:
        rows, pack, offsets = range(len(self._sizes)), self._pack, self._offsets
        last = len(self._packs)
        return array("Q", sorted(rows, key=lambda row: (pack[row] if pack[row] >= 0 else last, offsets[row], row)))

    def columns(self) -> Columns:
        """Of a folder, which nobody wrote down."""
        return _of_bytes(self._head(), b"".join(self._body()))

    def write(self, path: str) -> None:
        """At once for whoever looks. Raises OSError."""
        line = json.dumps(self._head(), separators=(",", ":")).encode()
        temporary = f"{path}.{os.getpid()}.tmp"
        try:
            with open(temporary, "wb") as out:
                out.write(line + b" " * (-(len(line) + 1) % 8) + b"\n")
                for piece in self._body():
                    out.write(piece)
            os.replace(temporary, path)
        except BaseException:
            if os.path.exists(temporary):
                os.unlink(temporary)
            raise

    def _head(self) -> dict[str, Any]:
        return {"files": len(self._sizes), "text": len(self._text), "packs": self._packs, "parts": self._parts}

    def _body(self) -> tuple[array[int] | bytearray, ...]:
        return self._ends, self._sizes, self._offsets, self._order(), self._pack, self._digests, self._text


def read(path: str) -> Columns:
    """Maps it: processes share the memory. Raises OSError, and what `Columns` raises."""
    with open(path, "rb") as file:
        line = file.readline()
        whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    head = json.loads(line)
    if not isinstance(head, dict):
        raise ValueError("no head")
    return Columns(head, whole[len(line) :], path)


def _of_bytes(head: dict[str, Any], body: bytes) -> Columns:
    return Columns(head, memoryview(body))
