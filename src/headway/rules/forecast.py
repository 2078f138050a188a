"""What the rest of an evaluation will take on disk, from its first cells, and whether that is there. Pauses nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headway.rules.units import render_size

#: cells that tell enough for a first forecast; where there are fewer in all, half of them
FIRST_CELLS = 5


@dataclass(frozen=True)
class Room:
    """What one limit still allows. None: it does not count that."""

    #: "/data", "the quota of project default", "the user quota of alice at /data"
    what: str
    bytes: int | None
    files: int | None
    #: the size of a block where files take whole blocks, and folders are counted too; 0 where only contents count
    block: int = 0


def due(known: dict[str, Any], seen: int, left: int) -> bool:
    """Whether a new forecast says more than the `known` one: at first, at each doubling, and while it does not fit."""
    if seen < min(FIRST_CELLS, (seen + left + 1) // 2) or not seen:
        return False
    return not known or seen >= 2 * int(known["cells"]) or not known["fits"] or not left


def forecast(seen: int, size: int, files: int, left: int, rooms: Sequence[Room]) -> dict[str, Any]:
    """`Evaluation.forecast`. seen: valid cells that take `size` bytes in `files` files; left: cells still to come.

    needed_bytes and needed_files: what these will take. `sentence` names the limit that is reached first, after how
    many more cells, and how much is missing.
    """
    need_bytes, need_files = _share(size, seen, left), _share(files, seen, left)
    found: dict[str, Any] = {
        "cells": seen,
        "bytes": size,
        "files": files,
        "needed_bytes": need_bytes,
        "needed_files": need_files,
        "fits": True,
    }
    cells = "1 more cell takes" if left == 1 else f"{left} more cells take"
    words = f"{cells} about {render_size(need_bytes)} in {need_files} files"
    short = [lack for room in rooms for lack in _lacks(room, seen, size, files, left)]
    if not short:
        return {**found, "sentence": f"{words}." if left else ""}
    lack = min(short, key=lambda one: one.cells)
    after = "no more cell fits" if not lack.cells else f"that is reached after about {lack.cells}"
    return {**found, "fits": False, "sentence": f"{words}; {lack.text}: {after}. {lack.remedy}"}


@dataclass(frozen=True)
class _Lack:
    #: that still fit
    cells: int
    text: str
    remedy: str


def _lacks(room: Room, seen: int, size: int, files: int, left: int) -> list[_Lack]:
    found = []
    whole = size + (files * room.block // 2 + seen * room.block if room.block else 0)
    inodes = files + (seen if room.block else 0)
    if room.bytes is not None and (need := _share(whole, seen, left)) > room.bytes:
        remedy = f"Free {render_size(need - room.bytes)} or raise that limit."
        text = f"{room.what} has {render_size(max(0, room.bytes))} left"
        found.append(_Lack(_fit(room.bytes, whole, seen), text, remedy))
    if room.files is not None and (need := _share(inodes, seen, left)) > room.files:
        what = "inodes" if room.block else "files"
        remedy = f"Free {need - room.files} {what} or raise that limit."
        found.append(_Lack(_fit(room.files, inodes, seen), f"{room.what} has {max(0, room.files)} {what} left", remedy))
    return found


def _share(amount: int, seen: int, left: int) -> int:
    """What `left` cells take when `seen` ones take `amount`, rounded up."""
    return -(-amount * left // seen)


def _fit(room: int, amount: int, seen: int) -> int:
    return max(0, room) * seen // max(1, amount)
