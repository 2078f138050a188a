"""From the rows of a manifest to the units that hold their contents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headway.rules.datasets import path_fault
from headway.storage import layout
from headway.storage.cache.units import Content, Unit
from headway.storage.manifests import Placed
from headway.storage.verify import InvalidError


def units(project: str, rows: Iterable[Placed]) -> list[Unit]:
    """Each pack and each large file that the rows need, with the contents that they need of it, once each."""
    packs: dict[str, dict[str, Content]] = {}
    large: dict[str, Unit] = {}
    for row in rows:
        if row.pack is not None:
            content = Content(row.sha256, row.bytes, row.offset or 0, row.path)
            packs.setdefault(row.pack, {}).setdefault(row.sha256, content)
        elif row.sha256 not in large:
            objects = tuple((layout.part_key(project, sha256), size) for sha256, size in row.parts)
            large[row.sha256] = Unit(row.sha256, objects, (Content(row.sha256, row.bytes, 0, row.path),))
    found = [
        Unit(name, ((layout.pack_key(project, name), None),), tuple(sorted(wanted.values(), key=lambda c: c.offset)))
        for name, wanted in packs.items()
    ]
    return found + list(large.values())


def holders(rows: Iterable[Placed]) -> Iterator[tuple[str, str, str]]:
    """(path, unit, SHA-256) of each row. Raises InvalidError for a path that may lead out of a folder."""
    for row in rows:
        if fault := path_fault(row.path):
            raise InvalidError(f"{row.path!r} {fault}.")
        yield row.path, row.pack or row.sha256, row.sha256


def whole(key: str, sha256: str, size: int, label: str) -> Unit:
    """A pack or part as it is, for those who read it by themselves."""
    return Unit(sha256, ((key, size),), (Content(sha256, size, 0, label),))
