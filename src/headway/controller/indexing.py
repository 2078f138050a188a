"""When the index beside an evaluation's outputs is written: at pauses and ends, and once a minute in between.

`index.jsonl` is there before an end is in the record. Its table follows, made by a process of its own; what a
controller that died left to do is seen by the next one, for evaluations that ended within a day.
"""

from __future__ import annotations

import logging
import subprocess
import time
from pathlib import Path

from headway.controller import targets
from headway.controller.cell_events import OWNER
from headway.controller.loop import Desk
from headway.rules.records import Evaluation
from headway.rules.states import OPEN_RUNS, EvaluationState
from headway.storage import indexes
from headway.storage.full import TargetFullError
from headway.store.base import Transaction

#: between two indexes of an evaluation that runs; and between two tries at a table
EVERY_SECONDS = 60.0
#: evaluations that ended before are not looked at by a controller that begins; and of how many of each project it is
OWED_SECONDS, OWED = 86400.0, 50
_log = logging.getLogger(__name__)


class Indexing:
    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        #: evaluation -> its state when it was last indexed, cells by state then, and monotonic time of that
        self._last: dict[int, tuple[EvaluationState, object, float]] = {}
        #: evaluations that ended while workers lived, and are indexed when these have ended
        self._late: set[int] = set()
        self._active: set[int] = set()
        #: folders whose tables are to be made: monotonic time from when
        self._owed: dict[Path, float] = {}
        self._making: dict[Path, subprocess.Popen[bytes]] = {}
        self._began = False

    def write(self, evaluation: Evaluation) -> None:
        """Publishes the index as the record is now. Raises LeaseLostError, TargetFullError, OSError."""
        folder = targets.index_folder(self.desk.services, evaluation)
        targets.require_own(self.desk.services, evaluation)
        with self.desk.services.store.read() as tx:
            self.desk.assure(tx)
            counts = tx.evaluations.counts(evaluation.id)
            rows = tx.evaluations.index(evaluation.id)
        indexes.publish(folder, rows)
        self._last[evaluation.id] = evaluation.state, counts, time.monotonic()
        self._owed[folder] = time.monotonic()

    def keep(self, evaluation: Evaluation, counts: object) -> None:
        """Writes it where that is due while the evaluation goes on; where it cannot be written it is due again."""
        state, known, at = self._last.get(evaluation.id, (None, None, time.monotonic()))
        if state is None:
            # a minute from now; what was written before a controller's time is good enough until then
            self._last[evaluation.id] = evaluation.state, counts, at
            return
        pauses = evaluation.state is EvaluationState.PAUSED and state is not EvaluationState.PAUSED
        if not pauses and (known == counts or time.monotonic() - at < EVERY_SECONDS):
            if evaluation.state is not state:
                self._last[evaluation.id] = evaluation.state, known, at
            return
        try:
            self.write(evaluation)
        except (TargetFullError, OSError) as error:
            self._last[evaluation.id] = evaluation.state, known, time.monotonic()
            if self.desk.quiet.due(f"index of evaluation {evaluation.id}: {error!r}"):
                _log.warning("the index of evaluation %d waits: %s", evaluation.id, error)

    def step(self, active: set[int]) -> None:
        """What is left to do for evaluations that have ended, and the tables."""
        if not self._began:
            self._find_owed()
            self._began = True
        # one that ended here was indexed before; one that was stopped is indexed when its workers publish no more
        self._late |= self._active - active
        self._late -= active
        self._active = active
        self._last = {i: last for i, last in self._last.items() if i in active or i in self._late}
        for number in sorted(self._late):
            with self.desk.isolated(f"index of evaluation {number}"):
                self._last_index(number)
        self._tables()

    def _last_index(self, number: int) -> None:
        with self.desk.services.store.read() as tx:
            evaluation = tx.evaluations.get(number)
            living = tx.runs.listing(owner=OWNER, owner_id=number, states=OPEN_RUNS, limit=1)
            counts = tx.evaluations.counts(number)
        if living:
            return
        self._late.discard(number)
        if evaluation is None or self._last.get(number, (None, None))[1] == counts:
            return
        try:
            self.write(evaluation)
        except TargetFullError as full:
            _log.warning("the index of evaluation %d, which has ended, was not written: %s", number, full.message)

    # -- tables

    def _find_owed(self) -> None:
        since, now = self.desk.now() - OWED_SECONDS, time.monotonic()
        with self.desk.services.store.read() as tx:
            ended = ended_since(tx, since)
        for evaluation in ended:
            folder = targets.index_folder(self.desk.services, evaluation)
            if evaluation.state is EvaluationState.STOPPED and indexes.made(folder) < (evaluation.ended_at or 0.0):
                self._late.add(evaluation.id)
            elif indexes.stale(folder):
                self._owed[folder] = now

    def _tables(self) -> None:
        for folder, process in list(self._making.items()):
            if process.poll() is not None:
                del self._making[folder]
                self._made(folder, process)
        now = time.monotonic()
        for folder, at in list(self._owed.items()):
            # one after the other: they are nobody's hurry
            if at <= now and not self._making:
                del self._owed[folder]
                self.desk.assure()
                self._making[folder] = indexes.start_table(folder)

    def _made(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        with process.stderr:
            said = process.stderr.read().decode(errors="replace").strip()
        if process.returncode == indexes.FULL:
            self._owed.setdefault(folder, time.monotonic() + EVERY_SECONDS)
        if process.returncode and self.desk.quiet.due(f"table of {folder}: {said}"):
            _log.warning("the table of the index in %s was not made: %s", folder, said[-500:])


def ended_since(tx: Transaction, since: float) -> list[Evaluation]:
    """Evaluations that ended after `since` (seconds since 1970); of each project's newest `OWED` ones."""
    found = [e for project in tx.people.projects() for e in tx.evaluations.listing(project.id, limit=OWED)]
    return [e for e in found if e.ended_at is not None and e.ended_at > since]
