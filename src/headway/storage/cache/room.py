"""The cache as one thing: who gets room in it, who has to go, and what it has done so far."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from headway.protocol import identity
from headway.protocol.files import write_json
from headway.storage.cache import limits, pins
from headway.storage.cache.limits import Held, Limits, Need
from headway.storage.cache.pins import Pin
from headway.storage.cache.units import Note, Unit, UnitFolder, on_disk


@dataclass
class Counts:
    """Since the cache was made; bytes are those of contents."""

    hits: int = 0
    hit_bytes: int = 0
    misses: int = 0
    miss_bytes: int = 0
    #: contents that got no room
    refused: int = 0
    refused_bytes: int = 0
    #: contents that were not what their names said, and were fetched again
    corrupt: int = 0
    evicted_units: int = 0
    evicted_bytes: int = 0


@dataclass(frozen=True)
class State:
    """What a cache holds now."""

    units: int
    bytes: int
    files: int
    pinned_units: int
    pinned_bytes: int
    high_bytes: int
    low_bytes: int
    counts: Counts


class Cache:
    """Shared by processes: every change of what is held, pinned or counted is made under one lock."""

    def __init__(self, folder: Path, given: Limits | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self.folder = Path(folder)
        self.limits = given or Limits()
        self.clock = clock

    def unit(self, name: str) -> UnitFolder:
        return UnitFolder(self.folder, name)

    def place(self, attempt: str) -> Path:
        """Parent of the folders that a run sees."""
        return self.folder / "places" / attempt

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        fd = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    # -- room

    def pin(self, pin: Pin, units: Sequence[Unit]) -> None:
        """From now on none of them is evicted. Also sweeps what dead runs have left. Raises OSError."""
        with self._locked():
            self._sweep()
            pin.add(u.name for u in units)

    def admit(self, units: Sequence[Unit]) -> list[Unit]:
        """Makes room for what is missing of pinned units, in their order; those that it is kept for.

        Least recently used units that no live run has pinned go for it. Raises OSError.
        """
        needs = {u.name: self._need(u) for u in units}
        with self._locked():
            notes = self._notes()
            held = sum(max(n.bytes, n.reserved) for n in notes.values())
            whole = Need(sum(n.bytes for n in needs.values()), sum(n.files for n in needs.values()))
            held -= self._evict(limits.to_free(whole, held, self.limits, limits.measured(self.folder)), notes)
            disk = limits.measured(self.folder)
            taken, admitted = Need(0, 0), []
            for unit in units:
                need = needs[unit.name]
                both = Need(taken.bytes + need.bytes, taken.files + need.files)
                if need.files and not limits.fits(both, held, self.limits, disk):
                    continue
                taken = both
                self._reserve(unit, need, notes.get(unit.name) or Note())
                admitted.append(unit)
            return admitted

    def _need(self, unit: Unit) -> Need:
        missing = self.unit(unit.name).missing(unit.contents)
        return Need(on_disk(c.bytes for c in missing), len(missing))

    def _reserve(self, unit: Unit, need: Need, note: Note) -> None:
        folder = self.unit(unit.name)
        if need.files:
            note.reserved = max(note.reserved, note.bytes + need.bytes)
            folder.write_note(note)
        folder.use(self.clock())

    def settle(self, name: str, *, verified: bool) -> None:
        """Notes what a unit holds, after it was filled. verified: all of it was read just now."""
        folder = self.unit(name)
        with self._locked():
            note = folder.note()
            note.bytes, note.files = folder.measure()
            note.reserved = 0
            if verified:
                note.verified_at, note.boot = self.clock(), identity.own().boot
            with contextlib.suppress(OSError):  # without it the unit is read anew at its next use
                folder.write_note(note)
            folder.use(self.clock())

    def _notes(self) -> dict[str, Note]:
        return {name: self.unit(name).note() for name in self.names()}

    def names(self) -> list[str]:
        try:
            return sorted(n for n in os.listdir(self.folder / "units") if not n.startswith("."))
        except FileNotFoundError:
            return []

    def _evict(self, need: Need, notes: dict[str, Note]) -> int:
        """Bytes by which `held` has become less. Under the lock; what went is taken out of `notes`."""
        if need.bytes <= 0 and need.files <= 0:
            return 0
        kept = pins.pinned(self.folder)
        free = [
            Held(name, max(note.bytes, note.reserved), note.files + 1, self.unit(name).used_at())
            for name, note in notes.items()
            if name not in kept
        ]
        gone = [held for held in limits.leaving(free, need) if self._take_away(held.name)]
        for held in gone:
            del notes[held.name]
        bytes_ = sum(held.bytes for held in gone)
        self._count(evicted_units=len(gone), evicted_bytes=bytes_)
        return bytes_

    def _take_away(self, name: str) -> bool:
        folder = self.unit(name)
        with folder.locked(wait=False) as ours:
            if not ours:
                return False
            try:
                folder.remove()
            except OSError:
                return False
        return True

    def _sweep(self) -> None:
        """Removes pins and places of runs that are gone, and what was being removed by somebody who died."""
        for name in list(pins.dead(self.folder)):
            pins.forget(self.folder, name)
        alive = {name.rpartition(".")[0] for name in pins.names(self.folder)}
        for parent, keep in ((self.folder / "places", alive), (self.folder / "units", set(self.names()))):
            with contextlib.suppress(FileNotFoundError):
                for name in os.listdir(parent):
                    if name not in keep:
                        shutil.rmtree(parent / name, ignore_errors=True)

    def leave(self, pin: Pin) -> None:
        """The run has ended: its places go, and its units may."""
        attempt = pin.name.rpartition(".")[0]
        with self._locked():
            pin.let_go()
            if not any(name.rpartition(".")[0] == attempt for name in pins.names(self.folder)):
                shutil.rmtree(self.place(attempt), ignore_errors=True)

    # -- what it has done, and what it holds

    def counts(self) -> Counts:
        try:
            return Counts(**json.loads((self.folder / "counts.json").read_bytes()))
        except (OSError, ValueError, TypeError):
            return Counts()

    def count(self, **more: int) -> None:
        """Adds to the counts. What cannot be written is not counted."""
        with contextlib.suppress(OSError), self._locked():
            self._count(**more)

    def _count(self, **more: int) -> None:
        found = asdict(self.counts())
        with contextlib.suppress(OSError):
            write_json(self.folder / "counts.json", {name: n + more.get(name, 0) for name, n in found.items()})

    def state(self) -> State:
        """Raises OSError."""
        with self._locked():
            notes, kept = self._notes(), pins.pinned(self.folder)
            high, low = limits.marks(self.limits, limits.measured(self.folder))
            return State(
                units=len(notes),
                bytes=sum(n.bytes for n in notes.values()),
                files=sum(n.files for n in notes.values()),
                pinned_units=sum(name in kept for name in notes),
                pinned_bytes=sum(n.bytes for name, n in notes.items() if name in kept),
                high_bytes=high,
                low_bytes=low,
                counts=self.counts(),
            )

    def verify(self) -> list[str]:
        """Reads all that is held; what was removed because it was not what its name says."""
        removed: list[str] = []
        for name in self.names():
            folder = self.unit(name)
            with folder.locked():
                bad = folder.verify()
                if folder.path.is_dir():
                    self.settle(name, verified=True)
            removed += bad
        self.count(corrupt=len(removed))
        return removed

    def clear(self) -> tuple[int, int]:
        """Removes all that no live run uses; units and bytes that went."""
        with self._locked():
            self._sweep()
            kept = pins.pinned(self.folder)
            went = [(name, note.bytes) for name, note in self._notes().items() if name not in kept]
            gone = [size for name, size in went if self._take_away(name)]
            self._count(evicted_units=len(gone), evicted_bytes=sum(gone))
            return len(gone), sum(gone)
