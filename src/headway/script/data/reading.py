"""Reads contents out of packs and parts, by path or by URL, in the order asked for; checks what it reads."""

from __future__ import annotations

import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from collections import deque

from headway.errors import FailedError
from headway.script.data.index import sources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from headway.script.data.index import Index, Row

#: bytes of one request, about; and how many are under way at once: together what is held besides the shuffle's window
RANGE, AHEAD = 16 << 20, 3
#: bytes that may lie unused between two contents of one request
GAP = 256 << 10
#: bytes that the kernel is asked to read ahead of a pack on a disk
DISK_AHEAD = 8 << 20
#: seconds without a byte after which a connection is given up; how often a cut one is made anew without progress
TIMEOUT, TRIES = 60.0, 6


class Reader:
    """Of one process. Not safe for threads but for `one`."""

    def __init__(self, index: Index, verify: bool | None) -> None:
        """verify: whether each content's SHA-256 is looked at; None: unless it is a file in place."""
        self._index, self._verify = index, verify
        self._sources: dict[str, Any] = {}
        self._files: dict[str, int] = {}
        #: a store that answers ranges with the whole: then the whole is asked for once
        self._whole = False

    def close(self) -> None:
        while self._files:
            os.close(self._files.popitem()[1])

    def rows(self, rows: Iterable[Row]) -> Iterator[tuple[Row, bytes]]:
        """Each with its content. Raises FailedError naming the path of what cannot be read or is not what it was."""
        if self._index.root:
            for row in rows:
                yield row, self._checked(row, self._of_folder(row), self._verify)
            return
        if not any("url" in source for source in self._where().values()):
            for row in rows:
                yield row, self._checked(row, self._of_path(row), self._verify is not False)
            return
        yield from self._ahead(rows)

    def one(self, row: Row) -> bytes:
        """One content, by a request of its own. Raises FailedError."""
        return next(self.rows([row]))[1]

    def _checked(self, row: Row, content: bytes, verify: bool | None) -> bytes:
        if len(content) != row.bytes:
            raise self._damaged(row, f"{len(content)} of {row.bytes} bytes are there")
        if verify and row.sha256 and hashlib.sha256(content).hexdigest() != row.sha256:
            raise self._damaged(row, "its content is not what was pushed")
        return content

    def _damaged(self, row: Row, why: str) -> FailedError:
        return FailedError(
            f"{row.path!r} of {self._index.name} cannot be read: {why}.",
            "See `headway dataset verify`; push the version again if its store is damaged.",
            code="data",
        )

    # -- from a disk

    def _of_folder(self, row: Row) -> bytes:
        try:
            fd = os.open(f"{self._index.root}/{row.path}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise self._damaged(row, error.strerror or str(error)) from error
        try:
            return _pread(fd, row.bytes, 0)
        except OSError as error:
            raise self._damaged(row, error.strerror or str(error)) from error
        finally:
            os.close(fd)

    def _of_path(self, row: Row) -> bytes:
        try:
            if row.pack:
                return _pread(self._file(row.pack, row.offset), row.bytes, row.offset)
            return b"".join(_pread(self._file(sha256, 0), size, 0) for sha256, size in row.parts)
        except KeyError as error:
            raise self._damaged(row, f"nothing says where {error.args[0][:12]} is") from error
        except OSError as error:
            raise self._damaged(row, error.strerror or str(error)) from error

    def _file(self, sha256: str, offset: int) -> int:
        """The open pack. The kernel is told what comes next, so that a disk reads while the script computes."""
        fd = self._files.get(sha256)
        if fd is None:
            if len(self._files) >= 64:
                os.close(self._files.pop(next(iter(self._files))))
            fd = self._files[sha256] = os.open(self._where()[sha256]["path"], os.O_RDONLY | os.O_CLOEXEC)
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(fd, offset, DISK_AHEAD, os.POSIX_FADV_WILLNEED)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        return fd

    def _where(self) -> dict[str, dict[str, str]]:
        if not self._sources:
            try:
                self._sources = sources(self._index.folder)
            except (OSError, ValueError) as error:
                raise FailedError(f"{self._index.folder}/sources.json cannot be read: {error}.") from error
        found: dict[str, dict[str, str]] = self._sources["packs"]
        return found

    # -- over the network

    def _ahead(self, rows: Iterable[Row]) -> Iterator[tuple[Row, bytes]]:
        """Requests are under way for what comes next while the script works on what came."""
        # costs 10 ms, and nothing where packs are files
        from concurrent.futures import ThreadPoolExecutor

        waiting: deque[Any] = deque()
        with ThreadPoolExecutor(AHEAD, thread_name_prefix="headway.data") as pool:
            try:
                for run in self._runs(rows):
                    waiting.append(pool.submit(self._fetch, run))
                    if len(waiting) >= AHEAD:
                        yield from waiting.popleft().result()
                while waiting:
                    yield from waiting.popleft().result()
            finally:
                for one in waiting:
                    one.cancel()

    def _runs(self, rows: Iterable[Row]) -> Iterator[list[Row]]:
        """Rows that one request brings: one after another in a pack, without long gaps."""
        run: list[Row] = []
        for row in rows:
            if run and not self._follows(run, row):
                yield run
                run = []
            run.append(row)
        if run:
            yield run

    def _follows(self, run: list[Row], row: Row) -> bool:
        last = run[-1]
        if not row.pack or row.pack != last.pack:
            return False
        near = self._whole or (
            row.offset - last.offset - last.bytes <= GAP and row.offset + row.bytes - run[0].offset <= RANGE
        )
        return row.offset >= last.offset and near

    def _fetch(self, run: list[Row]) -> list[tuple[Row, bytes]]:
        verify = self._verify is not False
        first, last = run[0], run[-1]
        if not first.pack:
            content = b"".join(self._range(first, sha256, 0, size) for sha256, size in first.parts)
            return [(first, self._checked(first, content, verify))]
        end = max(row.offset + row.bytes for row in run)
        block = memoryview(self._range(last, first.pack, first.offset, end - first.offset))
        found = []
        for row in run:
            start = row.offset - first.offset
            found.append((row, self._checked(row, bytes(block[start : start + row.bytes]), verify)))
        return found

    def _range(self, row: Row, sha256: str, start: int, length: int) -> bytearray:
        """Bytes of a pack or part; a connection that is cut is made anew at the byte."""
        held = bytearray()
        tries = 0
        while len(held) < length:
            before = len(held)
            try:
                source = self._where()[sha256]
                if "path" in source:
                    return bytearray(_pread_path(source["path"], length, start))
                self._get(source["url"], start + len(held), start + length, held)
                why = "the answer is too short"
            except KeyError as error:
                raise self._damaged(row, f"nothing says where {sha256[:12]} is") from error
            except urllib.error.HTTPError as error:
                why = f"the store answers {error.code}"
                if error.code in (404, 416):
                    raise self._damaged(row, why) from None
                # a URL that ended: the helper has written others
                self._sources = {}
            except (OSError, http.client.HTTPException) as error:
                why = str(error) or type(error).__name__
            if len(held) < length:
                tries = 1 if len(held) > before else tries + 1
                if tries > TRIES:
                    raise self._damaged(row, why)
                time.sleep(min(0.1 * 2**tries, 5.0) if len(held) == before else 0)
        return held

    def _get(self, url: str, start: int, end: int, held: bytearray) -> None:
        asked = urllib.request.Request(url, headers={"Range": f"bytes={start}-{end - 1}"})
        with urllib.request.urlopen(asked, timeout=TIMEOUT) as answer:
            skip = 0
            # rclone answers with the range that was asked for, and says 200
            if answer.status != 206 and not answer.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
                self._whole, skip = True, start
            left = end - start
            while left and (block := answer.read(min(skip or left, 1 << 20))):
                if skip:
                    skip -= len(block)
                    continue
                held += block
                left -= len(block)


def _pread(fd: int, length: int, offset: int) -> bytes:
    content = os.pread(fd, length, offset)
    if len(content) == length:
        return content
    # one call reads 2 GiB at most
    blocks = [content]
    while content and (length := length - len(content)):
        offset += len(content)
        content = os.pread(fd, length, offset)
        blocks.append(content)
    return b"".join(blocks)


def _pread_path(path: str, length: int, offset: int) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _pread(fd, length, offset)
    finally:
        os.close(fd)
