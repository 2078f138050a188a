"""Contents that a dataset has more than once: duplicates, leaks between splits, one content with two labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, groupby
from typing import Any

from headway.client.statistics.inventory import Copy
from headway.client.statistics.layout import role

#: examples that are named, and paths of each
_EXAMPLES, _PATHS = 5, 4


@dataclass
class _Tally:
    contents: int = 0
    #: more than there are contents
    files: int = 0
    bytes: int = 0
    examples: list[list[str]] = field(default_factory=list)

    def add(self, files: int, size: int, paths: list[str]) -> None:
        self.contents += 1
        self.files += files
        self.bytes += size
        if len(self.examples) < _EXAMPLES:
            self.examples.append(paths[:_PATHS])

    def view(self) -> dict[str, Any]:
        return {"contents": self.contents, "files": self.files, "bytes": self.bytes, "examples": self.examples}


def of(copies: Iterator[Copy]) -> dict[str, Any]:
    """{"duplicates": {"contents", "files", "bytes", "examples": [[paths]]}, "leaks": [{"splits": [a, b], ...}],
    "conflicts": {...}}; what there is none of is left out.

    duplicates: "files" and "bytes" are what could be done without. leaks: contents that two splits have, where both are
    called like a split; "files" are those of the second. conflicts: contents that lie in folders of several classes.
    copies: one content after another.
    """
    duplicates, conflicts = _Tally(), _Tally()
    leaks: dict[tuple[str, str], _Tally] = {}
    for _, group in groupby(copies, key=lambda copy: copy.sha256):
        seen = _content(group)
        duplicates.add(seen.files - 1, seen.bytes * (seen.files - 1), seen.paths)
        if len(seen.labels) > 1:
            conflicts.add(seen.files, seen.bytes * seen.files, list(seen.labels.values()))
        for one, other in combinations(sorted(seen.splits, key=rank), 2):
            if role(one) and role(other) and role(one) != role(other):
                tally = leaks.setdefault((one, other), _Tally())
                count, path = seen.splits[other]
                tally.add(count, seen.bytes * count, [seen.splits[one][1], path])
    found: dict[str, Any] = {}
    if duplicates.contents:
        found["duplicates"] = duplicates.view()
    if leaks:
        found["leaks"] = [{"splits": list(splits), **tally.view()} for splits, tally in sorted(leaks.items())]
    if conflicts.contents:
        found["conflicts"] = conflicts.view()
    return found


@dataclass
class _Content:
    bytes: int = 0
    files: int = 0
    paths: list[str] = field(default_factory=list)
    #: label -> the first path with it
    labels: dict[str, str] = field(default_factory=dict)
    #: split -> files in it, the first of them
    splits: dict[str, tuple[int, str]] = field(default_factory=dict)


def _content(group: Iterator[Copy]) -> _Content:
    seen = _Content()
    for copy in group:
        seen.bytes = copy.bytes
        seen.files += 1
        if len(seen.paths) < _PATHS:
            seen.paths.append(copy.path)
        if copy.label is not None:
            seen.labels.setdefault(copy.label, copy.path)
        count, path = seen.splits.get(copy.split, (0, copy.path))
        seen.splits[copy.split] = (count + 1, path)
    return seen


def rank(split: str) -> tuple[int, str]:
    """Training comes first."""
    return {"train": 0, "val": 1, "test": 2}.get(role(split) or "", 3), split
