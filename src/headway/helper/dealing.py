"""Which cell a worker runs next, what its failures cost it, and when a worker is not worth going on with."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.helper.voice import Voice
from headway.protocol import events

#: a cell that runs for longer is told as running
_TOLD_AFTER, _LOOK = 0.5, 0.25


@dataclass(frozen=True)
class Cell:
    """One entry of a deal. checkpoint, case: places in the plan's lists; path: below the target."""

    id: int
    checkpoint: int
    case: int
    path: str
    key: str


@dataclass(frozen=True)
class Failure:
    """Why a cell gave nothing valid."""

    cause: str
    reason: str
    #: it would fail again
    final: bool = False


class Deals:
    """Cells in the order of their checkpoints: waiting, dealt, handed over to be published, done.

    Shared by threads. Nothing here costs more with more cells.
    """

    def __init__(self, rule: Mapping[str, Any], voice: Voice) -> None:
        self._voice = voice
        self._tries_allowed = int(rule.get("tries", 2))
        self._same_allowed = int(rule.get("same_failures", 8))
        self.by_id = {entry[0]: Cell(*entry) for entry in rule["deal"]}
        self._changed = threading.Condition()
        #: checkpoint -> its cells that wait
        self._waiting: OrderedDict[int, deque[int]] = OrderedDict()
        for cell in self.by_id.values():
            self._waiting.setdefault(cell.checkpoint, deque()).append(cell.id)
        #: neither valid nor given up
        self._open = set(self.by_id)
        self._left = len(self.by_id)
        #: dealt cell -> when
        self._since: dict[int, float] = {}
        self._told: set[int] = set()
        self._tries: dict[int, int] = {}
        self._load_tries: dict[int, int] = {}
        self._tried: set[int] = set()
        #: the last failures, when they are alike: what they say, and whose they are
        self._streak: tuple[str, dict[Any, tuple[Cell, Failure]]] = ("", {})
        #: why no more cells are dealt
        self.sentence = ""
        self._closed = False

    # -- dealing

    def next(self, near: int | None = None, free: Callable[[], bool] = lambda: True) -> Cell | None:
        """The next cell, if there is one of checkpoint `near`; waits while others may yet come back. None: no more.

        free: whether cells may be dealt now; `poke` makes it be asked again.
        """
        with self._changed:
            while self._open and not self.sentence and not self._closed:
                if free() and (cell := self._take(near)) is not None:
                    return cell
                self._changed.wait()
            return None

    def _take(self, near: int | None) -> Cell | None:
        while self._waiting:
            checkpoint = near if near in self._waiting else next(iter(self._waiting))
            assert checkpoint is not None
            queue = self._waiting[checkpoint]
            cell = self.by_id[queue.popleft()] if queue else None
            if not queue:
                del self._waiting[checkpoint]
            if cell is not None and cell.id in self._open:
                self._since[cell.id] = time.monotonic()
                return cell
        return None

    def poke(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Nothing more is dealt; whoever waits is told so."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def accept(self, cell: Cell) -> bool:
        """A result of the cell has come: whether it is wanted. From a worker whose helper was started anew, too."""
        with self._changed:
            if cell.id not in self._open:
                return False
            if cell.id in self._since:
                del self._since[cell.id]
                return True
            waiting = self._waiting.get(cell.checkpoint)
            if waiting is None or cell.id not in waiting:
                return False  # it is being published already
            waiting.remove(cell.id)
            if not waiting:
                del self._waiting[cell.checkpoint]
            return True

    def give_back(self, cell: Cell, *, behind: bool = False) -> None:
        """Deals it again: next, or behind the others of its checkpoint."""
        with self._changed:
            self._give_back(cell, behind)

    def leave(self, cell: Cell) -> None:
        """Its worker has gone: deals it again unless it is somebody's by now."""
        with self._changed:
            if cell.id in self._since:
                self._give_back(cell, behind=False)

    def _give_back(self, cell: Cell, behind: bool) -> None:
        self._since.pop(cell.id, None)
        self._told.discard(cell.id)
        if cell.id not in self._open:
            return
        fresh = cell.checkpoint not in self._waiting
        queue = self._waiting.setdefault(cell.checkpoint, deque())
        queue.append(cell.id) if behind else queue.appendleft(cell.id)
        if fresh:
            self._waiting.move_to_end(cell.checkpoint, last=False)
        self._changed.notify_all()

    # -- what became of them

    def valid(self, cells: Sequence[Cell]) -> None:
        with self._changed:
            self._streak = ("", {})
            for cell in cells:
                self._done(cell)
            self._changed.notify_all()

    def left_without(self, cells: Sequence[Cell]) -> int:
        """How many cells are neither valid nor given up, but for these."""
        with self._changed:
            return len(self._open) - sum(cell.id in self._open for cell in cells)

    def _done(self, cell: Cell) -> None:
        self._open.discard(cell.id)
        self._since.pop(cell.id, None)

    def failed(self, cell: Cell, failure: Failure) -> str:
        """Deals it once more behind the others of its checkpoint, until its tries are used up. What is to be said."""
        with self._changed:
            if cell.id not in self._open:
                return ""
            self._tried.add(cell.id)
            tries = self._tries[cell.id] = self._tries.get(cell.id, 0) + 1
            again = tries < self._tries_allowed and not failure.final
            if again:
                self._give_back(cell, behind=True)
            else:
                self._give_up(cell, failure)
            self._count(cell.id, cell, failure)
            self._changed.notify_all()
        return f"{cell.path}: {failure.reason}{' (tried again)' if again else ''}"

    def load_failed(self, cell: Cell, failure: Failure) -> str:
        """The checkpoint of the cell cannot be loaded: that costs all its cells, after so many tries, and no others."""
        with self._changed:
            if cell.id not in self._open:
                return ""
            tries = self._load_tries[cell.checkpoint] = self._load_tries.get(cell.checkpoint, 0) + 1
            again = tries < self._tries_allowed and not failure.final
            self._give_back(cell, behind=False)
            if not again:
                for number in self._waiting.pop(cell.checkpoint):
                    self._tried.add(number)
                    self._give_up(self.by_id[number], failure)
            self._count(("load", cell.checkpoint), cell, failure)
            self._changed.notify_all()
        return f"{cell.path}: {failure.reason}{' (tried again)' if again else ''}"

    def _give_up(self, cell: Cell, failure: Failure) -> None:
        self._done(cell)
        self._voice.event(
            events.CELL_INVALID,
            cell=cell.id,
            reason=failure.reason,
            cause=failure.cause,
            tries=max(1, self._tries.get(cell.id, 1)),
        )

    def _count(self, whose: Any, cell: Cell, failure: Failure) -> None:
        """Breaks off when so many in a row fail alike: what fails them all is none of the cells."""
        from headway.rules.alike import alike

        said = f"{failure.cause}: {alike(failure.reason)}"
        if self._streak[0] != said:
            self._streak = (said, {})
        found = self._streak[1]
        found[whose] = (cell, failure)
        if len(found) < self._same_allowed or self.sentence:
            return
        for one, why in list(found.values()):
            if one.id in self._open:
                self._tried.add(one.id)
                self._give_up(one, why)
        untried = len(self._open - self._tried)
        said = failure.reason.rstrip(".")
        self.sentence = f"{len(found)} cells in a row failed alike: {said}; {untried} were not tried."
        self._voice.log(self.sentence)

    # -- who runs long

    def watch(self) -> None:
        """Tells of cells that run for longer than half a second; never returns."""
        while True:
            time.sleep(_LOOK)
            before = time.monotonic() - _TOLD_AFTER
            with self._changed:
                long = [i for i, at in self._since.items() if at < before and i not in self._told]
                self._told.update(long)
            if long:
                self._voice.event(events.CELLS_STARTED, cells=long)
