"""What a dataset holds, in numbers, for people to look at before they train on it; and what is wrong with it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Any

from headway.client.statistics import copies, images, readers, samerows, tables
from headway.client.statistics import texts as lengths
from headway.client.statistics.concerns import texts as warning_texts
from headway.client.statistics.concerns import warnings
from headway.client.statistics.inventory import Inventory
from headway.client.statistics.kinds import TABLES
from headway.client.statistics.source import Folder, Source
from headway.errors import FailedError, HeadwayError

__all__ = ["Folder", "Source", "of", "warning_texts"]

#: pairs of split and class whose counts are kept; a dataset with more has no class folders but one folder a sample
_LABELS = 5000
#: warnings, and characters of a name or sentence, that are kept
_WARNINGS, _TEXT = 100, 1000
#: files with a class's name on each line
_NAMES = ("classes.txt", "class_names.txt")

#: what is read, how many are, of how many
Progress = Callable[[str, int, int], None]


def of(source: Source, progress: Progress = lambda what, done, total: None) -> dict[str, Any]:
    """Statistics of a dataset; large ones by a sample that is spread evenly, which says so.

    Always: "files", "bytes", "empty_files", "kinds" {kind: files}, "sample_kind", "warnings" [{"code", "text", ...}].
    Where there are such: "splits" {split: {class folder: samples}} (split "all": none are told apart) and "classes"
    {split: [names in the order that a folder reader numbers them]}; "images", "texts", "tables", "labels"
    {column: {split: {value: rows}}}, "row_leaks", "duplicates", "leaks", "conflicts" as the modules here say.
    Memory is flat, whatever the number of files. Raises FailedError where the temporary folder's disk is full.
    """
    try:
        with Inventory(source.rows()) as inventory:
            found = _files(inventory)
            found |= _classes(inventory)
            found |= copies.of(inventory.copies())
            found |= _images(inventory, source, progress)
            found |= _texts(inventory, source, progress)
            found |= _tables(inventory, source, progress)
            if named := _named(inventory, source):
                found["classes_named"] = named
    except sqlite3.Error as error:
        raise FailedError(
            f"The statistics cannot be made: {error}.", "Free space in the temporary folder, or set TMPDIR."
        ) from error
    found["warnings"] = warnings(found)[:_WARNINGS]
    kept: dict[str, Any] = _plain(found)
    return kept


def _plain(value: Any) -> Any:
    """As every database keeps it: names out of files may be long, or hold what is no text."""
    if isinstance(value, str):
        text = value.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
        return text if len(text) <= _TEXT else text[:_TEXT] + "…"
    if isinstance(value, dict):
        return {_plain(k): _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list) else value


def _files(inventory: Inventory) -> dict[str, Any]:
    files, size, empty = inventory.totals()
    return {
        "files": files,
        "bytes": size,
        "empty_files": empty,
        "kinds": inventory.kinds(),
        "sample_kind": inventory.sample_kind,
    }


def _classes(inventory: Inventory) -> dict[str, Any]:
    splits: dict[str, dict[str, int]] = {}
    if inventory.sample_kind is None:
        return {"splits": splits}
    for number, (split, label, samples) in enumerate(inventory.labels()):
        if number >= _LABELS:
            return {"splits": {}}
        splits.setdefault(split, {})[label] = samples
    # a split of other files alone has no classes
    splits = {split: counts for split, counts in splits.items() if any(counts.values())}
    return {"splits": splits, "classes": {split: sorted(counts) for split, counts in splits.items()}}


def _images(inventory: Inventory, source: Source, progress: Progress) -> dict[str, Any]:
    count, size = inventory.of_kind("image")
    if not count:
        return {}
    every = images.every(count, size, images.SAMPLE, images.SAMPLE_BYTES)
    chosen = -(-count // every)
    found = images.of(source, inventory.files("image", every=every), count, chosen, partial(progress, "images"))
    return {"images": found} if found else {}


def _texts(inventory: Inventory, source: Source, progress: Progress) -> dict[str, Any]:
    count, size = inventory.of_kind("text")
    if not count:
        return {}
    every = images.every(count, min(size, count * lengths.FILE_BYTES), lengths.SAMPLE, lengths.SAMPLE_BYTES)
    chosen = -(-count // every)
    return {
        "texts": lengths.of(source, inventory.files("text", every=every), count, chosen, partial(progress, "texts"))
    }


def _tables(inventory: Inventory, source: Source, progress: Progress) -> dict[str, Any]:
    with samerows.SameRows() as same:
        found = _read_tables(inventory, source, same, progress)
        if leaks := same.leaks():
            found["row_leaks"] = leaks
    return found


def _read_tables(inventory: Inventory, source: Source, same: samerows.SameRows, progress: Progress) -> dict[str, Any]:
    read = tables.Tables()
    found: dict[str, Any] = {}
    for kind in TABLES:
        count, size = inventory.of_kind(kind)
        if not count:
            continue
        every = images.every(count, min(size, count * readers.FILE_BYTES), tables.SAMPLE, tables.SAMPLE_BYTES)
        chosen = -(-count // every)
        if every > 1:
            found["tables_sampled"] = True
        tables.add(read, same, source, inventory.files(kind, every=every), chosen, partial(progress, "tables"))
    if read.groups:
        found["tables"] = [group.view() for group in read.groups]
    if labels := read.labels():
        found["labels"] = labels
    if read.unreadable_files:
        found["unread_tables"] = {"unreadable": read.unreadable_files, "unreadable_paths": list(read.unreadable)}
    return found


def _named(inventory: Inventory, source: Source) -> int | None:
    """How many classes a list in the dataset names, if there is one such list."""
    files = inventory.named(*_NAMES)
    if len(files) != 1:
        return None
    try:
        with source.open(files[0].path, files[0].bytes) as opened:
            return sum(bool(line.strip()) for line in opened.read(1_000_000).splitlines()) or None
    except (OSError, HeadwayError):
        return None
