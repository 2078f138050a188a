"""What the folders of a dataset say: which split a file is of, and which class. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

#: what a split is called -> what it is for
_ROLES = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation"), "test"),
}
#: names at one depth that are told apart; more of them are no splits
_NAMES = 1000
#: the split of files that are in none
ALL = "all"


def role(name: str) -> str | None:
    """ "train", "val" or "test" for the name of a split, such as Training or mnist_test; None for another name."""
    for word in re.split(r"[^a-z]+", name.casefold()):
        if word in _ROLES:
            return _ROLES[word]
    return None


def split_of_name(name: str) -> str | None:
    """The split that a file's own name tells: train.csv, test-00000-of-00002.parquet."""
    stem = name.split(".", 1)[0]
    found = role(stem)
    return next(w for w in re.split(r"[^A-Za-z]+", stem) if role(w) == found) if found else None


@dataclass(frozen=True)
class Place:
    """Both None where the folders say nothing of it."""

    split: str | None
    label: str | None


@dataclass(frozen=True)
class Layout:
    #: depth (from 0) at which folders are splits; None: no folder is called like a split
    split_depth: int | None
    #: folders around everything, which say nothing
    around: int

    def place(self, folders: Sequence[str]) -> Place:
        """Of a file below these folders. A class is the folder below the split, as torchvision's ImageFolder has it."""
        if self.split_depth is not None:
            inside = folders[self.split_depth :]
            return Place(inside[0] if inside else None, inside[1] if len(inside) > 1 else None)
        inside = folders[self.around :]
        if len(inside) > 1:
            return Place(inside[0], inside[1])
        return Place(None, inside[0] if inside else None)


def layout(folders: Iterable[Sequence[str]]) -> Layout:
    """How a dataset is laid out whose files lie in these folders.

    Splits are at the first depth where at least half of the names are those of splits: a class called `train` among
    others is a class.
    """
    names: list[set[str]] = []
    shallowest: int | None = None
    for parts in folders:
        shallowest = len(parts) if shallowest is None else min(shallowest, len(parts))
        for depth, part in enumerate(parts):
            if depth == len(names):
                names.append(set())
            if len(names[depth]) < _NAMES:
                names[depth].add(part)
    split_depth = next(
        (d for d, found in enumerate(names) if 2 * sum(role(n) is not None for n in found) >= len(found)), None
    )
    around = 0
    while around < (shallowest or 0) - 1 and len(names[around]) == 1:
        around += 1
    return Layout(split_depth, around)
