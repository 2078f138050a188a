"""A push: what a source holds is compared with what the project has, what is missing sent, a version published."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from headway.client.pushing.desk import Desk
from headway.client.pushing.entries import Choice, Entry, Source
from headway.client.pushing.hashes import HashCache
from headway.client.pushing.packer import Packer
from headway.client.pushing.parts import Parts
from headway.client.pushing.progress import Progress, Tracker
from headway.client.pushing.sending import Sender
from headway.client.pushing.sources import opened
from headway.client.transport import Transport
from headway.errors import NotFoundError, RefusedError, UsageError
from headway.rules.datasets import PAGE_ROWS, Row, is_name, lines
from headway.wire.datasets import DatasetVersionView

#: times that a push is done anew when what it relied on was removed meanwhile
_ROUNDS = 3


def push(
    transport: Transport,
    project: str,
    name: str,
    given: Path | str,
    *,
    statistics: dict[str, Any] | None = None,
    choice: Choice | None = None,
    label: str | None = None,
    told: Callable[[Progress], None] = lambda progress: None,
    notes: Callable[[str], None] = lambda note: None,
    cache: Path | None = None,
) -> DatasetVersionView:
    """Pushes a folder, an archive, a file or a URL as a new version; the newest one when it has the same files.

    label: where it comes from, for people; the host and path, or the URL, when None. notes: told what was left out, and
    what may cause trouble. cache: of hashes; the user's own when None.
    Raises UsageError for a source that cannot be pushed; nothing of it is sent then.
    """
    if not is_name(name):
        raise UsageError(f"{name!r} is no name of a dataset.", "Use lower-case letters, digits, and . _ - inside.")
    tracker = Tracker(told)
    with opened(given, choice or Choice(), tracker.fetching) as source:
        source.label = label or source.label
        hashes = HashCache(getattr(source, "root", ""), cache)
        try:
            unchanged = _Unchanged(hashes, tracker)
            scan = source.scan(unchanged.look)
            for note in scan.notes:
                notes(note)
            newest = _newest(transport, project, name) if unchanged.digest else None
            if newest is not None and newest.digest == unchanged.digest and not newest.damaged:
                return newest
            for last in (False,) * (_ROUNDS - 1) + (True,):
                hashes.rewind()
                tracker.begin(scan.files, scan.bytes)
                try:
                    trial = _Round(transport, project, name, source, hashes, tracker)
                    return trial.run(scan.files, scan.bytes, statistics)
                except RefusedError as error:
                    if error.code != "conflict" or last:
                        raise
                except NotFoundError:
                    # the push itself is gone: taken for dead by a server whose clock jumped
                    if last:
                        raise
        finally:
            hashes.close()
    raise AssertionError("unreachable")


class _Unchanged:
    """The digest that the source's version has, if the cache has the hash of every file."""

    def __init__(self, hashes: HashCache, tracker: Tracker) -> None:
        self._hashes, self._tracker = hashes, tracker
        self._running: Any = hashlib.sha256()
        self._files = 0

    @property
    def digest(self) -> str | None:
        return self._running.hexdigest() if self._running is not None and self._files else None

    def look(self, entry: Entry) -> None:
        self._tracker.scanned()
        self._files += 1
        if self._running is None:
            return
        sha256 = self._hashes.look(entry)
        if sha256 is None:
            self._running = None
        else:
            for line in lines([(entry.path, entry.bytes, sha256)]):
                self._running.update(line)


def _newest(transport: Transport, project: str, name: str) -> DatasetVersionView | None:
    try:
        found = transport.call("GET", f"/projects/{project}/datasets/{quote(name)}/versions")
    except NotFoundError:
        return None
    return DatasetVersionView.model_validate(found[-1]) if found else None


class _Round:
    """One try at it."""

    def __init__(
        self, transport: Transport, project: str, name: str, source: Source, hashes: HashCache, tracker: Tracker
    ) -> None:
        self._source, self._hashes, self._tracker = source, hashes, tracker
        self._desk = Desk(transport, project, name)

    def run(self, files: int, size: int, statistics: dict[str, Any] | None) -> DatasetVersionView:
        opened = self._desk.open(self._source.label, files, size)
        sender = Sender(self._desk.transport, self._desk.path, opened, self._tracker)
        try:
            self._packer = Packer(self._source, sender, self._desk.known, self._tracker, opened.pack_bytes)
            self._parts = Parts(self._source, sender, self._desk, self._tracker, opened.part_bytes)
            entries = self._source.entries()
            while batch := list(itertools.islice(entries, PAGE_ROWS)):
                self._desk.add_rows(list(self._settled(batch, opened.large_bytes)))
            self._packer.close()
            sender.wait()
            self._parts.close()
            self._tracker.publishing()
            return self._desk.publish(statistics)
        finally:
            sender.close()

    def _settled(self, batch: list[Entry], large: int) -> Iterator[Row]:
        """A row of each; what the project has not is on its way then."""
        hashed = [(entry, self._hashes.look(entry)) for entry in batch]
        known = self._desk.known([sha256 for _, sha256 in hashed if sha256])
        for entry, sha256 in hashed:
            if sha256 in known:
                self._tracker.has(1, entry.bytes)
                yield entry.path, entry.bytes, sha256
                continue
            found, fresh = self._parts.add(entry) if entry.bytes >= large else self._packer.add(entry)
            if fresh != sha256:
                self._hashes.add(found, fresh)
            yield found.path, found.bytes, fresh
