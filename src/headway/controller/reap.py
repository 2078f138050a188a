"""Takes what runners report into the record, exactly once, and does what follows from an attempt's end.

Eligible: attempts that have not ended; after a hint those that it names, else all; and runs that wait for others to
end. A node's events.jsonl is read from its cursor, and the cursor moves in the same transaction as what the events
change.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from headway.controller import bill, launches, owners
from headway.controller.asks import Asks
from headway.controller.ends import NODE_PATIENCE, Ended, Ends, Since, starting
from headway.controller.loop import Desk, Loop
from headway.engines.base import Observation
from headway.protocol import events
from headway.protocol.exits import Cause, Exit
from headway.protocol.files import AttemptFolder, read_records
from headway.rules import dependencies, retries
from headway.rules.records import Attempt, Run
from headway.rules.scheduling.shapes import shape_of
from headway.rules.states import ATTEMPT_MOVES, RUN_MOVES, AttemptState, RunState, check
from headway.store.base import Transaction

#: an attempt whose runner was never seen for that long is started again
START_PATIENCE = 20.0
#: all that lives, and all that waits for others, is looked at this often, whatever runners say meanwhile
SCAN_SECONDS = 1.0
#: events of one attempt that one transaction takes in, about; and bytes of them that are read at once
MOST_EVENTS, EVENT_BYTES = 500, 128 << 10


@dataclass(frozen=True)
class Seen:
    """One attempt as it was found."""

    attempt: Attempt
    observation: Observation
    events: list[dict[str, Any]]
    cursors: list[int]
    ended: Ended | None


class Reap(Loop):
    name = "reap"
    topics = frozenset({"attempt", "run"})
    interval = 1.0

    def __init__(self, desk: Desk, *, node_patience: float = NODE_PATIENCE) -> None:
        """node_patience: seconds without a heartbeat after which a node is lost."""
        super().__init__(desk)
        #: monotonic time of the next look at all that lives, and at all that waits for others
        self._scan_at = self._dependents_at = 0.0
        self._since = Since()
        self._asks = Asks(desk)
        self._ends = Ends(desk, node_patience=node_patience)

    def step(self) -> set[str]:
        said = self.desk.heard()
        with self.desk.services.store.read() as tx:
            live = tx.runs.live_attempts()
            runs = {r.id: r for r in tx.runs.many([a.run_id for a in live])} if live else {}
            if live:
                self.desk.assure(tx)
        topics = self._attempts(live, runs, said) if live else set()
        return topics | self._dependents(bool(topics))

    def _attempts(self, live: Collection[Attempt], runs: dict[int, Run], said: Collection[str]) -> set[str]:
        ids = {a.id for a in live}
        for memory in (self._since, self._asks, self._ends):
            memory.keep(ids)
        self._asks.step(live, runs)
        seen = self._observe(live, said)
        self._start_again([s.attempt for s in seen if s.ended is None and self._overdue(s)])
        changed = [s for s in seen if s.events or s.ended or s.cursors != s.attempt.cursors]
        if not changed:
            return set()
        topics: set[str] = {"states"}
        with self.desk.apply() as tx:
            for one in changed:
                with self.desk.isolated(f"attempt {one.attempt.id}", tx):
                    topics |= self._take_in(tx, one)
        return topics

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
        ended = self._ends.look(attempt, observation)
        # after the end and the sweep: nobody adds to the files any more
        folder = AttemptFolder.of(self.desk.services.root, attempt.id)
        found: list[dict[str, Any]] = []
        cursors = list(attempt.cursors) + [0] * (len(attempt.placement) - len(attempt.cursors))
        weight = 0
        for index, cursor in enumerate(cursors):
            while True:
                if weight >= MOST_EVENTS:
                    # nobody else may be kept from writing for long: the others, and the end, are for the next look
                    ended = None
                    break
                block, cursor = read_records(folder.node(index).events, cursor, EVENT_BYTES)
                found += [{**event, "node": index} for event in block]
                weight += sum(owners.weight(event) for event in block)
                if cursor == cursors[index]:
                    break
                cursors[index] = cursor
        if len(cursors) > 1:
            found.sort(key=_at)
        return Seen(attempt, observation, found, cursors, ended)

    def _overdue(self, seen: Seen) -> bool:
        """Whether an attempt that should have all its runners lacks one and is due to be started again."""
        absent = starting(seen.attempt, seen.observation)
        return self._since.lasts(seen.attempt.id, "start", absent, START_PATIENCE)

    def _start_again(self, overdue: Collection[Attempt]) -> None:
        for attempt in overdue:
            with self.desk.isolated(f"start of attempt {attempt.id}"):
                self._since.lasts(attempt.id, "start", False, START_PATIENCE)
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
        for event in owners.merged(seen.events):
            # one that nobody can understand is left out, and the cursor moves on
            with self.desk.isolated(f"event {event.get('event')!r} of attempt {attempt.id}", tx):
                after = self._event(tx, attempt, run, event)
                follows = owners.take_in(tx, after[1], after[0], event, self.desk.now())
                (attempt, run), topics = after, topics | follows
        if seen.cursors != attempt.cursors:
            tx.runs.change_attempt(attempt.id, cursors=seen.cursors)
        if seen.ended is not None:
            self._end(tx, attempt, run, seen.ended)
            topics |= {"run", "routes", run.owner}
        return topics

    def _event(self, tx: Transaction, attempt: Attempt, run: Run, event: dict[str, Any]) -> tuple[Attempt, Run]:
        kind, at = event.get("event"), float(event.get("at") or self.desk.now())
        if kind == events.STARTED:
            if attempt.started_at is None:
                bill.open_entry(self.desk, tx, run, attempt, at)
            elif attempt.started_at <= at:
                return attempt, run  # another node began before
            tx.runs.change_attempt(attempt.id, started_at=at)
            if run.started_at is None:
                tx.runs.change(run.id, started_at=at)
            return replace(attempt, started_at=at), replace(run, started_at=run.started_at or at)
        if kind == events.LAUNCHED:
            changes: dict[str, Any] = {"launched_at": min(at, attempt.launched_at or at)}
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

    def _end(self, tx: Transaction, attempt: Attempt, run: Run, ended: Ended) -> None:
        end = launches.waited(run, attempt, ended.end)
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
        bill.close_entry(self.desk, tx, attempt.id, end.ended)
        before = retries.losses_by_cause(run, [a for a in tx.runs.attempts(run.id) if a.id != attempt.id])
        verdict = retries.after(run, end, before=before, nodes=ended.nodes)
        tx.runs.change(run.id, **self._follows(run, end, verdict))

    def _follows(self, run: Run, end: Exit, verdict: retries.Verdict) -> dict[str, Any]:
        """What changes of the run."""
        changes: dict[str, Any] = {
            "state": check(RUN_MOVES, run.state, verdict.state),
            "reason": verdict.reason,
            "losses": run.losses + int(verdict.loss),
            "reclaims": run.reclaims + int(verdict.reclaimed),
            "pause_at": None,
        }
        if verdict.state not in (RunState.QUEUED, RunState.HELD):
            # whatever ended the attempt then: a run that was stopped ended because somebody asked
            cause = Cause.STOPPED if verdict.state is RunState.STOPPED else end.cause
            return {**changes, "ended_at": end.ended, "exit_code": end.code, "cause": cause}
        changes |= {"ended_at": None, "exit_code": None, "cause": None, "queued_at": self.desk.now()}
        if new := [node for node in verdict.avoid if node not in run.avoid]:
            avoid = [*run.avoid, *new]
            changes |= {"avoid": avoid, "shape": shape_of(replace(run, avoid=avoid))}
        return changes

    # -- runs that come after others

    def _dependents(self, ended: bool) -> set[str]:
        now = time.monotonic()
        if not ended and now < self._dependents_at:
            return set()
        self._dependents_at = now + SCAN_SECONDS
        with self.desk.services.store.read() as tx:
            if not (waiting := tx.runs.dependencies()):
                return set()
            states = tx.runs.states({number for after in waiting.values() for number in after})
        decision = dependencies.decide(waiting, states)
        if not (decision.free or decision.failed):
            return set()
        waits = (RunState.QUEUED, RunState.HELD)
        at = self.desk.now()
        with self.desk.apply() as tx:
            for run_id in decision.free:
                tx.runs.change_if(run_id, waits, blocked=False, queued_at=at, reason="")
            for run_id, reason in decision.failed.items():
                # it stays blocked: retried by hand, it asks again whether those it comes after have succeeded
                values = {"state": RunState.FAILED, "reason": reason, "cause": Cause.DEPENDENCY, "ended_at": at}
                tx.runs.change_if(run_id, waits, **values)
        return {"run", "states", "evaluation"}


def _at(event: dict[str, Any]) -> float:
    at = event.get("at")
    return float(at) if isinstance(at, (int, float)) else 0.0
