"""Takes what runners report into the record, exactly once, and does what follows from an attempt's end.

Eligible: attempts that have not ended; after a hint those that it names, else all. A node's events.jsonl is read from its
cursor, and the cursor moves in the same transaction as what the events change.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from headway.controller import owners
from headway.controller.loop import Loop
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

    def step(self) -> set[str]:
        said, self.desk.said = self.desk.said, set()
        with self.desk.services.store.read() as tx:
            live = tx.runs.live_attempts()
            runs = {r.id: r for r in tx.runs.many([a.run_id for a in live])} if live else {}
        if not live:
            return set()
        self._ask_to_stop(live, runs)
        seen = self._observe(live, said)
        changed = [s for s in seen if s.events or s.end or self._moves(s)]
        if not changed:
            return set()
        topics: set[str] = {"states"}
        with self.desk.apply() as tx:
            for one in changed:
                topics |= self._take_in(tx, one)
        return topics

    # -- stop

    def _ask_to_stop(self, live: Collection[Attempt], runs: dict[int, Run]) -> None:
        for attempt in live:
            run = runs[attempt.run_id]
            if run.stop_at is None or attempt.state in (AttemptState.STOPPING, AttemptState.PLACED):
                continue
            self.desk.engine.stop(attempt.id, grace=run.grace, cause=Cause.STOPPED.value, message=run.stop_reason)
            with self.desk.apply() as tx:
                fresh = tx.runs.attempt(attempt.id)
                if fresh is not None and fresh.state in (AttemptState.STARTING, AttemptState.RUNNING):
                    tx.runs.change_attempt(attempt.id, state=AttemptState.STOPPING, stopping_at=self.desk.now())
                    tx.runs.change_if(
                        run.id, (RunState.STARTING, RunState.RUNNING), state=RunState.STOPPING, reason=run.stop_reason
                    )

    # -- observe

    def _observe(self, live: Collection[Attempt], said: Collection[str]) -> list[Seen]:
        chosen = [a for a in live if a.id in said] if said else list(live)
        observed = self.desk.engine.observe([a.id for a in chosen])
        return [self._look(a, observed[a.id]) for a in chosen]

    def _look(self, attempt: Attempt, observation: Observation) -> Seen:
        folder = AttemptFolder.of(self.desk.services.root, attempt.id)
        end: Exit | None = None
        if observation.presence is Presence.ENDED:
            end = Exit.from_json(read_json(folder.node(0).exit))
        elif observation.presence is Presence.LOST:
            # whatever it left must be gone before anybody may take its place
            self.desk.engine.sweep(attempt.id)
            end = self._lost(attempt, observation)
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

    def _lost(self, attempt: Attempt, observation: Observation) -> Exit:
        began = attempt.started_at or attempt.created_at
        return Exit(
            cause=Cause.RUNNER_LOST,
            code=None,
            signal=None,
            rank=None,
            message="Its runner is gone without a word.",
            started=began,
            launched=attempt.launched_at,
            ended=max(began, observation.heartbeat or began),
        )

    def _moves(self, seen: Seen) -> bool:
        """Whether an attempt that should have a runner has none and is due to be started again."""
        waiting = seen.observation.presence in (Presence.STARTING, Presence.UNKNOWN)
        overdue = self.desk.now() - seen.attempt.created_at > START_PATIENCE
        return waiting and overdue and seen.attempt.state is AttemptState.STARTING

    # -- take in

    def _take_in(self, tx: Transaction, seen: Seen) -> set[str]:
        attempt = tx.runs.attempt(seen.attempt.id)
        if attempt is None or attempt.state is AttemptState.ENDED or attempt.cursors != seen.attempt.cursors:
            return set()  # somebody else has taken it in meanwhile
        run = tx.runs.get(attempt.run_id)
        assert run is not None
        topics: set[str] = set()
        for event in seen.events:
            attempt, run = self._event(tx, attempt, run, event)
            topics |= owners.take_in(tx, run, attempt, event, self.desk.now())
        if seen.cursors != attempt.cursors:
            tx.runs.change_attempt(attempt.id, cursors=seen.cursors)
        if self._moves(seen) and seen.end is None:
            self.desk.engine.start(self._again(tx, run, attempt))
        if seen.end is not None:
            self._end(tx, attempt, run, seen.end)
            topics |= {"run", "routes", run.owner}
        return topics

    def _again(self, tx: Transaction, run: Run, attempt: Attempt) -> Any:
        from headway.controller import launches

        return launches.build(self.desk, tx, run, attempt)

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
