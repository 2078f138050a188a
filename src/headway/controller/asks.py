"""What the record asks of attempts that run: to end, to pause, to go on under other limits. Runners are told once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from headway.controller import launches
from headway.controller.loop import Desk
from headway.protocol.exits import Cause
from headway.protocol.files import AttemptFolder, read_json
from headway.rules.records import Attempt, Run
from headway.rules.states import AttemptState, RunState

_BEGUN = (AttemptState.STARTING, AttemptState.RUNNING)


class Asks:
    """One a controller: remembers what it told; another controller tells it once more, which changes nothing."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        #: attempt -> cause and grace period that its runners were told of
        self._told: dict[str, tuple[Cause, float]] = {}
        #: attempt -> limits that its runners know
        self._known: dict[str, dict[str, Any]] = {}

    def keep(self, attempts: Collection[str]) -> None:
        """Forgets all but these."""
        self._told = {attempt: told for attempt, told in self._told.items() if attempt in attempts}
        self._known = {attempt: known for attempt, known in self._known.items() if attempt in attempts}

    def step(self, live: Collection[Attempt], runs: Mapping[int, Run]) -> None:
        """Raises LeaseLostError."""
        for attempt in live:
            run = runs[attempt.run_id]
            if attempt.state is AttemptState.PLACED:
                continue
            if run.stop_at is not None or run.pause_at is not None:
                self._ask_to_end(attempt, run)
            elif attempt.state in _BEGUN:
                with self.desk.isolated(f"limits of attempt {attempt.id}"):
                    self._amend(attempt, run)

    def _ask_to_end(self, attempt: Attempt, run: Run) -> None:
        cause, message = Cause.STOPPED, run.stop_reason
        if run.stop_at is None:
            cause, message = Cause.PAUSED, run.reason or "It was paused."
        if self._told.get(attempt.id) == (cause, run.grace):
            return
        with self.desk.isolated(f"stop of attempt {attempt.id}"):
            self.desk.assure()
            # again when the grace period was shortened meanwhile
            self.desk.engine.stop(attempt.id, grace=run.grace, cause=cause.value, message=message)
            self._told[attempt.id] = cause, run.grace
        if attempt.state is AttemptState.STOPPING or attempt.id not in self._told:
            return
        with self.desk.apply() as tx:
            fresh = tx.runs.attempt(attempt.id)
            if fresh is not None and fresh.state in _BEGUN:
                tx.runs.change_attempt(attempt.id, state=AttemptState.STOPPING, stopping_at=self.desk.now())
                tx.runs.change_if(
                    run.id, (RunState.STARTING, RunState.RUNNING), state=RunState.STOPPING, reason=message
                )

    def _amend(self, attempt: Attempt, run: Run) -> None:
        """Tells of limits that are no longer those that the attempt was started with, or last told of."""
        known = self._known.get(attempt.id)
        if known is None:
            known = self._read(attempt)
            if known is None:
                return
            self._known[attempt.id] = known
        wanted = launches.bounds(run, attempt)
        if wanted == known:
            return
        self.desk.assure()
        self.desk.engine.amend(attempt.id, wanted)
        self._known[attempt.id] = wanted

    def _read(self, attempt: Attempt) -> dict[str, Any] | None:
        """What its runners know; None while it has no launch.json."""
        folder = AttemptFolder.of(self.desk.services.root, attempt.id)
        launch, amended = read_json(folder.launch), read_json(folder.amended)
        if not isinstance(launch, dict):
            return None
        changes = amended if isinstance(amended, dict) else {}
        return {name: changes.get(name, launch.get(name)) for name in ("max_duration", "grace", "limits")}
