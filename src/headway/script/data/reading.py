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
    from collections.abc import Generator, Iterable, Iterator, Sequence
    from typing import Any

    from headway.script.data.index import Index

#: bytes of one request, about; and how many are under way at once: together what is held besides the shuffle's window
RANGE, AHEAD = 16 << 20, 3
#: bytes that may lie unused between two contents of one request
GAP = 256 << 10
#: bytes that the kernel is asked to read ahead of a pack on a disk
DISK_AHEAD = 8 << 20
#: bytes of one read of a connection
_PIECE = 1 << 20
#: packs that are open at once
OPEN = 64
_UNKNOWN = bytes(32)
#: seconds without a byte after which a connection is given up; how often a cut one is made anew without progress
TIMEOUT, TRIES = 60.0, 6


class Reader:
    """Of one process. Not safe for threads."""

    def __init__(self, index: Index, verify: bool | None) -> None:
        """verify: whether each content's SHA-256 is looked at; None: unless that was done when it came to this node."""
        self._index, self._columns, self._verify = index, index.columns, verify
        self._sources: dict[str, Any] = {}
        self._files: dict[int, tuple[int, bool]] = {}
        #: a store that answers ranges with the whole: then the whole is asked for once
        self._whole = False

    def close(self) -> None:
        while self._files:
            os.close(self._files.popitem()[1][0])

    def contents(self, rows: Sequence[int]) -> Generator[bytes, None, None]:
        """The content of each. Raises FailedError naming the path of what cannot be read or is not what it was."""
        if self._index.root:
            return self._of_folder(rows)
        if any("url" in source for source in self._where().values()):
            return self._ahead(rows)
        return self._of_packs(rows)

    def _check(self, row: int, content: bytes | memoryview, verify: bool) -> None:
        size = self._columns.sizes[row]
        if len(content) != size:
            raise self._damaged(row, f"{len(content)} of {size} bytes are there")
        if verify and (sha256 := self._columns.sha256(row)) != _UNKNOWN and hashlib.sha256(content).digest() != sha256:
            raise self._damaged(row, "its content is not what was pushed")

    def _damaged(self, row: int, why: str) -> FailedError:
        return FailedError(
            f"{self._columns.path(row)!r} of {self._index.name} cannot be read: {why}.",
            "See `headway dataset verify`; push the version again if its store is damaged.",
            code="data",
        )

    # -- from a disk: calls of the kernel, and little besides

    def _of_folder(self, rows: Iterable[int]) -> Generator[bytes, None, None]:
        root, path_of, sizes, verify = self._index.root + "/", self._columns.path, self._columns.sizes, self._verify
        flags = os.O_RDONLY | os.O_CLOEXEC
        for row in rows:
            size = sizes[row]
            try:
                fd = os.open(root + path_of(row), flags)
                try:
                    content = os.pread(fd, size, 0)
                    if len(content) != size:
                        content = _pread(fd, size, 0)
                finally:
                    os.close(fd)
            except OSError as error:
                raise self._damaged(row, error.strerror or str(error)) from error
            if verify or len(content) != size:
                self._check(row, content, bool(verify))
            yield content

    def _of_packs(self, rows: Iterable[int]) -> Generator[bytes, None, None]:
        pack_of, offsets, sizes = self._columns.pack, self._columns.offsets, self._columns.sizes
        last, fd, verify = -1, -1, False
        for row in rows:
            size, offset, pack = sizes[row], offsets[row], pack_of[row]
            if pack < 0:
                yield self._of_parts(row)
                continue
            try:
                if pack != last:
                    (fd, verify), last = self._file(pack, offset), pack
                content = os.pread(fd, size, offset)
                if len(content) != size:
                    content = _pread(fd, size, offset)
            except KeyError as error:
                raise self._damaged(row, f"nothing says where {error.args[0][:12]} is") from error
            except OSError as error:
                raise self._damaged(row, error.strerror or str(error)) from error
            if verify or len(content) != size:
                self._check(row, content, verify)
            yield content

    def _of_parts(self, row: int) -> bytes:
        """A large file."""
        try:
            parts = [(self._file(n, 0), self._columns.packs[n][1]) for n in self._columns.parts.get(row, [])]
            content = b"".join(_pread(fd, size, 0) for (fd, _), size in parts)
        except KeyError as error:
            raise self._damaged(row, f"nothing says where {error.args[0][:12]} is") from error
        except OSError as error:
            raise self._damaged(row, error.strerror or str(error)) from error
        self._check(row, content, any(verify for (_, verify), _ in parts))
        return content

    def _file(self, number: int, offset: int) -> tuple[int, bool]:
        """The open pack, and whether what is read of it is to be checked.

        The kernel is told what comes next, so that a disk reads while the script computes.
        """
        found = self._files.get(number)
        if found is None:
            if len(self._files) >= OPEN:
                os.close(self._files.pop(next(iter(self._files)))[0])
            source = self._where()[self._columns.packs[number][0]]
            fd = os.open(source["path"], os.O_RDONLY | os.O_CLOEXEC)
            verify = not source.get("checked") if self._verify is None else self._verify
            found = self._files[number] = fd, verify
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(fd, offset, DISK_AHEAD, os.POSIX_FADV_WILLNEED)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        return found

    def _where(self) -> dict[str, dict[str, Any]]:
        if not self._sources:
            try:
                self._sources = sources(self._index.folder)
            except (OSError, ValueError) as error:
                raise FailedError(f"{self._index.folder}/sources.json cannot be read: {error}.") from error
        found: dict[str, dict[str, Any]] = self._sources["packs"]
        return found

    # -- over the network

    def _ahead(self, rows: Iterable[int]) -> Generator[bytes, None, None]:
        """Requests are under way for what comes next while the script works on what came."""
        # costs 10 ms, and nothing where packs are files
        from concurrent.futures import ThreadPoolExecutor

        waiting: deque[tuple[list[int], Any]] = deque()
        with ThreadPoolExecutor(AHEAD, thread_name_prefix="headway.data") as pool:
            try:
                for run in self._runs(rows):
                    waiting.append((run, pool.submit(self._fetch, run)))
                    if len(waiting) >= AHEAD:
                        yield from self._taken(*waiting.popleft())
                while waiting:
                    yield from self._taken(*waiting.popleft())
            finally:
                for _, one in waiting:
                    one.cancel()

    def _taken(self, run: list[int], fetched: Any) -> Iterator[bytes]:
        block: memoryview = fetched.result()
        first, offsets, sizes = self._columns.offsets[run[0]], self._columns.offsets, self._columns.sizes
        for row in run:
            start = offsets[row] - first
            yield bytes(block[start : start + sizes[row]])

    def _runs(self, rows: Iterable[int]) -> Iterator[list[int]]:
        """Rows that one request brings: one after another in a pack, without long gaps."""
        pack, offsets, sizes = self._columns.pack, self._columns.offsets, self._columns.sizes
        run: list[int] = []
        first = end = 0
        for row in rows:
            start = offsets[row]
            if run and not (
                0 <= pack[row] == pack[run[-1]]
                and start >= offsets[run[-1]]
                and (self._whole or (start - end <= GAP and start + sizes[row] - first <= RANGE))
            ):
                yield run
                run = []
            if not run:
                first = end = start
            run.append(row)
            end = max(end, start + sizes[row])
        if run:
            yield run

    def _fetch(self, run: list[int]) -> memoryview:
        """The bytes from the first row of a run to its end, checked; of a large file all of it."""
        columns, first = self._columns, run[0]
        if columns.pack[first] < 0:
            whole = _Block(columns.sizes[first])
            for number in columns.parts.get(first, []):
                self._range(whole, first, number, 0, columns.packs[number][1])
            self._check(first, whole.view[: whole.filled], self._checks(columns.parts.get(first, [])))
            return whole.view
        start = columns.offsets[first]
        end = max(columns.offsets[row] + columns.sizes[row] for row in run)
        block = _Block(end - start)
        self._range(block, run[-1], columns.pack[first], start, end - start)
        verify = self._checks([columns.pack[first]])
        for row in run if verify else ():
            at = columns.offsets[row] - start
            self._check(row, block.view[at : at + columns.sizes[row]], verify)
        return block.view

    def _checks(self, packs: Iterable[int]) -> bool:
        if self._verify is not None:
            return self._verify
        return not all(self._where()[self._columns.packs[n][0]].get("checked") for n in packs)

    def _range(self, block: _Block, row: int, number: int, start: int, length: int) -> None:
        """Bytes of a pack or part behind what the block has; a connection that is cut is made anew at the byte."""
        sha256, goal, tries = self._columns.packs[number][0], block.filled + length, 0
        while block.filled < goal:
            before = block.filled
            at = start + length - (goal - block.filled)
            try:
                source = self._where()[sha256]
                if "path" in source:
                    block.read(source["path"], at, goal)
                else:
                    self._get(source["url"], at, block, goal)
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
            if block.filled < goal:
                tries = 1 if block.filled > before else tries + 1
                if tries > TRIES:
                    raise self._damaged(row, why)
                time.sleep(min(0.1 * 2**tries, 5.0) if block.filled == before else 0)

    def _get(self, url: str, start: int, block: _Block, goal: int) -> None:
        asked = urllib.request.Request(url, headers={"Range": f"bytes={start}-{start + goal - block.filled - 1}"})
        with urllib.request.urlopen(asked, timeout=TIMEOUT) as answer:
            # rclone answers with the range that was asked for, and says 200
            if answer.status != 206 and not answer.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
                self._whole = True
                while start and (left_out := answer.read(min(start, _PIECE))):
                    start -= len(left_out)
            while block.filled < goal and (count := answer.readinto(block.room(goal))):
                block.filled += count


class _Block:
    """What one request is to bring, and how much of it is there."""

    def __init__(self, length: int) -> None:
        self.view, self.filled = memoryview(bytearray(length)), 0

    def room(self, goal: int) -> memoryview:
        """For what comes next, little enough that a cut connection loses little."""
        return self.view[self.filled : min(goal, self.filled + _PIECE)]

    def read(self, path: str, offset: int, goal: int) -> None:
        """Out of a file. Raises OSError."""
        with open(path, "rb", buffering=0) as file:
            file.seek(offset)
            while self.filled < goal and (count := file.readinto(self.room(goal))):
                self.filled += count


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
