"""Places waiting runs and starts their runners.

Eligible: runs in state queued (held ones are not), highest priority first, then first come; attempts in state placed,
which a controller that died may have left without a runner.
"""

from __future__ import annotations

import logging
import secrets

from headway.controller import launches
from headway.controller.loop import Loop
from headway.protocol.exits import Cause
from headway.protocol.launch import Launch
from headway.rules import placement
from headway.rules.records import Attempt, Run
from headway.rules.states import ATTEMPT_MOVES, RUN_MOVES, AttemptState, RunState, check
from headway.store.base import Transaction

_log = logging.getLogger(__name__)
#: waiting runs that one pass looks at
WINDOW = 256


class Schedule(Loop):
    name = "schedule"
    topics = frozenset({"run"})
    interval = 2.0

    def step(self) -> set[str]:
        with self.desk.services.store.read() as tx:
            due = bool(tx.runs.queued(limit=1)) or any(a.state is AttemptState.PLACED for a in tx.runs.live_attempts())
        if not due:
            return set()
        with self.desk.apply() as tx:
            placed = self._place(tx)
        self._start()
        return {"states"} if placed else set()

    def _place(self, tx: Transaction) -> int:
        attempts = {a.run_id: a for a in tx.runs.live_attempts()}
        live = [
            pair for run in tx.runs.live() if run.id in attempts for pair in placement.places(run, attempts[run.id])
        ]
        queued = [r for r in tx.runs.queued(limit=WINDOW) if r.id not in attempts]
        decision = placement.decide(queued, placement.rooms(tx.runs.nodes(), live))
        for chosen in decision.placements:
            self._record(tx, chosen)
        for run in queued:
            reason = decision.waits.get(run.id)
            if reason is not None and reason != run.reason and not (run.losses and run.reason):
                tx.runs.change(run.id, reason=reason)
        return len(decision.placements)

    def _record(self, tx: Transaction, chosen: placement.Placement) -> None:
        run, now = chosen.run, self.desk.now()
        number = run.attempts + 1
        tx.runs.add_attempt(
            id=f"{run.id}-{number}",
            run_id=run.id,
            number=number,
            state=AttemptState.PLACED,
            engine=chosen.node.engine,
            placement=[{"node": chosen.node.name, "address": chosen.node.address, "accelerators": chosen.accelerators}],
            cursors=[0],
            address=None,
            ready=False,
            secret=secrets.token_urlsafe(24) if run.owner == "endpoint" else None,
            created_at=now,
            started_at=None,
            launched_at=None,
            ended_at=None,
            stopping_at=None,
            exit_code=None,
            signal=None,
            cause=None,
            message="",
        )
        tx.runs.change(run.id, state=check(RUN_MOVES, run.state, RunState.STARTING), reason="", attempts=number)

    def _start(self) -> None:
        """Starts every placed attempt. Starting twice starts one runner, so a crash in between does no harm."""
        with self.desk.services.store.read() as tx:
            placed = [a for a in tx.runs.live_attempts() if a.state is AttemptState.PLACED]
            runs = {r.id: r for r in tx.runs.many([a.run_id for a in placed])}
            pairs = [(a, launches.build(self.desk, tx, runs[a.run_id], a)) for a in placed]
        started = [attempt for attempt, launch in pairs if self._started(attempt, launch)]
        if started:
            with self.desk.apply() as tx:
                for attempt in started:
                    tx.runs.change_attempt(attempt.id, state=check(ATTEMPT_MOVES, attempt.state, AttemptState.STARTING))

    def _started(self, attempt: Attempt, launch: Launch) -> bool:
        try:
            self.desk.engine.start(launch)
        except (OSError, ValueError) as error:
            _log.error("attempt %s could not be started: %s", attempt.id, error)
            with self.desk.apply() as tx:
                run = tx.runs.get(attempt.run_id)
                assert run is not None
                _give_up(tx, run, attempt, f"Its runner could not be started: {error}.", self.desk.now())
            return False
        return True


def _give_up(tx: Transaction, run: Run, attempt: Attempt, reason: str, now: float) -> None:
    tx.runs.change_attempt(
        attempt.id,
        state=check(ATTEMPT_MOVES, attempt.state, AttemptState.ENDED),
        ended_at=now,
        cause=Cause.NOT_STARTED,
        message=reason,
    )
    tx.runs.change(
        run.id,
        state=check(RUN_MOVES, run.state, RunState.FAILED),
        reason=reason,
        ended_at=now,
        cause=Cause.NOT_STARTED,
    )
