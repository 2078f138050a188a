"""Filling: from a store into the cache, many units at once, each in sequential streams."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from headway.storage.cache.room import Cache
from headway.storage.cache.units import Content, Unit, UnitFolder, seal
from headway.storage.full import from_oserror
from headway.storage.objects import ObjectStore, StoreFault
from headway.storage.verify import InvalidError

THREADS = 8
#: bytes between two wanted contents that are rather read than left out: a request costs about as much
GAP_BYTES = 1 << 20
#: before what could not be read is read again
RETRY_SECONDS = 0.2


@dataclass
class Filled:
    """What became of the units that were asked for."""

    hits: int = 0
    hit_bytes: int = 0
    misses: int = 0
    miss_bytes: int = 0
    corrupt: int = 0
    #: units of which not all could be held
    left: list[Unit] = field(default_factory=list)


#: told of each content that is there: its bytes, and whether they were fetched. Called from many threads
Tell = Callable[[int, bool], None]


def fill(cache: Cache, store: ObjectStore, units: Sequence[Unit], tell: Tell, *, threads: int = THREADS) -> Filled:
    """Brings what is missing of pinned `units` into the cache.

    Raises MissingObjectError, InvalidError for content in the store that is not the manifest's, or what the store
    raises. What the cache's disk does not take is left.
    """
    filled = Filled()
    try:
        admitted = {u.name for u in cache.admit(units)}
    except OSError as error:
        if from_oserror(error, cache.folder) is None:
            raise
        admitted = set()
    filled.left = [u for u in units if u.name not in admitted]
    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="fill") as pool:
        waiting = {pool.submit(_one, cache, store, u, tell): u for u in units if u.name in admitted}
        try:
            for done in as_completed(waiting):
                one = done.result()
                for name in ("hits", "hit_bytes", "misses", "miss_bytes", "corrupt"):
                    setattr(filled, name, getattr(filled, name) + getattr(one, name))
                filled.left += one.left
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    refused = [c for u in filled.left for c in u.contents]
    cache.count(
        hits=filled.hits,
        hit_bytes=filled.hit_bytes,
        misses=filled.misses,
        miss_bytes=filled.miss_bytes,
        corrupt=filled.corrupt,
        refused=len(refused),
        refused_bytes=sum(c.bytes for c in refused),
    )
    return filled


def _one(cache: Cache, store: ObjectStore, unit: Unit, tell: Tell) -> Filled:
    folder, found = cache.unit(unit.name), Filled()
    with folder.locked():
        trusted = folder.note().trusted(cache.clock())
        if not trusted:
            found.corrupt = len(folder.verify())
        missing = folder.missing(unit.contents)
        # what is there all the same was written to
        found.corrupt += sum(os.path.lexists(folder.content(c.sha256)) for c in missing)
        lacking = {c.sha256 for c in missing}
        for content in unit.contents:
            if content.sha256 not in lacking:
                found.hits, found.hit_bytes = found.hits + 1, found.hit_bytes + content.bytes
                tell(content.bytes, False)
        if trusted and not missing:
            return found
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
            _fetch_all(store, unit, missing, folder, found, tell)
        except OSError as error:
            # somebody else has filled the disk meanwhile; what is there stays
            if from_oserror(error, folder.path) is None:
                raise
            found.left.append(unit)
        finally:
            cache.settle(unit.name, verified=not trusted)
    return found


def _fetch_all(
    store: ObjectStore, unit: Unit, missing: Sequence[Content], folder: UnitFolder, found: Filled, tell: Tell
) -> None:
    """`fetch`, again for what is still missing when a connection was cut or bytes came damaged."""
    for last in (False, False, True):
        try:
            for content in fetch(store, unit, folder.missing(missing), folder.path):
                found.misses, found.miss_bytes = found.misses + 1, found.miss_bytes + content.bytes
                tell(content.bytes, True)
            return
        except (InvalidError, StoreFault) as error:
            if last or (isinstance(error, StoreFault) and not error.passing):
                raise
            time.sleep(RETRY_SECONDS)


def fetch(store: ObjectStore, unit: Unit, contents: Sequence[Content], into: Path) -> Iterator[Content]:
    """Writes each of `contents` to `into`/<sha256>, sealed; gives it once it is there.

    Raises InvalidError naming a file whose bytes are not the manifest's, MissingObjectError, OSError of the disk.
    """
    for span in _spans(contents):
        blocks = _Reader(read(store, unit, span[0].offset, span[-1].offset + span[-1].bytes), span[0].offset)
        for content in span:
            blocks.skip_to(content.offset)
            _write(into / content.sha256, blocks, content)
            yield content


def _spans(contents: Sequence[Content]) -> Iterator[list[Content]]:
    """Neighbours that are read in one stream, by offset."""
    span: list[Content] = []
    for content in sorted(contents, key=lambda c: (c.offset, c.bytes)):
        end = span[-1].offset + span[-1].bytes if span else 0
        if span and not end <= content.offset <= end + GAP_BYTES:
            yield span
            span = []
        span.append(content)
    if span:
        yield span


def read(store: ObjectStore, unit: Unit, start: int, end: int) -> Iterator[bytes]:
    """The unit's bytes from `start` up to `end`, over its objects."""
    at = 0
    for key, size in unit.objects:
        stop = end if size is None else min(end, at + size)
        if start < stop:
            yield from store.stream(key, start - at, stop - start)
            start = stop
        at = stop
    # a content may be empty: then nothing was asked for


class _Reader:
    """Takes exact numbers of bytes out of blocks."""

    def __init__(self, blocks: Iterator[bytes], at: int) -> None:
        self._blocks, self._at = blocks, at
        self._block = memoryview(b"")

    def skip_to(self, offset: int) -> None:
        for _ in self.take(offset - self._at):
            pass

    def take(self, count: int) -> Iterator[memoryview]:
        """`count` bytes in pieces; fewer where the stream ends."""
        while count > 0:
            if not self._block:
                block = next(self._blocks, None)
                if block is None:
                    return
                self._block = memoryview(block)
                continue
            piece, self._block = self._block[:count], self._block[count:]
            self._at += len(piece)
            count -= len(piece)
            yield piece


def _write(path: Path, blocks: _Reader, content: Content) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()  # never written through: other names of it may be in use
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        found = hashlib.sha256()
        for piece in blocks.take(content.bytes):
            found.update(piece)
            view = piece
            while view:
                view = view[os.write(fd, view) :]
        if found.hexdigest() != content.sha256:
            raise InvalidError(f"{content.path}: the object store has other bytes for it than the manifest says.")
        seal(fd)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)
