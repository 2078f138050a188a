"""Publishes what workers have finished, behind their backs: settled and committed in groups."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headway.helper.dealing import Cell, Deals, Failure
from headway.helper.gate import ClosedError, Gate
from headway.helper.results import Result, Settler
from headway.helper.sources import Sources
from headway.helper.voice import Voice
from headway.protocol import events
from headway.storage import staging
from headway.storage.full import TargetFullError
from headway.storage.group import Wanted, publish_cells
from headway.storage.mounts import Mounted
from headway.storage.probe import hindrance
from headway.storage.publish import Publication
from headway.storage.quota import MANIFEST, ProjectQuota
from headway.storage.verify import InvalidError

#: cells, and bytes of them, that may wait to be published before workers wait
_MOST_CELLS, _MOST_BYTES = 32, 256 << 20
#: so many are a group, and so long the first of them waits for the others
_GROUP, _LINGER = 16, 0.01
#: so often a cell's outputs may be lost where all can be written
_MOST_LOST = 5


class Publisher:
    """One thread that takes results. Shared by the threads that talk to workers."""

    def __init__(
        self,
        plan: Mapping[str, Any],
        quota: ProjectQuota,
        mounted: Mounted,
        gate: Gate,
        deals: Deals,
        sources: Sources,
        voice: Voice,
    ) -> None:
        self._rule: Mapping[str, Any] = plan["cells"]
        self._root, self._target = Path(plan["root"]), Path(self._rule["target"])
        self._quota = quota if quota.covers(self._target) else None
        self._mounted, self._gate, self._deals, self._sources, self._voice = mounted, gate, deals, sources, voice
        self._changed = threading.Condition()
        self._results: deque[Result] = deque()
        self._held_cells = self._held_bytes = 0
        self._finishing = False
        #: cell -> how often its outputs could not be read where all can be written
        self._lost: dict[int, int] = {}
        #: cells whose staged outputs have a note
        self._kept: set[int] = set()
        self._settler = Settler(self._rule, mounted)
        self._thread = threading.Thread(target=self._run, name="publishing", daemon=True)
        #: bytes of the last publication, output.json and all
        self.last_size = 0
        #: hears what became of a cell that is not valid
        self.say: Callable[[str], None] = voice.log
        #: hears of a fault of ours
        self.die: Callable[[Exception], None] = lambda error: None

    def start(self) -> None:
        self._thread.start()

    def submit(self, result: Result) -> None:
        """Takes a result over; waits while too many are waiting."""
        with self._changed:
            while self._held_cells >= _MOST_CELLS or (self._held_cells and self._held_bytes >= _MOST_BYTES):
                if self._finishing:
                    break
                self._changed.wait()
            self._results.append(result)
            self._held_cells += 1
            self._held_bytes += result.size
            self._changed.notify_all()

    def finish(self, seconds: float) -> None:
        """Publishes what was taken over, as far as the target takes it, and ends."""
        with self._changed:
            self._finishing = True
            self._changed.notify_all()
        self._thread.join(seconds)

    # -- groups

    def _run(self) -> None:
        try:
            while group := self._next_group():
                self._publish(group)
                with self._changed:
                    self._held_cells -= len(group)
                    self._held_bytes -= sum(result.size for result in group)
                    self._changed.notify_all()
        except Exception as error:
            self.die(error)

    def _next_group(self) -> list[Result]:
        with self._changed:
            while not self._results and not self._finishing:
                self._changed.wait()
            # quick cells come in rows: a group costs about as much as one of them
            self._changed.wait_for(lambda: len(self._results) >= _GROUP or self._finishing, _LINGER)
            group = list(self._results)
            self._results.clear()
            return group

    def _publish(self, group: list[Result]) -> None:
        refusals: list[tuple[Result, TargetFullError]] = []
        wanted: list[tuple[Result, Wanted]] = []
        try:
            settled = self._gate.through(lambda: self._settler.settle(group))
        except ClosedError:
            return
        for result, outcome in zip(group, settled, strict=True):
            if isinstance(outcome, Wanted):
                wanted.append((result, outcome))
            elif isinstance(outcome, TargetFullError):
                refusals.append((result, outcome))
            else:
                self._failed(result, outcome)
        wanted = self._of_right_checkpoints(wanted)
        if wanted:
            with contextlib.suppress(ClosedError):
                self._gate.through(lambda: self._commit(wanted))
            self._deals.poke()
        for result, full in refusals:
            self._again(result, full)

    def _of_right_checkpoints(self, wanted: list[tuple[Result, Wanted]]) -> list[tuple[Result, Wanted]]:
        kept = []
        faults = {index: self._sources.fault(index) for index in sorted({r.cell.checkpoint for r, _ in wanted})}
        for result, one in wanted:
            if fault := faults[result.cell.checkpoint]:
                self.say(self._deals.load_failed(result.cell, Failure("load", fault, final=True)))
                self._drop(result)
            else:
                kept.append((result, one))
        return kept

    def _commit(self, wanted: list[tuple[Result, Wanted]]) -> None:
        """Publishes them, and tells; what is done leaves the list. Raises TargetFullError when something is left."""
        self._mounted.check()
        outcomes = publish_cells([one for _, one in wanted], self._quota)
        told, full = [], None
        left: list[tuple[Result, Wanted]] = []
        for (result, one), outcome in zip(list(wanted), outcomes, strict=True):
            if isinstance(outcome, Publication):
                told.append((result, outcome))
            elif isinstance(outcome, TargetFullError) or (hindered := self._hindered(result, one, outcome)):
                full = full or (outcome if isinstance(outcome, TargetFullError) else hindered)
                left.append((result, one))
            else:
                why = outcome.reason if isinstance(outcome, InvalidError) else outcome.strerror or str(outcome)
                self._failed(result, Failure("invalid_output", why) if result.out.is_dir() else None)
        wanted[:] = left
        if told:
            self.tell([(result.cell, publication) for result, publication in told])
            for result, _ in told:
                self._drop(result)
        if full is not None:
            self._keep(wanted)
            raise full

    def _failed(self, result: Result, failure: Failure | None) -> None:
        self._drop(result)
        if failure is None:
            self.say(f"{result.cell.path}: its outputs were removed before they were published (run again)")
            self._deals.give_back(result.cell)
        else:
            self.say(self._deals.failed(result.cell, failure))

    def _again(self, result: Result, full: TargetFullError) -> None:
        """What was written did not all reach the disk: the cell is run again once there is room, and loses no try.

        Unless that comes again and again where all can be written: then it is the cell's own doing.
        """
        if self._lacks(result.size) is None:
            lost = self._lost[result.cell.id] = self._lost.get(result.cell.id, 0) + 1
            if lost > _MOST_LOST:
                self._failed(result, Failure("invalid_output", f"Its outputs cannot be read: {full.message}"))
                return
        self._drop(result)
        self._voice.log(f"{result.cell.path}: its outputs did not reach the disk ({full.message}); it is dealt again")
        with contextlib.suppress(ClosedError):
            self._gate.through(lambda: self._probe(result.size))
        self._deals.give_back(result.cell)

    def _hindered(self, result: Result, one: Wanted, failed: InvalidError | OSError) -> TargetFullError | None:
        """What kept the cell from being published that is no fault of a cell, such as a name in the way."""
        if isinstance(failed, OSError):
            return self._mounted.away() or hindrance(one.target.parent)
        return None if result.out.is_dir() else self._mounted.away()

    def _lacks(self, size: int) -> TargetFullError | None:
        return self._mounted.away() or hindrance(self._target, bytes=size, files=2, quota=self._quota)

    def _probe(self, size: int) -> None:
        if full := self._lacks(size):
            raise full

    def _keep(self, wanted: list[tuple[Result, Wanted]]) -> None:
        """Whatever becomes of us while the target is full: what is finished is not run again."""
        for result, _ in wanted:
            if result.cell.id not in self._kept:
                self._kept.add(result.cell.id)
                content = {"cell": result.cell.id, "key": result.cell.key, "seconds": result.seconds}
                staging.note(result.out, {**content, "scores": result.scores})

    def _drop(self, result: Result) -> None:
        """What is left of its staged outputs: they were published, copied, or are worth nothing."""
        if result.cell.id in self._kept:
            self._kept.discard(result.cell.id)
            staging.forget(result.out)
        if os.path.lexists(result.out):
            shutil.rmtree(result.out, ignore_errors=True)

    # -- events

    def tell(self, published: list[tuple[Cell, Publication]]) -> None:
        """Says that these cells are published."""
        left = self._deals.left_without([cell for cell, _ in published])
        self._voice.event(events.CELLS, cells=[self._told(cell, one) for cell, one in published], left=left)
        self._deals.valid([cell for cell, _ in published])

    def _told(self, cell: Cell, one: Publication) -> dict[str, Any]:
        target, manifest = self._target / cell.path, one.manifest
        size = sum(f.bytes for f in one.files)
        with contextlib.suppress(OSError):
            size += os.stat(target / MANIFEST).st_size
        self.last_size = size
        inside = target.is_relative_to(self._root)
        return {
            "cell": cell.id,
            "publication": one.id,
            "score": manifest.get("score"),
            "scores": manifest.get("scores") or {},
            "outputs": one.outputs(),
            "path": str(target.relative_to(self._root) if inside else target),
            "seconds": manifest.get("seconds"),
            "bytes": size,
            "files": len(one.files) + 1,
            "found": one.found,
        }
