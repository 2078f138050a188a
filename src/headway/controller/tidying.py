"""What ended evaluations leave: folders of workers that were killed, halves of publications, cells that say they run.

Each is seen to once its last worker has ended, in a thread of its own, for a folder may hang. What a controller that
died left to do is seen by the next one, for evaluations that ended within a day.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from headway.controller import targets
from headway.controller.cell_events import OWNER
from headway.controller.indexing import OWED_SECONDS, ended_since
from headway.controller.loop import Desk
from headway.rules.states import ENDED_RUNS, CellState, EvaluationState
from headway.storage import staging, writing

#: newest workers of an evaluation whose folders are looked for
WORKERS = 1000


class Tidying:
    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._looks = targets.Looks(patience=0.0)
        self._active: set[int] = set()
        self._owed: set[int] | None = None

    def step(self, active: set[int]) -> None:
        """active: the evaluations that have not ended."""
        if self._owed is None:
            with self.desk.services.store.read() as tx:
                self._owed = {e.id for e in ended_since(tx, self.desk.now() - OWED_SECONDS)}
        self._owed |= self._active - active
        self._owed -= active
        self._active = active
        for number in sorted(self._owed):
            with self.desk.isolated(f"tidying of evaluation {number}"):
                if self._tidy(number):
                    self._owed.discard(number)

    def _tidy(self, number: int) -> bool:
        """Whether nothing is left to do."""
        with self.desk.services.store.read() as tx:
            self.desk.assure(tx)
            evaluation = tx.evaluations.get(number)
            workers = tx.runs.listing(owner=OWNER, owner_id=number, limit=WORKERS)
            if evaluation is None or any(run.state not in ENDED_RUNS for run in workers):
                return evaluation is None
            # of these alone: when a slow folder is looked at, a retry's may be there too
            attempts = {attempt.id for run in workers for attempt in tx.runs.attempts(run.id)}
            running = {cell.id for run in workers for cell in tx.evaluations.dealt(run.id, [CellState.RUNNING])}
        if running:
            self._set_free(number, running)
        done = evaluation.state is EvaluationState.SUCCEEDED
        now, root = targets.outputs(self.desk.services, evaluation), self.desk.services.root
        earlier = {root / folder for folder in evaluation.plan.get("left_folders", [])} - {now}

        def tidy() -> bool:
            tidied(now, root, attempts, finished_too=done)
            for folder in earlier:
                tidied(folder, root, attempts, finished_too=True)
            return True

        return bool(self._looks.at(("tidy", number), tidy))

    def _set_free(self, number: int, cells: Collection[int]) -> None:
        """Nobody is at these any more."""
        with self.desk.apply() as tx:
            evaluation = tx.evaluations.get(number)
            # one that was retried meanwhile deals them itself
            if evaluation is not None and evaluation.ended_at is not None:
                tx.evaluations.change_cells(cells, state=CellState.WAITING)


def tidied(folder: Path, root: Path, attempts: Collection[str], *, finished_too: bool) -> None:
    """Removes there what the attempts left and no other will come back for."""
    staging.clear(folder, root, attempts, finished_too=finished_too)
    writing.sweep_temporaries(folder)
