"""The files of a version, read from the server in few requests and checked against their SHA-256."""

from __future__ import annotations

import hashlib
import io
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import BinaryIO, TypeVar
from urllib.parse import quote

from headway.client.transport import Transport
from headway.errors import FailedError
from headway.rules.datasets import PAGE_ROWS, Row, order
from headway.wire.datasets import FilesPage, PlacedRow, PlacesPage

#: bytes of contents that are asked for together, and of one range of a large file
_WINDOW = 16 << 20
#: requests under way at once
_THREADS = 4
#: bytes between two contents of a pack that are read along rather than asked around
_GAP = 64 << 10
#: bytes read ahead of who reads a single file
_AHEAD = 1 << 20

T = TypeVar("T")


class Version:
    """A source of statistics, and of what is made out of a version. Safe for threads."""

    def __init__(self, transport: Transport, project: str, name: str, version: int) -> None:
        self.name, self.version = name, version
        self._transport = transport
        self._project = f"/projects/{project}"
        self._path = f"{self._project}/datasets/{quote(name)}/versions/{version}"

    def rows(self, folder: str = "") -> Iterator[Row]:
        """Path, bytes and SHA-256 of each file, in order. folder: only those below it, or the file of that path."""
        after: str | None = None
        while True:
            params = {"after": after, "limit": PAGE_ROWS, "prefix": folder or None}
            page = FilesPage.model_validate(self._transport.call("GET", f"{self._path}/files", params=params))
            yield from page.files
            after = page.after
            if after is None:
                return

    def places(self, folder: str = "") -> Iterator[PlacedRow]:
        """Each file with the place of its content, in order. folder: as in `rows`."""
        number = self._page_of(folder) if folder else 0
        while True:
            page = self._page(number)
            for row in page.rows:
                if not folder or f"{row.path}/".startswith(f"{folder}/"):
                    yield row
                elif order(row.path) > order(folder):
                    return
            number += 1
            if number >= page.pages:
                return

    def _page(self, number: int) -> PlacesPage:
        answer = self._transport.call("GET", f"{self._path}/places", params={"page": number})
        return PlacesPage.model_validate(answer)

    def _page_of(self, path: str) -> int:
        """The page that the path stands on, or would: a folder of a large version is found in few requests."""
        first, behind = 0, self._page(0).pages
        while behind - first > 1:
            middle = (first + behind) // 2
            if order(self._page(middle).rows[0].path) <= order(path):
                first = middle
            else:
                behind = middle
        return first

    def open(self, path: str, size: int) -> BinaryIO:
        """One file, seekable, read as it is asked for. size: its bytes. Reading raises HeadwayError."""
        read = partial(self._range, f"{self._path}/content", {"path": path})
        return io.BufferedReader(_Remote(read, size), min(_AHEAD, max(1, size)))

    def contents(self, rows: Iterable[PlacedRow]) -> Iterator[tuple[PlacedRow, Iterator[bytes]]]:
        """The content of each of `rows`, in their order, in pieces that are taken before the next one.

        About 64 MiB are held. Raises FailedError where a content is not what its row says, after its last piece.
        """
        with ThreadPoolExecutor(_THREADS) as pool:
            tasks = (partial(self._fetched, window) for window in _windows(rows))
            for window, bodies in _ahead(pool, tasks):
                for row, body in zip(window, bodies, strict=True):
                    pieces = self._pieces(pool, row) if body is None else iter([body])
                    yield row, _checked(row, pieces)

    def _fetched(self, window: list[PlacedRow]) -> tuple[list[PlacedRow], list[bytes | None]]:
        """A window with its contents; None for a large file, whose parts are read when it is its turn."""
        segments: dict[tuple[str, int], bytes] = {}
        placed = sorted((row.pack, row.offset or 0, row.bytes) for row in window if row.pack and row.bytes)
        starts: dict[tuple[str, int], int] = {}
        for pack, start, end, offsets in _segments(placed):
            segments[pack, start] = self._range(f"{self._project}/packs/{pack}", {}, start, end - start)
            starts.update({(pack, offset): start for offset in offsets})
        bodies: list[bytes | None] = []
        for row in window:
            if row.pack is None or not row.bytes:
                bodies.append(None if row.parts else b"")
                continue
            start = starts[row.pack, row.offset or 0]
            at = (row.offset or 0) - start
            bodies.append(segments[row.pack, start][at : at + row.bytes])
        return window, bodies

    def _pieces(self, pool: ThreadPoolExecutor, row: PlacedRow) -> Iterator[bytes]:
        """A large file, by ranges of its parts."""
        tasks = (
            partial(self._range, f"{self._project}/parts/{sha256}", {}, start, min(_WINDOW, size - start))
            for sha256, size in row.parts or []
            for start in range(0, size, _WINDOW)
        )
        return _ahead(pool, tasks)

    def _range(self, path: str, params: dict[str, str], start: int, length: int) -> bytes:
        """Raises FailedError when the answer is too short."""
        headers = {"Range": f"bytes={start}-{start + length - 1}"}
        response = self._transport.response("GET", path, params=params, headers=headers, timeout=600)
        # something on the way may answer with the whole
        body = response.content[start : start + length] if response.status_code == 200 else response.content
        if len(body) != length:
            raise FailedError(
                f"{path} has {len(body)} bytes at {start}, not {length}.",
                f"`headway dataset verify {self.name}@{self.version}` says what is damaged.",
            )
        return body


class _Remote(io.RawIOBase):
    """A file of `size` bytes, of which `read(start, length)` gives a range."""

    def __init__(self, read: Callable[[int, int], bytes], size: int) -> None:
        self._read, self._size, self._at = read, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence])
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        length = min(len(buffer), self._size - self._at)
        if length <= 0:
            return 0
        buffer[:length] = self._read(self._at, length)
        self._at += length
        return length


def _windows(rows: Iterable[PlacedRow]) -> Iterator[list[PlacedRow]]:
    """Rows one after another that are small enough together; a large file is alone."""
    window: list[PlacedRow] = []
    size = 0
    for row in rows:
        if window and (row.parts or size + row.bytes > _WINDOW or len(window) >= PAGE_ROWS):
            yield window
            window, size = [], 0
        window.append(row)
        size += row.bytes
        if row.parts:
            yield window
            window, size = [], 0
    if window:
        yield window


def _segments(placed: list[tuple[str, int, int]]) -> Iterator[tuple[str, int, int, list[int]]]:
    """Pack, start, end and the offsets in it: of ranges that hold all of `placed` (pack, offset, bytes; sorted)."""
    now: tuple[str, int, int, list[int]] | None = None
    for pack, offset, size in placed:
        if now and now[0] == pack and offset - now[2] <= _GAP:
            now[3].append(offset)
            now = (pack, now[1], max(now[2], offset + size), now[3])
        else:
            if now:
                yield now
            now = (pack, offset, offset + size, [offset])
    if now:
        yield now


def _ahead(pool: ThreadPoolExecutor, tasks: Iterator[Callable[[], T]]) -> Iterator[T]:
    """The results in order, a few of them made ahead."""
    waiting: deque[Future[T]] = deque()
    try:
        for task in tasks:
            waiting.append(pool.submit(task))
            if len(waiting) >= _THREADS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def _checked(row: PlacedRow, pieces: Iterator[bytes]) -> Iterator[bytes]:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
        yield piece
    if digest.hexdigest() != row.sha256:
        raise FailedError(
            f"The content of {row.path!r} is not what its version says.",
            "`headway dataset verify` says what is damaged; push the files again.",
        )
