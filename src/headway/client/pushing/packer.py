"""Puts small files into packs: each is read once, straight into the pack that is being filled."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headway.client.pushing import reading
from headway.client.pushing.entries import Entry, Source
from headway.client.pushing.packing import Pack
from headway.client.pushing.progress import Tracker
from headway.client.pushing.sending import Sender
from headway.rules.datasets import group

#: share of a pack that is filled with what is new before it is sent
_FULL = 0.9


class Packer:
    def __init__(
        self, source: Source, sender: Sender, known: Callable[[Iterable[str]], set[str]], tracker: Tracker, size: int
    ) -> None:
        """known: asks which contents the project has. size: bytes of a pack."""
        self._source, self._sender, self._known, self._tracker, self._size = source, sender, known, tracker, size
        self._pack = self._begin()
        self._inside: set[str] = set()
        #: contents of the pack that the project is known not to have
        self._asked = 0

    def add(self, entry: Entry) -> tuple[Entry, str]:
        """The entry as it was read, and its SHA-256; what is new of it is sent sooner or later."""
        found, sha256 = reading.small(self._source, entry, self._place)
        if sha256 in self._inside:
            self._tracker.has(1, found.bytes)
        else:
            self._pack.keep(found.path, found.bytes, sha256)
            self._inside.add(sha256)
        return found, sha256

    def close(self) -> None:
        """Sends what is left."""
        self._leave_out()
        self._ship()

    def _begin(self) -> Pack:
        return Pack(self._sender.buffer(), self._size)

    def _place(self, entry: Entry) -> memoryview:
        """Where a file's bytes are read to; the pack is sent first if they have no room."""
        if not self._pack.fits(entry.path, entry.bytes):
            self._leave_out()
            if self._pack.end > _FULL * self._size or not self._pack.fits(entry.path, entry.bytes):
                self._next(entry)
        if not self._pack.fits(entry.path, entry.bytes):
            raise reading.changed(entry)  # it was small when it was listed
        return self._pack.place(entry.path, entry.bytes)

    def _next(self, entry: Entry) -> None:
        """A new pack, with what belongs to the entry's sample from the end of the old one."""
        old, new = self._pack, self._begin()
        if group(entry.path) != entry.path:  # names without a dot are no samples
            old.hand_over(entry.path, new)
        self._ship()
        self._pack = new
        self._inside, self._asked = {c.sha256 for c in new.contents}, len(new.contents)

    def _leave_out(self) -> None:
        """Cuts out of the pack what the project has, or gets by a pack that is under way."""
        under_way = self._sender.under_way()
        fresh = self._pack.contents[self._asked :]
        spare = {c.sha256 for c in fresh if c.sha256 in under_way}
        spare |= self._known(c.sha256 for c in fresh if c.sha256 not in spare)
        left_out = [c.bytes for c in fresh if c.sha256 in spare]
        if left_out:
            self._pack.drop(spare)
            self._tracker.has(len(left_out), sum(left_out))
        self._inside = {c.sha256 for c in self._pack.contents}
        self._asked = len(self._pack.contents)

    def _ship(self) -> None:
        pack = self._pack
        if pack.contents:
            self._sender.send("pack", pack.close(), pack.view, pack.contents)
        else:
            self._sender.give_back(pack.view)
