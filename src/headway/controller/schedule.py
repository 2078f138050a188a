"""Places waiting runs and starts their runners.

Eligible: runs in state queued (held ones are not), highest priority first, then first come; attempts in state placed,
which a controller that died may have left without a runner.
"""

from __future__ import annotations

import logging
import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from headway.controller import launches
from headway.controller.loop import Desk, Loop
from headway.engines.base import Presence
from headway.protocol.exits import Cause
from headway.protocol.launch import Launch
from headway.rules import placement
from headway.rules.records import Attempt, Run
from headway.rules.states import ATTEMPT_MOVES, RUN_MOVES, AttemptState, RunState, check
from headway.store.base import Transaction

_log = logging.getLogger(__name__)
#: waiting runs that one pass looks at
WINDOW = 256
#: runners that are started at once: a start is mostly waiting for another process
STARTERS = 4


@dataclass(frozen=True)
class Start:
    """One placed attempt, and what became of its start: the runner is there unless one of the sentences says else."""

    run: Run
    attempt: Attempt
    launch: Launch | None = None
    #: why it waits; it is tried again by itself
    waits: str = ""
    #: why it can never be started
    refused: str = ""
    #: it was asked to stop before any runner was there
    stopped: bool = False


class Schedule(Loop):
    name = "schedule"
    topics = frozenset({"run"})
    interval = 2.0

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._starters = ThreadPoolExecutor(STARTERS, thread_name_prefix="start")

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
            if not placed:
                return
            self.desk.assure(tx)
            runs = {r.id: r for r in tx.runs.many([a.run_id for a in placed])}
            built = [self._build(tx, runs[a.run_id], a) for a in placed]
        if len(built) == 1:
            done = [self._begin(built[0])]
        else:
            done = list(self._starters.map(self._begin, built))
        if changed := [start for start in done if start.waits == "" or start.waits != start.run.reason]:
            with self.desk.apply() as tx:
                for start in changed:
                    self._settle(tx, start)

    def _build(self, tx: Transaction, run: Run, attempt: Attempt) -> Start:
        start = Start(run, attempt)
        if run.stop_at is not None and self._unknown(attempt):
            return replace(start, stopped=True)
        try:
            return replace(start, launch=launches.build(self.desk, tx, run, attempt))
        except (OSError, ValueError, LookupError, TypeError, AssertionError) as error:
            return self._failed(start, error)

    def _unknown(self, attempt: Attempt) -> bool:
        return self.desk.engine.observe([attempt.id])[attempt.id].presence is Presence.UNKNOWN

    def _begin(self, start: Start) -> Start:
        if start.launch is None:
            return start
        try:
            launches.start(self.desk, start.launch)
        except (OSError, ValueError) as error:
            return self._failed(start, error)
        return start

    def _failed(self, start: Start, error: Exception) -> Start:
        if self.desk.quiet.due(f"attempt {start.attempt.id}: {error!r}"):
            _log.error("attempt %s could not be started: %r", start.attempt.id, error)
        if waits := launches.passing(error, self.desk.services.root):
            return replace(start, waits=waits)
        return replace(start, refused=f"Its runner could not be started: {error}.")

    def _settle(self, tx: Transaction, start: Start) -> None:
        """Takes into the record what became of it."""
        run, attempt = start.run, start.attempt
        if start.waits:
            tx.runs.change(run.id, reason=start.waits)
        elif start.stopped:
            _give_up(tx, run, attempt, RunState.STOPPED, Cause.STOPPED, run.stop_reason, self.desk.now())
        elif start.refused:
            _give_up(tx, run, attempt, RunState.FAILED, Cause.NOT_STARTED, start.refused, self.desk.now())
        else:
            tx.runs.change_attempt(attempt.id, state=check(ATTEMPT_MOVES, attempt.state, AttemptState.STARTING))
            if run.reason:
                tx.runs.change(run.id, reason="")


def _give_up(
    tx: Transaction, run: Run, attempt: Attempt, state: RunState, cause: Cause, reason: str, now: float
) -> None:
    tx.runs.change_attempt(
        attempt.id,
        state=check(ATTEMPT_MOVES, attempt.state, AttemptState.ENDED),
        ended_at=now,
        cause=cause,
        message=reason,
    )
    tx.runs.change(run.id, state=check(RUN_MOVES, run.state, state), reason=reason, ended_at=now, cause=cause)
