"""Places waiting runs, asks spot runs to leave for others, and starts runners.

Eligible: runs in state queued that come after nothing which has not succeeded (held and blocked ones are not), by
project, priority and shape, of each the first few; attempts in state placed, which a controller that died may have left
without a runner; queued runs that have waited longer than their `max_wait`, which fail.
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
from headway.errors import HeadwayError
from headway.protocol.exits import Cause
from headway.protocol.launch import Launch
from headway.rules import prices
from headway.rules.records import Attempt, Run
from headway.rules.scheduling import Decision, Group, Held, Placement, Reclaim, decide
from headway.rules.states import ATTEMPT_MOVES, RUN_MOVES, AttemptState, RunState, check
from headway.rules.units import render_duration
from headway.store.base import Transaction

_log = logging.getLogger(__name__)
#: waiting runs of one group and in all that a pass reads at first; and where that was too little to use what is free
FIRST, WINDOW = (16, 512), (64, 4096)
#: passes in a row, where each placed something and more may fit
PASSES = 16
#: runners that are started at once: a start is mostly waiting for another process
STARTERS = 4
#: between what became of its last attempt and what a run waits for now
_AND = " It waits "


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
        #: monotonic time of the next look for runs that have waited too long
        self._expire_at = 0.0
        #: runs with a sentence in the record why they wait; None: not looked for yet
        self._told: dict[int, str] | None = None
        self._starters = ThreadPoolExecutor(STARTERS, thread_name_prefix="start")

    def step(self) -> set[str]:
        topics = self._expire()
        for number in range(PASSES):
            with self.desk.services.store.read() as tx:
                live = tx.runs.live_attempts()
                decision, waits = self._decide(tx, live, WINDOW if number else FIRST)
            placed = self._place(decision, waits)
            topics |= {"reclaim"} if decision.reclaims else set()
            topics |= {"states"} if placed or waits else set()
            if placed or (not number and any(a.state is AttemptState.PLACED for a in live)):
                topics |= self._start()
            if not (placed and decision.more):
                break
        return topics

    # -- decide

    def _decide(
        self, tx: Transaction, attempts: list[Attempt], window: tuple[int, int] = FIRST
    ) -> tuple[Decision, dict[int, str]]:
        """What goes where and what leaves, and the sentences of those that wait where they are new ("": not any more).

        attempts: those that live. window: waiting runs of a group, and in all, that are looked at.
        """
        if self._told is None:
            self._told = {run.id: run.reason for run in tx.runs.explained()}
        heads = tx.runs.queue_heads(window[0], rows=window[1])
        if not heads:
            return Decision(), self._news({}, {})
        own = {a.run_id: a for a in attempts}
        groups = [Group([run for run in runs if run.id not in own], waiting) for runs, waiting in heads]
        now = self.desk.now()
        price, on_demand = prices.of_runs(tx.runs.specs(), self.desk.services.prices.history(), now)
        decision = decide(
            [group for group in groups if group.heads],
            nodes=tx.runs.nodes(),
            held=[Held(run, own[run.id]) for run in tx.runs.live() if run.id in own],
            projects={project.id: project for project in tx.people.projects()},
            now=now,
            price=price,
            on_demand=on_demand,
        )
        return decision, self._news(decision.waits, {run.id: run.reason for runs, _ in heads for run in runs})

    def _news(self, waits: dict[int, str], known: dict[int, str]) -> dict[int, str]:
        """The sentences that the record does not have yet. known: run -> what it has, of those that were read."""
        told = self._told or {}
        news: dict[int, str] = {}
        for run_id, sentence in waits.items():
            # why it waits again is worth keeping: its attempt's end, then what it waits for now
            end = "" if (before := known.get(run_id, "")).startswith("waits") else before.split(_AND)[0]
            text = f"{end}{_AND}{sentence.removeprefix('waits ')}" if end else sentence
            if before != text:
                news[run_id] = text
        # those that others have been put before, or that are no longer the first of their group
        return news | {run_id: "" for run_id in told if run_id not in waits}

    # -- apply

    def _place(self, decision: Decision, waits: dict[int, str]) -> int:
        """Takes the decision into the record, for runs that still wait, and returns how many were placed."""
        if not decision.placements and not decision.reclaims and not waits:
            return 0
        with self.desk.apply() as tx:
            self._explain(tx, waits)
            for reclaim in decision.reclaims:
                ask_back(tx, reclaim, self.desk.now())
            return sum(self._record(tx, chosen) for chosen in decision.placements)

    def _explain(self, tx: Transaction, waits: dict[int, str]) -> None:
        told = self._told if self._told is not None else {}
        for run_id, sentence in waits.items():
            if sentence:
                tx.runs.change_if(run_id, (RunState.QUEUED,), reason=sentence)
                told[run_id] = sentence
            elif (before := told.pop(run_id, "")).startswith("waits"):
                tx.runs.change_if(run_id, (RunState.QUEUED,), reason="")
            elif _AND in before:
                tx.runs.change_if(run_id, (RunState.QUEUED,), reason=before.split(_AND)[0])

    def _record(self, tx: Transaction, chosen: Placement) -> bool:
        run, now = chosen.run, self.desk.now()
        number = run.attempts + 1
        starting = check(RUN_MOVES, run.state, RunState.STARTING)
        if not tx.runs.change_if(run.id, (RunState.QUEUED,), state=starting, reason="", attempts=number):
            return False  # held or stopped meanwhile
        if self._told:
            self._told.pop(run.id, None)
        tx.runs.add_attempt(
            id=f"{run.id}-{number}",
            run_id=run.id,
            number=number,
            state=AttemptState.PLACED,
            engine=chosen.places[0].node.engine,
            placement=[
                {
                    "node": place.node.name,
                    "address": place.node.address,
                    "accelerators": list(place.accelerators),
                    "cpus": place.cpus,
                    "memory_bytes": place.memory_bytes,
                }
                for place in chosen.places
            ],
            cursors=[0] * len(chosen.places),
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

    # -- what has waited too long

    def _expire(self) -> set[str]:
        """Fails queued runs whose `max_wait` is over; those that run are asked to end by `controller.reclaims`."""
        now = time.monotonic()
        if now < self._expire_at:
            return set()
        self._expire_at = now + self.interval
        at = self.desk.now()
        with self.desk.services.store.read() as tx:
            late = tx.runs.overdue(at, live=False)
        if not late:
            return set()
        with self.desk.apply() as tx:
            for run in late:
                reason = waited_too_long(run)
                failed = {"state": RunState.FAILED, "reason": reason, "cause": Cause.WAIT_LIMIT, "ended_at": at}
                tx.runs.change_if(run.id, (RunState.QUEUED,), **failed)
        return {"run", "states", *(run.owner for run in late)}

    # -- start

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
        except HeadwayError as error:
            return replace(start, refused=str(error))
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


def ask_back(tx: Transaction, reclaim: Reclaim, now: float, grace: float | None = None) -> bool:
    """Notes that an attempt is to leave its place; whether it was not asked before. `controller.reclaims` tells it."""
    attempt = tx.runs.attempt(reclaim.attempt.id)
    if attempt is None or attempt.state is AttemptState.ENDED or attempt.reclaim_at is not None:
        return False
    tx.runs.change_attempt(attempt.id, reclaim_at=now, reclaim_reason=reclaim.reason, reclaim_grace=grace)
    live = (RunState.STARTING, RunState.RUNNING)
    tx.runs.change_if(attempt.run_id, live, reason=f"Its place is taken back: {reclaim.reason}.")
    return True


def waited_too_long(run: Run) -> str:
    """One sentence for a run that its `max_wait` ends."""
    return f"It waited and ran for longer than its max_wait of {render_duration(run.max_wait or 0.0)}."
