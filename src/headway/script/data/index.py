"""What there is to read: the rows of a version as the helper beside the run wrote them, or the files of a folder."""

from __future__ import annotations

import json
import os
from array import array

from headway.errors import FailedError, NotFoundError, UsageError
from headway.protocol import columns, names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from headway.protocol.columns import Columns

#: items of one chunk, which a shuffle moves as a whole, at most
CHUNK = 1024


class Index:
    """The files of one channel. An item is a file, or with `by_group` the files that share a name up to its first dot.

    Attributes: `name` for people; `folder` with columns and sources.json, "" of a plain folder; `root` folder that the
    files are in, "" when they are in packs; `columns` its files, by number of row.
    """

    def __init__(self, name: str, folder: str, root: str, columns: Columns, prefix: str, by_group: bool) -> None:
        self.name, self.folder, self.root, self.columns, self.by_group = name, folder, root, columns, by_group
        #: number of the first row of each item, in the order of the packs; where the files of a version lie does not
        #: count: a run that begins out of its cache may go on by stream
        self.firsts: Sequence[int] = columns.order
        self._counts: Sequence[int] | None = None
        if prefix:
            self.firsts = array("Q", [row for row in columns.order if columns.path(row).startswith(prefix)])
        if by_group:
            self._group()

    def _group(self) -> None:
        """A group is put where the first of its files lies."""
        counts: dict[int, int] = {}
        first, last = 0, None
        for row in sorted(self.firsts):
            key = group(self.columns.path(row))
            if key != last:
                first, last = row, key
            counts[first] = counts.get(first, 0) + 1
        self.firsts = array("Q", [row for row in self.firsts if row in counts])
        self._counts = array("Q", [counts[row] for row in self.firsts])

    def __len__(self) -> int:
        return len(self.firsts)

    def rows(self, item: int) -> range:
        """Numbers of the files of an item."""
        first = self.firsts[item]
        return range(first, first + (1 if self._counts is None else self._counts[item]))

    def chunks(self) -> list[range]:
        """Items of one pack each, `CHUNK` at most."""
        found: list[range] = []
        start, last = 0, None
        for item, row in enumerate(self.firsts):
            pack = self.columns.pack[row]
            if item - start == CHUNK or (pack != last and item):
                found.append(range(start, item))
                start = item
            last = pack
        return [*found, range(start, len(self))] if len(self) else []


def group(path: str) -> str:
    """What files of one sample share: the path up to the first dot of its last part (as `rules.datasets.group`)."""
    folder, slash, name = path.rpartition("/")
    return folder + slash + name.split(".", 1)[0]


def open_index(channel: str | None, prefix: str, by_group: bool) -> Index:
    """The run's channel; outside a run a folder: `channel` itself, or what DATA_PATH names.

    Raises UsageError when several channels could be meant, NotFoundError, FailedError for a damaged index.
    """
    base = os.environ.get(names.DATA_INDEX)
    index = _of_run(base, channel, prefix, by_group) if base else _of_folder(_folder(channel), prefix, by_group)
    if not len(index):
        where = f" under {prefix!r}" if prefix else ""
        raise NotFoundError(f"{index.name} has no files{where}.", "Look with `headway dataset ls`.")
    return index


def _of_run(base: str, channel: str | None, prefix: str, by_group: bool) -> Index:
    there = sorted(e.name for e in os.scandir(base) if e.is_dir()) if os.path.isdir(base) else []
    if channel is None and len(there) != 1:
        raise UsageError(
            f"This run has {len(there)} channels: {', '.join(there) or 'none'}.", "Name one: headway.data(CHANNEL)."
        )
    if channel is not None and channel not in there:
        raise NotFoundError(f"This run has no channel {channel!r}.", f"It has: {', '.join(there) or 'none'}.")
    folder = os.path.join(base, channel or there[0])
    try:
        found = columns.read(os.path.join(folder, columns.FILE))
        return Index(_named(folder), folder, sources(folder).get("root") or "", found, prefix, by_group)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise FailedError(f"The index in {folder} is damaged ({error}).", "Start the run again.") from error


def sources(folder: str) -> dict[str, Any]:
    """Where the packs are to be had now. Raises OSError, ValueError."""
    with open(os.path.join(folder, "sources.json"), encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


def _named(folder: str) -> str:
    said = sources(folder)
    return f"{said['name']}@{said['version']}" if "name" in said else os.path.basename(folder)


def _folder(channel: str | None) -> str:
    given = os.environ.get(names.DATA_PATH)
    if channel is None:
        if given:
            return given
        raise UsageError("There is no data: DATA_PATH is not set.", "Name a folder: headway.data(FOLDER).")
    for folder in (os.path.join(given, channel) if given else channel, channel):
        if os.path.isdir(folder):
            return folder
    raise NotFoundError(f"There is no folder {channel!r}.", "Name one that is there, or set DATA_PATH.")


def _of_folder(folder: str, prefix: str, by_group: bool) -> Index:
    if not os.path.isdir(folder):
        raise NotFoundError(f"There is no folder {folder!r}.", "Name one that is there, or set DATA_PATH.")
    found = columns.Builder()
    for path, size in sorted(_walk(folder, ""), key=lambda found: found[0].split("/")):
        found.add(path, size)
    return Index(os.path.basename(os.path.abspath(folder)), "", folder, found.columns(), prefix, by_group)


def _walk(folder: str, above: str) -> Iterator[tuple[str, int]]:
    for entry in os.scandir(folder):
        if entry.is_dir():
            yield from _walk(entry.path, f"{above}{entry.name}/")
        elif entry.is_file():
            yield above + entry.name, entry.stat().st_size
