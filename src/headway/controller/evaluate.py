"""Evaluations: takes followed checkpoints in, deals cells to worker runs, sees pauses through, and ends.

Eligible: evaluations in state running or paused; and those that were, until their last index is written.
What workers tell of their cells comes through `controller.cell_events`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from headway.controller import deals, follow, targets
from headway.controller.cell_events import go_on, lacks, note, stop_for
from headway.controller.evaluation_view import View, view_of
from headway.controller.indexing import Indexing
from headway.controller.loop import Desk, Loop
from headway.controller.tidying import Tidying
from headway.rules import cells as cell_rules
from headway.rules import dealing
from headway.rules.forecast import due, forecast
from headway.rules.records import Evaluation
from headway.rules.states import EVALUATION_MOVES, CellState, EvaluationState, RunState, check
from headway.services.runs import ask_to_stop
from headway.storage.claims import TAKEN
from headway.storage.full import TargetFullError
from headway.store.base import Transaction

#: steps that an evaluation takes in a row, where one follows from the other
STEPS = 6
#: of evaluations so large that a look takes longer, looks take no more than this part of the time
_LONG_LOOK, _PART = 0.05, 0.1
#: seconds between forecasts while what is needed does not fit
_FORECAST_SECONDS = 20.0
_log = logging.getLogger(__name__)


_Effect = Callable[[Transaction, View], set[str]]


class Evaluate(Loop):
    name = "evaluate"
    topics = frozenset({"evaluation"})
    interval = 2.0

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.indexing = Indexing(desk)
        self.tidying = Tidying(desk)
        self._looks = targets.Looks()
        #: evaluation -> monotonic time before which it is not looked at, or forecast, again
        self._rests: dict[int, float] = {}
        self._forecasts: dict[int, float] = {}

    def step(self) -> set[str]:
        with self.desk.services.store.read() as tx:
            active = tx.evaluations.active_ids()
        topics: set[str] = set()
        for number in active:
            if time.monotonic() >= self._rests.get(number, 0.0):
                self._rests.pop(number, None)
                with self.desk.isolated(f"evaluation {number}"):
                    topics |= self._one(number)
        self._rests = {i: at for i, at in self._rests.items() if i in active}
        self._forecasts = {i: at for i, at in self._forecasts.items() if i in active}
        with self.desk.services.store.read() as tx:
            active = tx.evaluations.active_ids()
        self.indexing.step(set(active))
        self.tidying.step(set(active))
        return topics

    def pause(self) -> float:
        # what came in while one rested is seen when its rest is over
        return min([self.interval, *(max(0.0, at - time.monotonic()) for at in self._rests.values())])

    def _one(self, number: int) -> set[str]:
        topics: set[str] = set()
        for _ in range(STEPS):
            # what it takes of this thread, not of a machine that is busy with something else
            began = time.thread_time()
            with self.desk.services.store.read() as tx:
                view = view_of(tx, number)
                if view is None:
                    return topics
                self.desk.assure(tx)
            took = time.thread_time() - began
            follows = self._act(view)
            if not follows:
                if took > _LONG_LOOK:
                    self._rests[number] = time.monotonic() + min(self.interval, took / _PART)
                self._forecast(view)
                self.indexing.keep(view.evaluation, view.by_state())
                return topics
            topics |= follows
        return topics

    # -- act

    def _act(self, view: View) -> set[str]:
        """What is next for the evaluation, if anything; the hint topics that follow from it."""
        step = view.step
        if view.rows:
            return self._apply(view, self._add_rows)
        if step.idle or step.excuse:
            return self._apply(view, self._set_free)
        if step.probe:
            return self._see_through(view)
        if step.blames is not None and (full := self._full(view)) is not None:
            return self._apply(view, lambda tx, v: self._excuse_and_pause(tx, v, full))
        if step.state is not None:
            return self._finish(view)
        if step.deal:
            return self._deal(view)
        return set()

    def _apply(self, view: View, effect: _Effect) -> set[str]:
        with self.desk.apply() as tx:
            if not view.still(view_of(tx, view.evaluation.id)):
                return {"evaluation"}  # something came in between; it is looked at anew
            return effect(tx, view)

    def _add_rows(self, tx: Transaction, view: View) -> set[str]:
        follow.add(tx, view.evaluation, view.rows)
        return {"states"}

    def _set_free(self, tx: Transaction, view: View) -> set[str]:
        for run_id in view.step.idle:
            ids = [cell.id for cell in tx.evaluations.dealt(run_id, [CellState.RUNNING])]
            tx.evaluations.change_cells(ids, state=CellState.WAITING)
        for run_id in view.step.excuse:
            note(tx, run_id, **{dealing.EXCUSED: True})
        return {"states"}

    def _deal(self, view: View) -> set[str]:
        with self.desk.services.store.read() as tx:
            deal = deals.prepare(tx, view.evaluation, view.step)
        mount = self._mount(view.evaluation)
        if isinstance(mount, TargetFullError) and mount.cause == TAKEN:
            taken = mount
            return self._apply(view, lambda tx, v: self._pause(tx, v, taken))

        def effect(tx: Transaction, view: View) -> set[str]:
            # what another evaluation has done meanwhile is done
            others = len(tx.evaluations.active_ids()) > 1 or view.evaluation.rounds
            if others and tx.evaluations.reuse(view.evaluation.id, view.evaluation.project_id):
                return {"states"}
            if deal.empty:
                # all that is left is being done for another evaluation; it is looked at again before long
                self._rests[view.evaluation.id] = time.monotonic() + self.interval
                return set()
            if isinstance(mount, dict):
                tx.evaluations.change(view.evaluation.id, plan={**view.evaluation.plan, cell_rules.MOUNT: mount})
            deals.apply(self.desk, tx, view.evaluation, view.step, deal)
            return {"run", "states"}

        return self._apply(view, effect)

    def _mount(self, evaluation: Evaluation) -> object:
        """What its outputs are on (a dict), or why that cannot be told now; None: that is known, or not yet."""
        if evaluation.plan.get(cell_rules.MOUNT):
            return None
        services = self.desk.services
        self.desk.assure()
        return self._looks.at(("mount", evaluation.id), lambda: targets.mount(services, evaluation))

    # -- full targets

    def _full(self, view: View) -> TargetFullError | None:
        """What keeps the evaluation's outputs from being written now."""
        answer = self._probe(view)
        return answer if isinstance(answer, TargetFullError) else None

    def _probe(self, view: View) -> object:
        services, evaluation = self.desk.services, view.evaluation
        with services.store.read() as tx:
            project = tx.people.project_by_id(evaluation.project_id).name
            missing = lacks(tx, evaluation.id) if evaluation.state is EvaluationState.PAUSED else (None, 0, 0)
        self.desk.assure()
        return self._looks.at(
            ("target", evaluation.id), lambda: targets.writable(services, evaluation, project, missing)
        )

    def _see_through(self, view: View) -> set[str]:
        """Of a paused one that nobody works on: it goes on when its target takes writes, or says what else it needs."""
        answer = self._probe(view)
        if answer is True:
            return self._apply(view, self._go_on)
        if isinstance(answer, TargetFullError) and answer.cause != view.evaluation.cause:
            return self._apply(view, lambda tx, v: self._pause(tx, v, answer))
        if isinstance(answer, Exception) and not isinstance(answer, TargetFullError):
            raise answer
        return set()

    def _go_on(self, tx: Transaction, view: View) -> set[str]:
        go_on(tx, view.evaluation.id)
        return {"states"}

    def _pause(self, tx: Transaction, view: View, full: TargetFullError) -> set[str]:
        stop_for(tx, view.evaluation, full.to_json())
        return {"states"}

    def _excuse_and_pause(self, tx: Transaction, view: View, full: TargetFullError) -> set[str]:
        assert view.step.blames is not None
        note(tx, view.step.blames, **{dealing.EXCUSED: True})
        return self._pause(tx, view, full)

    # -- the end

    def _finish(self, view: View) -> set[str]:
        # before the end is in the record: nobody looks after an evaluation that has ended
        try:
            self.indexing.write(view.evaluation)
        except TargetFullError as full:
            return self._wait(view, full)
        return self._apply(view, self._end)

    def _wait(self, view: View, full: TargetFullError) -> set[str]:
        """The index cannot be written now: a pause like any other. It is tried again with every look."""
        if self.desk.quiet.due(f"index of evaluation {view.evaluation.id}: {full.cause}"):
            _log.warning("the index of evaluation %d waits: %s", view.evaluation.id, full.message)
        if view.evaluation.state is EvaluationState.PAUSED:
            return set()
        self._apply(view, lambda tx, v: self._pause(tx, v, full))
        return set()

    def _end(self, tx: Transaction, view: View) -> set[str]:
        evaluation, step = view.evaluation, view.step
        assert step.state is not None
        if evaluation.state is EvaluationState.PAUSED and step.state is EvaluationState.SUCCEEDED:
            go_on(tx, evaluation.id)
            evaluation = replace(evaluation, state=EvaluationState.RUNNING)
        good = step.state is EvaluationState.SUCCEEDED
        again = f"Mend the cause, then `headway eval retry {evaluation.id}`; when it is in the code, evaluate anew."
        tx.evaluations.change(
            evaluation.id,
            state=check(EVALUATION_MOVES, evaluation.state, step.state),
            reason=step.reason,
            remedy="" if good else again,
            cause=None,
            ended_at=self.desk.now(),
        )
        for run in view.look.runs.values():
            if run.state in (RunState.QUEUED, RunState.HELD):
                ask_to_stop(self.desk.services, tx, run, f"Evaluation {evaluation.id} has ended.")
        return {"states", "run"}

    # -- forecasts

    def _forecast(self, view: View) -> None:
        """Says what the rest will take, and warns when it will not fit. Never a pause."""
        evaluation, look = view.evaluation, view.look
        valid, left = look.count(CellState.VALID), look.count(*dealing.OPEN_CELLS)
        known, now = evaluation.forecast, time.monotonic()
        if not due(known, valid, left) or (known and now < self._forecasts.get(evaluation.id, 0.0)):
            return
        self._forecasts[evaluation.id] = now + _FORECAST_SECONDS
        services = self.desk.services
        with services.store.read() as tx:
            totals = tx.evaluations.totals(evaluation.id)
            project = tx.people.project_by_id(evaluation.project_id).name
        rooms = self._looks.at(("room", evaluation.id), lambda: targets.rooms(services, evaluation, project))
        seen = totals.counts.get(CellState.VALID, 0)
        if not isinstance(rooms, list) or not seen:
            return
        found = forecast(seen, totals.bytes, totals.files, left, rooms)
        if not found["fits"] and (not known or known["fits"]):
            _log.warning("evaluation %d may not fit: %s", evaluation.id, found["sentence"])
        if found != known:
            with self.desk.apply() as tx:
                tx.evaluations.change(evaluation.id, forecast=found)
