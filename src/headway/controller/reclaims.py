"""Tells runners that their place is asked back, or that their `max_wait` is over.

Eligible: attempts that live and have `reclaim_at`, which the scheduler, the market and `headway node reclaim` set; live
attempts of runs that have waited and run for longer than their `max_wait`. Asking twice changes nothing, so that each
new controller asks once more.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from headway.controller.loop import Desk, Loop
from headway.controller.schedule import waited_too_long
from headway.protocol.exits import Cause
from headway.rules.records import Attempt, Run
from headway.rules.scheduling.rooms import grace_of
from headway.rules.states import AttemptState


class Reclaims(Loop):
    name = "reclaims"
    topics = frozenset({"reclaim"})
    interval = 1.0

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        #: attempts that were told
        self._told: set[str] = set()
        #: monotonic time of the next look for runs that have taken too long
        self._late_at = 0.0

    def step(self) -> set[str]:
        with self.desk.services.store.read() as tx:
            live = tx.runs.live_attempts()
            self._told &= {a.id for a in live}
            asked = [a for a in live if a.reclaim_at is not None and self._tellable(a)]
            runs = {run.id: run for run in tx.runs.many([a.run_id for a in asked])} if asked else {}
            late = {run.id: run for run in tx.runs.overdue(self.desk.now(), live=True)} if self._due() else {}
            if asked or late:
                self.desk.assure(tx)
        for attempt in asked:
            run = runs[attempt.run_id]
            grace = grace_of(run) if attempt.reclaim_grace is None else attempt.reclaim_grace
            self._tell(attempt, Cause.RECLAIMED, f"Its place was taken back: {attempt.reclaim_reason}.", grace)
        self._end_late([a for a in live if a.run_id in late], late)
        return set()

    def _due(self) -> bool:
        now = time.monotonic()
        if now < self._late_at:
            return False
        self._late_at = now + 2 * self.interval
        return True

    def _tellable(self, attempt: Attempt) -> bool:
        # one that is placed only has no runner yet; it is told as soon as it has
        return attempt.id not in self._told and attempt.state is not AttemptState.PLACED

    def _end_late(self, attempts: Collection[Attempt], runs: dict[int, Run]) -> None:
        for attempt in attempts:
            run = runs[attempt.run_id]
            if self._tellable(attempt) and run.stop_at is None:
                self._tell(attempt, Cause.WAIT_LIMIT, waited_too_long(run), run.grace)

    def _tell(self, attempt: Attempt, cause: Cause, message: str, grace: float) -> None:
        with self.desk.isolated(f"{cause.value} of attempt {attempt.id}"):
            self.desk.assure()
            self.desk.engine.stop(attempt.id, grace=grace, cause=cause.value, message=message)
            self._told.add(attempt.id)
