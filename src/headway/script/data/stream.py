"""The datasets that `headway.data` gives: in sequence, or by number."""

from __future__ import annotations

import os
import posixpath
from array import array

from headway.errors import UsageError
from headway.protocol import names
from headway.script.data import order
from headway.script.data.index import Index, group
from headway.script.data.reading import Reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any


class Sample:
    """A file: `path` in the dataset, its content `data`, and `label`, the name of the folder that it lies in."""

    __slots__ = ("data", "path")

    def __init__(self, path: str, data: bytes) -> None:
        self.path, self.data = path, data

    @property
    def label(self) -> str:
        return posixpath.basename(posixpath.dirname(self.path))

    def __repr__(self) -> str:
        return f"Sample({self.path!r}, {len(self.data)} bytes)"


class Made:
    """What both kinds share: an index, and how its items are made into what the script gets."""

    def __init__(self, index: Index, *, transform: Callable[[Any], Any] | None, verify: bool | None) -> None:
        self.index = index
        self._transform, self._verify = transform, verify

    def _item(self, item: int, contents: Iterator[bytes]) -> Any:
        """contents: of which it takes its own."""
        path_of = self.index.columns.path
        made: Any
        if self.index.by_group:
            rows = self.index.rows(item)
            key = group(path_of(rows[0]))
            made = {"__key__": key, **{path_of(row)[len(key) :]: next(contents) for row in rows}}
        else:
            made = Sample(path_of(self.index.firsts[item]), next(contents))
        return made if self._transform is None else self._transform(made)

    def _rows(self, items: Sequence[int]) -> Sequence[int]:
        """The files of the items, one after another."""
        if self.index.by_group:
            return array("Q", [row for item in items for row in self.index.rows(item)])
        firsts = self.index.firsts
        return array("Q", [firsts[item] for item in items])


class Mapped(Made):
    """By number, for a sampler: `len(data)`, `data[7]`. Each costs a read of its own, over the network a request."""

    _reader: tuple[int, Reader] | None = None

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, number: int) -> Any:
        """Raises IndexError, FailedError."""
        if not -len(self) <= number < len(self):
            raise IndexError(number)
        if self._reader is None or self._reader[0] != os.getpid():
            # a forked worker has descriptors of its own, and no thread of its parent's
            self._reader = os.getpid(), Reader(self.index, self._verify)
        item = number % len(self)
        return self._item(item, self._reader[1].contents(self.index.rows(item)))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reader": None}


