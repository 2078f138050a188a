"""What there is to read: the rows of a version as the helper beside the run wrote them, or the files of a folder."""

from __future__ import annotations

import gzip
import json
import os
from array import array

from headway.errors import FailedError, NotFoundError, UsageError
from headway.protocol import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

#: items of one chunk, which a shuffle moves as a whole, at most
CHUNK = 1024


class Row:
    """A file."""

    __slots__ = ("bytes", "offset", "pack", "parts", "path", "sha256")

    def __init__(self, path: str, size: int, sha256: str, pack: str, offset: int, parts: list[tuple[str, int]]) -> None:
        self.path, self.bytes, self.sha256 = path, size, sha256
        #: SHA-256 of its pack, and where it begins; "": a large file in parts, or one in a folder
        self.pack, self.offset = pack, offset
        #: SHA-256 and bytes of each part, in order
        self.parts = parts


class Index:
    """The files of one channel, in the order of the packs. About 150 bytes of memory a file; a fork shares them.

    Attributes: `name` for people; `folder` with index.json and sources.json, "" of a plain folder; `root` folder that
    the files are in, "" when they are in packs.
    """

    def __init__(self, name: str, folder: str, root: str, packs: list[tuple[str, int]], by_group: bool) -> None:
        self.name, self.folder, self.root, self.packs = name, folder, root, packs
        self._by_group = by_group
        self._text = bytearray()
        self._ends = array("Q", [0])
        #: number of the first row of each item, in order of rows
        self._firsts: array[int] = array("Q")
        #: (pack, offset) of each item
        self._places: list[tuple[int, int]] = []
        self._group: str | None = None

    def add(self, row: list[Any]) -> None:
        """[path, bytes, SHA-256, number of the pack, offset], or [path, bytes, SHA-256, [numbers of parts]]"""
        key = group(row[0]) if self._by_group else None
        if key is None or key != self._group:
            self._firsts.append(len(self._ends) - 1)
            # of a plain folder, and large ones, in order of their paths. Where the files of a version lie does not
            # count: a run that begins out of its cache may go on by stream
            by_path = not self.packs or len(row) == 4
            self._places.append((len(self.packs), len(self._ends)) if by_path else (row[3], row[4]))
        self._group = key
        self._text += json.dumps(row, separators=(",", ":")).encode()
        self._ends.append(len(self._text))

    def sort(self) -> None:
        """After the last `add`. Items are numbered by their places from now on."""
        order = sorted(range(len(self._firsts)), key=self._places.__getitem__)
        self._packs_of = array("q", [self._places[n][0] for n in order])
        self._items = array("Q", order)
        self._places = []
        self._firsts.append(len(self._ends) - 1)

    def __len__(self) -> int:
        return len(self._items)

    def rows(self, item: int) -> list[Row]:
        """The files of an item: one, or those of a group."""
        number = self._items[item]
        return [self._row(n) for n in range(self._firsts[number], self._firsts[number + 1])]

    def chunks(self) -> list[range]:
        """Items of one pack each, `CHUNK` at most."""
        found: list[range] = []
        start = 0
        for item in range(1, len(self) + 1):
            if item == len(self) or item - start == CHUNK or self._packs_of[item] != self._packs_of[start]:
                found.append(range(start, item))
                start = item
        return found

    def _row(self, number: int) -> Row:
        row = json.loads(self._text[self._ends[number] : self._ends[number + 1]])
        if len(row) == 5:
            pack = self.packs[row[3]][0] if self.packs else ""
            return Row(row[0], row[1], row[2], pack, row[4], [])
        return Row(row[0], row[1], row[2], "", 0, [self.packs[n] for n in row[3]])


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
    index.sort()
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
        with open(os.path.join(folder, "index.json"), encoding="utf-8") as file:
            root = json.load(file)
        packs = [(str(sha256), int(size)) for _, sha256, size in root["packs"]]
        index = Index(_named(folder), folder, sources(folder).get("root") or "", packs, by_group)
        with open(os.path.join(folder, "rows.gz"), "rb") as file:
            for _, count, start, length in root["pages"]:
                file.seek(start)
                found = list(map(json.loads, gzip.decompress(file.read(length)).splitlines()))
                if len(found) != count:
                    raise ValueError(f"a page has {len(found)} rows, not {count}")
                for row in found:
                    if row[0].startswith(prefix):
                        index.add(row)
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise FailedError(f"The index in {folder} is damaged ({error}).", "Start the run again.") from error
    return index


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
    index = Index(os.path.basename(os.path.abspath(folder)), "", folder, [], by_group)
    for path, size in sorted(_walk(folder, ""), key=lambda found: found[0].split("/")):
        if path.startswith(prefix):
            index.add([path, size, "", 0, len(index._ends)])
    return index


def _walk(folder: str, above: str) -> Iterator[tuple[str, int]]:
    for entry in os.scandir(folder):
        if entry.is_dir():
            yield from _walk(entry.path, f"{above}{entry.name}/")
        elif entry.is_file():
            yield above + entry.name, entry.stat().st_size
