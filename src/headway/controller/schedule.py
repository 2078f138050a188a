"""Places waiting runs and starts their runners.

Eligible: runs in state queued (held ones are not), highest priority first, then first come; attempts in state placed,
which a controller that died may have left without a runner.
"""

from __future__ import annotations

import logging
import secrets
import time
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
#: waiting runs that one pass looks at; where the first few take all there is, the others only every `interval`
WINDOW, FIRST = 256, 16
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
        #: monotonic time of the next look at the whole window
        self._wide_at = 0.0
        self._starters = ThreadPoolExecutor(STARTERS, thread_name_prefix="start")

    def step(self) -> set[str]:
        with self.desk.services.store.read() as tx:
            live = tx.runs.live_attempts()
            decision, waits = self._decide(tx, live)
        placed = self._place(decision, waits)
        if not placed and not any(a.state is AttemptState.PLACED for a in live):
            return set()
        return self._start() | ({"states"} if placed else set())

    def _decide(self, tx: Transaction, attempts: list[Attempt]) -> tuple[placement.Decision, dict[int, str]]:
        """What goes where, and the sentences of those that wait where they are new. attempts: those that live."""
        now = time.monotonic()
        queued = tx.runs.queued(limit=WINDOW if now >= self._wide_at else FIRST)
        if not queued:
            return placement.Decision([], {}), {}
        own = {a.run_id: a for a in attempts}
        live = [pair for run in tx.runs.live() if run.id in own for pair in placement.places(run, own[run.id])]
        nodes = tx.runs.nodes()
        free = placement.rooms(nodes, live)
        decision = placement.decide([run for run in queued if run.id not in own], free)
        if now >= self._wide_at:
            self._wide_at = now + self.interval
        elif len(queued) == FIRST and any(room.cpus > 0 for room in free):
            queued = tx.runs.queued(limit=WINDOW)
            decision = placement.decide([run for run in queued if run.id not in own], placement.rooms(nodes, live))
        # why it was lost is worth more to people than what it waits for now
        told = {run.id for run in queued if run.losses and run.reason}
        known = {run.id: run.reason for run in queued}
        waits = {i: text for i, text in decision.waits.items() if i not in told and known[i] != text}
        return decision, waits

    def _place(self, decision: placement.Decision, waits: dict[int, str]) -> int:
        """Takes the decision into the record, for runs that still wait, and returns how many were placed."""
        if not decision.placements and not waits:
            return 0
        with self.desk.apply() as tx:
            for run_id, reason in waits.items():
                tx.runs.change_if(run_id, (RunState.QUEUED,), reason=reason)
            return sum(self._record(tx, chosen) for chosen in decision.placements)

    def _record(self, tx: Transaction, chosen: placement.Placement) -> bool:
        run, now = chosen.run, self.desk.now()
        number = run.attempts + 1
        starting = check(RUN_MOVES, run.state, RunState.STARTING)
        if not tx.runs.change_if(run.id, (RunState.QUEUED,), state=starting, reason="", attempts=number):
            return False  # held or stopped meanwhile
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
        return True

    def _start(self) -> set[str]:
        """Starts every placed attempt. Starting twice starts one runner, so a crash in between does no harm."""
        with self.desk.services.store.read() as tx:
            placed = [a for a in tx.runs.live_attempts() if a.state is AttemptState.PLACED]
            if not placed:
                return set()
            self.desk.assure(tx)
            runs = {r.id: r for r in tx.runs.many([a.run_id for a in placed])}
            built = [self._build(tx, runs[a.run_id], a) for a in placed]
        done = [self._begin(built[0])] if len(built) == 1 else list(self._starters.map(self._begin, built))
        if changed := [start for start in done if start.waits == "" or start.waits != start.run.reason]:
            with self.desk.apply() as tx:
                for start in changed:
                    self._settle(tx, start)
        ended = [start for start in done if start.refused or start.stopped]
        return {"run", "states", *(start.run.owner for start in ended)} if ended else set()

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
