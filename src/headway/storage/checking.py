"""Reads what a version says that it holds, and tells what of it is damaged. It holds a page of the manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice

from headway.rules.datasets import PAGE_ROWS
from headway.storage import layout
from headway.storage.manifests import Manifest, Placed
from headway.storage.objects import MissingObjectError, ObjectStore
from headway.storage.verify import InvalidError

#: packs and large files that are read at once
_THREADS = 4
#: bytes between two contents of a pack that are read along rather than asked around
_GAP = 1 << 20
#: faults that are told one by one
_MOST = 1000

_DAMAGED = "Its content is not what the manifest says."


@dataclass(frozen=True)
class _Fault:
    """What is wrong with a file, and the object at fault."""

    said: str
    kind: str
    sha256: str


@dataclass
class Checked:
    """What was read, and what of it is wrong."""

    files: int = 0
    bytes: int = 0
    #: path -> what is wrong, of the first 1,000
    faults: dict[str, str] = field(default_factory=dict)
    faulty: int = 0
    #: (kind, SHA-256) of the packs and parts that they come from
    objects: set[tuple[str, str]] = field(default_factory=set)

    def add(self, rows: Iterable[Placed], faults: dict[str, _Fault]) -> None:
        for row in rows:
            self.files += 1
            self.bytes += row.bytes
            if fault := faults.get(row.path):
                self.faulty += 1
                if len(self.faults) < _MOST:
                    self.faults[row.path] = fault.said
                self.objects.add((fault.kind, fault.sha256))


def check_version(
    store: ObjectStore, project: str, manifest: Manifest, wanted: Callable[[], bool] = lambda: True
) -> Checked:
    """wanted: asked once a file, whether to read it. A damaged manifest is a fault of the path ""."""
    found = Checked()
    chosen = (row for row in manifest.rows() if wanted())
    with ThreadPoolExecutor(_THREADS) as pool:
        try:
            while page := list(islice(chosen, PAGE_ROWS)):
                tasks = [pool.submit(_pack, store, project, pack, rows) for pack, rows in _by_pack(page).items()]
                tasks += [pool.submit(_large, store, project, row) for row in page if row.pack is None]
                faults: dict[str, _Fault] = {}
                for task in tasks:
                    faults.update(task.result())
                found.add(page, faults)
        except (InvalidError, MissingObjectError) as error:
            found.faulty += 1
            found.faults[""] = f"The manifest cannot be read ({error})."
    return found


def _by_pack(page: Iterable[Placed]) -> dict[str, list[Placed]]:
    packs: dict[str, list[Placed]] = {}
    for row in page:
        if row.pack is not None:
            packs.setdefault(row.pack, []).append(row)
    return packs


def _pack(store: ObjectStore, project: str, pack: str, rows: list[Placed]) -> dict[str, _Fault]:
    """Faults of files whose contents are in one pack, by path."""
    places: dict[tuple[int, int], list[Placed]] = {}
    for row in rows:
        places.setdefault((row.offset or 0, row.bytes), []).append(row)
    faults: dict[str, _Fault] = {}
    damaged = _Fault(_DAMAGED, layout.PACK, pack)
    key = layout.pack_key(project, pack)
    for segment in _segments(sorted(places)):
        try:
            digests = _digests(store, key, segment)
        except MissingObjectError:
            return {row.path: _Fault(f"Its pack {pack[:12]} is gone.", layout.PACK, pack) for row in rows}
        for place, digest in zip(segment, digests, strict=True):
            faults.update({row.path: damaged for row in places[place] if row.sha256 != digest})
    return faults


def _segments(places: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """(offset, bytes), sorted, in groups that one request reads."""
    segment: list[tuple[int, int]] = []
    end = 0
    for offset, size in places:
        if segment and offset - end > _GAP:
            yield segment
            segment = []
        segment.append((offset, size))
        end = max(end, offset + size) if len(segment) > 1 else offset + size
    if segment:
        yield segment


def _digests(store: ObjectStore, key: str, places: list[tuple[int, int]]) -> list[str]:
    """SHA-256 of each of these places, which do not overlap, read in one go; what is cut off has another one."""
    first, last = places[0][0], places[-1][0] + places[-1][1]
    blocks = store.stream(key, first, last - first)
    held, at = memoryview(b""), first
    found = []
    for offset, size in places:
        digest = hashlib.sha256()
        end = offset + size
        while at < end:
            if not held:
                held = memoryview(next(blocks, b""))
                if not held:
                    break
            skip = min(len(held), max(0, offset - at))
            take = min(len(held) - skip, end - at - skip)
            digest.update(held[skip : skip + take])
            held, at = held[skip + take :], at + skip + take
        found.append(digest.hexdigest())
    return found


def _large(store: ObjectStore, project: str, row: Placed) -> dict[str, _Fault]:
    whole = hashlib.sha256()
    for sha256, size in row.parts:
        part, read = hashlib.sha256(), 0
        try:
            for block in store.stream(layout.part_key(project, sha256)):
                part.update(block)
                whole.update(block)
                read += len(block)
        except MissingObjectError:
            return {row.path: _Fault(f"Its part {sha256[:12]} is gone.", layout.PART, sha256)}
        if (part.hexdigest(), read) != (sha256, size):
            return {row.path: _Fault(f"Its part {sha256[:12]} is not what its name says.", layout.PART, sha256)}
    # each part is right: they are not those of this file
    right = whole.hexdigest() == row.sha256
    return {} if right else {row.path: _Fault(_DAMAGED, layout.PART, row.parts[0][0] if row.parts else "")}
