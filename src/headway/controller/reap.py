"""Takes what runners report into the record, exactly once, and does what follows from an attempt's end.

Eligible: attempts that have not ended; after a hint those that it names, else all. A node's events.jsonl is read
from its cursor, and the cursor moves in the same transaction as what the events change.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from headway.controller import launches, owners
from headway.controller.loop import Desk, Loop
from headway.engines.base import Observation, Presence
from headway.protocol import events
from headway.protocol.exits import Cause, Exit
from headway.protocol.files import AttemptFolder, read_json, read_records
from headway.rules import billing, retries
from headway.rules.records import Attempt, Run
from headway.rules.states import ATTEMPT_MOVES, RUN_MOVES, AttemptState, RunState, check
from headway.store.base import Transaction

#: an attempt whose runner was never seen for that long is started again
START_PATIENCE = 20.0
#: an attempt whose folder is gone for that long has ended: its runner has seen it too, and used up its grace period
REMOVED_PATIENCE = 60.0
#: an exit.json that cannot be read for that long never will be: its attempt is lost
READ_PATIENCE = 10.0
#: all that lives is looked at this often, whatever runners say meanwhile
SCAN_SECONDS = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Seen:
    """One attempt as it was found."""

    attempt: Attempt
    observation: Observation
    events: list[dict[str, Any]]
    cursors: list[int]
    end: Exit | None


class Reap(Loop):
    name = "reap"
    topics = frozenset({"attempt", "run"})
    interval = 1.0

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        #: monotonic time of the next look at all that lives
        self._scan_at = 0.0
        #: what is wrong with an attempt now -> monotonic time since when
        self._since: dict[tuple[str, str], float] = {}
        #: attempt -> grace period that its runner was told of
        self._told: dict[str, float] = {}

    def step(self) -> set[str]:
        said = self.desk.heard()
        with self.desk.services.store.read() as tx:
            live = tx.runs.live_attempts()
            if not live:
                return set()
            self.desk.assure(tx)
            runs = {r.id: r for r in tx.runs.many([a.run_id for a in live])}
        self._forget(live)
        self._ask_to_stop(live, runs)
        seen = self._observe(live, said)
        self._start_again([s.attempt for s in seen if s.end is None and self._moves(s)])
        changed = [s for s in seen if s.events or s.end or s.cursors != s.attempt.cursors]
        if not changed:
            return set()
        topics: set[str] = {"states"}
        with self.desk.apply() as tx:
            for one in changed:
                with self.desk.isolated(f"attempt {one.attempt.id}", tx):
                    topics |= self._take_in(tx, one)
        return topics

    def _forget(self, live: Collection[Attempt]) -> None:
        ids = {a.id for a in live}
        self._since = {key: at for key, at in self._since.items() if key[0] in ids}
        self._told = {attempt: grace for attempt, grace in self._told.items() if attempt in ids}

    def _lasts(self, attempt: str, trouble: str, so: bool, patience: float) -> bool:
        """Whether `trouble` has now been so, without a break, for `patience` seconds of the monotonic clock."""
        if not so:
            self._since.pop((attempt, trouble), None)
            return False
        now = time.monotonic()
        return now - self._since.setdefault((attempt, trouble), now) >= patience

    # -- stop

    def _ask_to_stop(self, live: Collection[Attempt], runs: dict[int, Run]) -> None:
        for attempt in live:
            run = runs[attempt.run_id]
            if run.stop_at is None or attempt.state is AttemptState.PLACED or self._told.get(attempt.id) == run.grace:
                continue
            # told again when the grace period was shortened meanwhile, and once by each new controller
            with self.desk.isolated(f"stop of attempt {attempt.id}"):
                self.desk.assure()
                self.desk.engine.stop(attempt.id, grace=run.grace, cause=Cause.STOPPED.value, message=run.stop_reason)
                self._told[attempt.id] = run.grace
            if attempt.state is AttemptState.STOPPING or attempt.id not in self._told:
                continue
            with self.desk.apply() as tx:
                fresh = tx.runs.attempt(attempt.id)
                if fresh is not None and fresh.state in (AttemptState.STARTING, AttemptState.RUNNING):
                    tx.runs.change_attempt(attempt.id, state=AttemptState.STOPPING, stopping_at=self.desk.now())
                    tx.runs.change_if(
                        run.id, (RunState.STARTING, RunState.RUNNING), state=RunState.STOPPING, reason=run.stop_reason
                    )

    # -- observe

    def _observe(self, live: Collection[Attempt], said: Collection[str]) -> list[Seen]:
        now = time.monotonic()
        if not said or now >= self._scan_at:
            self._scan_at, said = now + SCAN_SECONDS, {a.id for a in live}
        chosen = [a for a in live if a.id in said]
        observed = self.desk.engine.observe([a.id for a in chosen])
        seen: list[Seen] = []
        for attempt in chosen:
            with self.desk.isolated(f"files of attempt {attempt.id}"):
                seen.append(self._look(attempt, observed[attempt.id]))
        return seen

    def _look(self, attempt: Attempt, observation: Observation) -> Seen:
        folder = AttemptFolder.of(self.desk.services.root, attempt.id)
        end: Exit | None = None
        if observation.presence is Presence.ENDED:
            end = self._read_end(attempt, observation, folder)
        elif observation.presence is Presence.LOST:
            end = self._sweep(attempt, observation, "Its runner is gone without a word.")
        elif self._lasts(attempt.id, "folder", self._removed(attempt, observation), REMOVED_PATIENCE):
            end = self._lost(attempt, observation, "Its folder was removed.")
        # after the end and the sweep: nobody adds to the files any more
        found: list[dict[str, Any]] = []
        cursors = list(attempt.cursors)
        for index, cursor in enumerate(attempt.cursors):
            while True:
                block, cursor = read_records(folder.node(index).events, cursor)
                found += block
                if cursor == cursors[index]:
                    break
                cursors[index] = cursor
        return Seen(attempt, observation, found, cursors, end)

    def _removed(self, attempt: Attempt, observation: Observation) -> bool:
        """Whether the folder of an attempt that ran is gone, while the root that it lay in is there."""
        gone = observation.presence is Presence.UNKNOWN and attempt.started_at is not None
        return gone and (self.desk.services.root / "attempts").is_dir()

    def _read_end(self, attempt: Attempt, observation: Observation, folder: AttemptFolder) -> Exit | None:
        try:
            end = _exit(read_json(folder.node(0).exit))
        except (OSError, ValueError, TypeError, LookupError) as error:
            if self.desk.quiet.due(f"exit of {attempt.id}"):
                _log.error("exit.json of attempt %s cannot be read: %r", attempt.id, error)
            if not self._lasts(attempt.id, "exit", True, READ_PATIENCE):
                return None
            return self._sweep(attempt, observation, f"Its end is not known: exit.json cannot be read ({error}).")
        self._lasts(attempt.id, "exit", False, READ_PATIENCE)
        return end

    def _sweep(self, attempt: Attempt, observation: Observation, message: str) -> Exit | None:
        """Its end as a lost one; None when a runner turns out to live after all."""
        # whatever it left must be gone before anybody may take its place
        self.desk.assure()
        self.desk.engine.sweep(attempt.id)
        after = self.desk.engine.observe([attempt.id])[attempt.id].presence
        return self._lost(attempt, observation, message) if after is observation.presence else None

    def _lost(self, attempt: Attempt, observation: Observation, message: str) -> Exit:
        began = attempt.started_at or attempt.created_at
        return Exit(
            cause=Cause.RUNNER_LOST,
            code=None,
            signal=None,
            rank=None,
            message=message,
            started=began,
            launched=attempt.launched_at,
            ended=max(began, observation.heartbeat or began),
        )

    def _moves(self, seen: Seen) -> bool:
        """Whether an attempt that should have a runner has none and is due to be started again."""
        waiting = seen.observation.presence in (Presence.STARTING, Presence.UNKNOWN)
        absent = waiting and seen.attempt.state is AttemptState.STARTING
        return self._lasts(seen.attempt.id, "start", absent, START_PATIENCE)

    def _start_again(self, overdue: Collection[Attempt]) -> None:
        for attempt in overdue:
            with self.desk.isolated(f"start of attempt {attempt.id}"):
                self._lasts(attempt.id, "start", False, START_PATIENCE)
                with self.desk.services.store.read() as tx:
                    run = tx.runs.get(attempt.run_id)
                    assert run is not None
                    launch = launches.build(self.desk, tx, run, attempt)
                launches.start(self.desk, launch)

    # -- take in

    def _take_in(self, tx: Transaction, seen: Seen) -> set[str]:
        attempt = tx.runs.attempt(seen.attempt.id)
        if attempt is None or attempt.state is AttemptState.ENDED or attempt.cursors != seen.attempt.cursors:
            return set()  # somebody else has taken it in meanwhile
        run = tx.runs.get(attempt.run_id)
        assert run is not None
        topics: set[str] = set()
        for event in seen.events:
            # one that nobody can understand is left out, and the cursor moves on
            with self.desk.isolated(f"event {event.get('event')!r} of attempt {attempt.id}", tx):
                after = self._event(tx, attempt, run, event)
                follows = owners.take_in(tx, after[1], after[0], event, self.desk.now())
                (attempt, run), topics = after, topics | follows
        if seen.cursors != attempt.cursors:
            tx.runs.change_attempt(attempt.id, cursors=seen.cursors)
        if seen.end is not None:
            self._end(tx, attempt, run, seen.end)
            topics |= {"run", "routes", run.owner}
        return topics

    def _event(self, tx: Transaction, attempt: Attempt, run: Run, event: dict[str, Any]) -> tuple[Attempt, Run]:
        kind, at = event.get("event"), float(event.get("at") or self.desk.now())
        if kind == events.STARTED:
            if attempt.started_at is None:
                self._open_bill(tx, attempt, run, at)
            tx.runs.change_attempt(attempt.id, started_at=at)
            if run.started_at is None:
                tx.runs.change(run.id, started_at=at)
            return replace(attempt, started_at=at), replace(run, started_at=run.started_at or at)
        if kind == events.LAUNCHED:
            changes: dict[str, Any] = {"launched_at": at}
            if attempt.state in (AttemptState.PLACED, AttemptState.STARTING):
                changes["state"] = AttemptState.RUNNING
            tx.runs.change_attempt(attempt.id, **changes)
            if run.state is RunState.STARTING:
                tx.runs.change(run.id, state=check(RUN_MOVES, run.state, RunState.RUNNING))
                run = replace(run, state=RunState.RUNNING)
            return replace(attempt, **changes), run
        if kind == events.STOPPING and run.state in (RunState.STARTING, RunState.RUNNING):
            tx.runs.change(run.id, state=check(RUN_MOVES, run.state, RunState.STOPPING))
            tx.runs.change_attempt(attempt.id, state=AttemptState.STOPPING, stopping_at=at)
            return replace(attempt, state=AttemptState.STOPPING), replace(run, state=RunState.STOPPING)
        return attempt, run

    def _open_bill(self, tx: Transaction, attempt: Attempt, run: Run, at: float) -> None:
        spec = tx.runs.spec(run.spec)
        tx.ledger.open(
            attempt_id=attempt.id,
            run_id=run.id,
            project_id=run.project_id,
            owner=run.owner,
            spec=run.spec,
            started_at=at,
            ended_at=None,
            seconds=0.0,
            price_hour=spec.price_hour if spec else 0,
            amount=0,
            details={},
        )

    def _end(self, tx: Transaction, attempt: Attempt, run: Run, end: Exit) -> None:
        tx.runs.change_attempt(
            attempt.id,
            state=check(ATTEMPT_MOVES, attempt.state, AttemptState.ENDED),
            ended_at=end.ended,
            exit_code=end.code,
            signal=end.signal,
            cause=end.cause,
            message=end.message,
            ready=False,
        )
        if (entry := tx.ledger.of_attempt(attempt.id)) is not None:
            seconds = billing.seconds(entry.started_at, end.ended)
            tx.ledger.change(
                attempt.id, ended_at=end.ended, seconds=seconds, amount=billing.amount(seconds, entry.price_hour)
            )
        verdict = retries.after(run, end)
        state = verdict.state
        if run.state is RunState.STOPPING and state is RunState.QUEUED:
            state = RunState.FAILED
        again = state is RunState.QUEUED
        tx.runs.change(
            run.id,
            state=check(RUN_MOVES, run.state, state),
            reason=verdict.reason,
            losses=run.losses + int(verdict.loss),
            ended_at=None if again else end.ended,
            exit_code=None if again else end.code,
            cause=None if again else end.cause,
        )


def _exit(raw: Any) -> Exit:
    """The content of an exit.json. Raises ValueError, TypeError or LookupError when it is none."""
    end = Exit.from_json(raw)
    if not (math.isfinite(end.started) and math.isfinite(end.ended)):
        raise ValueError("a time in it is no number")
    codes = [None if n is None else int(n) for n in (end.code, end.signal)]
    return replace(end, code=codes[0], signal=codes[1], message=str(end.message))
