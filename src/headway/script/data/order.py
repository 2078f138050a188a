"""In what order an epoch's items come, and to whom. Pure; an item is a number from 0 on, in the order of the packs."""

from __future__ import annotations

import random

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def epoch_order(chunks: Sequence[range], seed: int, epoch: int, shuffle: bool) -> list[range]:
    """The chunks (items of one pack each) in the order in which an epoch reads them."""
    ordered = list(chunks)
    if shuffle:
        # a text: numbers that are added would give epochs of neighbouring seeds the same order
        random.Random(f"{seed}/{epoch}").shuffle(ordered)
    return ordered


def share(chunks: Sequence[range], count: int, rank: int, world: int, even: str = "") -> list[int]:
    """The items of one rank, in reading order: a piece of the whole, so that a rank reads few packs.

    Over all ranks each of the `count` items comes once, and the ranks' numbers differ by one at most. even: "pad" gives
    every rank as many as the largest, some items twice; "drop" as many as the smallest, some items not at all.
    """
    first, last = rank * count // world, (rank + 1) * count // world
    if even == "drop":
        last = first + count // world
    found = _piece(chunks, first, last)
    if even == "pad" and count and len(found) < -(-count // world):
        found.append(found[0] if found else chunks[0][0])
    return found


def _piece(chunks: Iterable[range], first: int, last: int) -> list[int]:
    found: list[int] = []
    at = 0
    for chunk in chunks:
        if at >= last:
            break
        found.extend(chunk[max(0, first - at) : max(0, last - at)])
        at += len(chunk)
    return found


def shuffled(items: Sequence[int], window: int, seed: int, epoch: int, rank: int) -> list[int]:
    """Each drawn among `window` that were read: as good as a shuffle when a window spans several chunks."""
    draw = random.Random(f"{seed}/{epoch}/{rank}").random
    held: list[int] = []
    found: list[int] = []
    for item in items:
        if len(held) < window:
            held.append(item)
            continue
        place = int(draw() * len(held))
        found.append(held[place])
        held[place] = item
    while held:
        place = int(draw() * len(held))
        held[place], held[-1] = held[-1], held[place]
        found.append(held.pop())
    return found


def split(places: Sequence[int], workers: int, worker: int) -> Sequence[int]:
    """What one worker yields of a rank's sequence: a piece of it."""
    return places[worker * len(places) // workers : (worker + 1) * len(places) // workers]


def remaining(places: Sequence[int], history: Iterable[Sequence[int]]) -> Sequence[int]:
    """What is left of a rank's sequence after passes that were cut short.

    history: of each such pass, how many items each of its workers had yielded. Raises ValueError when they cannot have.
    """
    for consumed in history:
        left: list[int] = []
        for worker, count in enumerate(consumed):
            piece = split(places, len(consumed), worker)
            if not 0 <= count <= len(piece):
                raise ValueError(f"{count} of {len(piece)} items")
            left.extend(piece[count:])
        places = left
    return places