class Stream(Made):
    """In sequence: `for sample in data`. Each pass to its end goes on to the next epoch, which shuffles anew.

    `state_dict()` says how far the script is; `load_state_dict()` makes the next pass go on from there. In the workers
    of a DataLoader the object that the script holds does not see what they yield: use `loader`, whose state does.
    """

    def __init__(
        self,
        index: Index,
        *,
        shuffle: bool,
        seed: int,
        window: int,
        rank: int | None,
        world: int | None,
        even: str,
        **made: Any,
    ) -> None:
        super().__init__(index, **made)
        self.rank = _number(names.RANK, 0) if rank is None else rank
        self.world = _number(names.WORLD_SIZE, 1) if world is None else world
        if not 0 <= self.rank < self.world:
            raise UsageError(f"rank {self.rank} of {self.world} is none.", "Count ranks from 0.")
        if even not in ("", "pad", "drop"):
            raise UsageError(f"even={even!r} is nothing.", 'Write "pad" or "drop".')
        self._shuffle, self._seed, self._window, self._even = shuffle, seed, max(1, window), even
        self._epoch = 0
        #: of each earlier pass of this epoch: what each of its workers yielded
        self._history: list[list[int]] = []
        self._yielded = 0

    @property
    def epoch(self) -> int:
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """The next pass is this epoch's, from its beginning; when it is this one already, nothing happens."""
        if epoch != self._epoch:
            self.start(epoch)

    def start(self, epoch: int) -> None:
        """The next pass is this epoch's, from its beginning."""
        self._epoch, self._history, self._yielded = epoch, [], 0

    def __len__(self) -> int:
        """Items of this rank that the next pass yields."""
        if not self._history:
            return len(self._share())
        return len(self._left())

    def state_dict(self) -> dict[str, Any]:
        """How far the script is: plain numbers, to be saved beside a checkpoint."""
        return self.state_after([self._yielded] if self._yielded else [])

    def state_after(self, consumed: Sequence[int]) -> dict[str, Any]:
        """The state when, of this pass, each worker's items were taken so far."""
        history = [*self._history, list(consumed)] if any(consumed) else list(self._history)
        return {"epoch": self._epoch, "history": history, "of": self._identity()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next pass goes on from there, with any number of workers.

        Raises UsageError for a state of other files, another order or another number of ranks.
        """
        ours = self._identity()
        other = [key for key, value in ours.items() if state["of"].get(key) != value]
        if other:
            raise UsageError(
                "The state is of another order: "
                + ", ".join(f"{key} was {state['of'].get(key)!r} and is {ours[key]!r}" for key in other)
                + ".",
                "Start the epoch again: data.set_epoch(N).",
            )
        before = self._epoch, self._history, self._yielded
        self._epoch, self._history, self._yielded = int(state["epoch"]), [list(c) for c in state["history"]], 0
        try:
            self._left()
        except ValueError as error:
            self._epoch, self._history, self._yielded = before
            raise UsageError(f"The state cannot be of this epoch: {error}.") from None

    def _identity(self) -> dict[str, Any]:
        shuffle = [self._seed, self._window] if self._shuffle else None
        return {
            "items": len(self.index),
            "rank": self.rank,
            "world": self.world,
            "shuffle": shuffle,
            "even": self._even,
        }

    def __iter__(self) -> Iterator[Any]:
        worker, workers = self._worker()
        self._yielded = 0
        for item in self._items(order.split(self._left(), workers, worker)):
            # before: whoever asks for the state while it works on an item has taken it
            self._yielded += 1
            yield item
        if workers == 1:
            self.start(self._epoch + 1)

    def _worker(self) -> tuple[int, int]:
        """Which worker of how many of a loader this process is."""
        return 0, 1

    def _share(self) -> list[int]:
        chunks = order.epoch_order(self.index.chunks(), self._seed, self._epoch, self._shuffle)
        return order.share(chunks, len(self.index), self.rank, self.world, self._even)

    def _left(self) -> Sequence[int]:
        """The items of this rank that are still to come, in the order in which the script gets them: see `_items`."""
        read = self._share()
        self._read = read
        places = list(range(len(read)))
        if self._shuffle:
            places = order.shuffled(places, self._window, self._seed, self._epoch, self.rank)
        return order.remaining(places, self._history)

    def _items(self, places: Sequence[int]) -> Iterator[Any]:
        """places: numbers in the reading order. Read in that order, and held until it is their turn."""
        reader = Reader(self.index, self._verify)
        items = [self._read[place] for place in (sorted(places) if self._shuffle else places)]
        contents = reader.contents(self._rows(items))
        try:
            if self._shuffle:
                yield from self._in_turn(places, contents)
            else:
                for item in items:
                    yield self._item(item, contents)
        finally:
            contents.close()
            reader.close()

    def _in_turn(self, places: Sequence[int], contents: Iterator[bytes]) -> Iterator[Any]:
        held: dict[int, list[bytes]] = {}
        reading = iter(sorted(places))
        for place in places:
            while place not in held:
                number = next(reading)
                held[number] = [next(contents) for _ in self.index.rows(self._read[number])]
            yield self._item(self._read[place], iter(held.pop(place)))


def _number(variable: str, otherwise: int) -> int:
    try:
        return int(os.environ.get(variable, otherwise))
    except ValueError:
        return otherwise
