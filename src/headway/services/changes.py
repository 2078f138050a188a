"""What has changed in a project since the last look."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from headway.rules.access import Action, Caller
from headway.rules.records import Evaluation, Run
from headway.rules.states import ENDED_RUNS, CellState, EvaluationState
from headway.services import access, evaluation_views, views
from headway.services.context import Services
from headway.store.base import Transaction

#: newest runs and evaluations that are watched, besides the older ones that have not ended since they were seen
NEWEST = 100
_OPEN = frozenset({EvaluationState.RUNNING, EvaluationState.PAUSED})
#: counting the cells of what has ended takes at most one part in so many of a reader's time
SHARE = 20.0


class Watch:
    """One reader's view of a project. Not safe for several threads at once."""

    def __init__(self, ctx: Services, caller: Caller, project: str) -> None:
        self._ctx = ctx
        self._caller = caller
        self._project = project
        #: what the reader was told last, as JSON: {("run", id): ...}
        self._told: dict[tuple[str, int], str] = {}
        self._open_runs: set[int] = set()
        self._open_evaluations: set[int] = set()
        #: what the newest view of each ended evaluation was made from
        self._seen: dict[int, object] = {}
        self._counts: dict[int, dict[CellState, int]] = {}
        #: when cells of ended evaluations may be counted again
        self._count_at = 0.0

    def check(self) -> None:
        """Raises NotFoundError or ForbiddenError unless the reader may look."""
        with self._ctx.store.read() as tx:
            access.project(tx, self._caller, self._project, Action.VIEW)

    def look(self) -> list[tuple[str, str]]:
        """("run" or "evaluation", view as JSON) of each that is new or different, oldest first.

        Raises NotFoundError or ForbiddenError when the reader has no part in the project (any more).
        """
        with self._ctx.store.read() as tx:
            home = access.project(tx, self._caller, self._project, Action.VIEW)
            newest = tx.runs.listing(project_id=home.id, limit=NEWEST)
            older = self._open_runs - {r.id for r in newest}
            runs = sorted([*newest, *tx.runs.many(older)], key=lambda r: r.id)
            self._open_runs = {r.id for r in runs if r.state not in ENDED_RUNS}
            shown = [("run", v.id, v.model_dump_json()) for v in views.runs(self._ctx, tx, runs)]
            found = tx.evaluations.listing(home.id, limit=NEWEST)
            lost = [tx.evaluations.get(i) for i in self._open_evaluations - {e.id for e in found}]
            found += [e for e in lost if e is not None]
            self._open_evaluations = {e.id for e in found if e.state in _OPEN}
            for evaluation in self._different(tx, sorted(found, key=lambda e: e.id), runs):
                view = evaluation_views.evaluation(self._ctx, tx, evaluation, home.name)
                shown.append(("evaluation", view.id, view.model_dump_json()))
        told = []
        for kind, identity, text in shown:
            if self._told.get((kind, identity)) != text:
                self._told[(kind, identity)] = text
                told.append((kind, text))
        return told

    def _different(self, tx: Transaction, found: Sequence[Evaluation], runs: Sequence[Run]) -> list[Evaluation]:
        """Those that are open, and of the ended ones, whose views are not free, those that may look otherwise by now.

        What has ended still changes: `verify` finds damage, `adopt` fills cells, the last workers end.
        """
        ended = [e for e in found if e.state not in _OPEN]
        self._count(tx, ended)
        workers: dict[int | None, list[object]] = {}
        for run in runs:
            if run.owner == evaluation_views.OWNER:
                workers.setdefault(run.owner_id, []).append((run.id, run.state))
        different = [e for e in found if e.state in _OPEN]
        for evaluation in ended:
            made_from = replace(evaluation, plan={}), self._counts.get(evaluation.id), workers.get(evaluation.id)
            if self._seen.get(evaluation.id) != made_from:
                self._seen[evaluation.id] = made_from
                different.append(evaluation)
        return sorted(different, key=lambda e: e.id)

    def _count(self, tx: Transaction, ended: Sequence[Evaluation]) -> None:
        """Cells by state: now, or later when that was done a short while ago (it is looked again in any case)."""
        began = time.monotonic()
        if began >= self._count_at:
            self._counts = tx.evaluations.tallies([e.id for e in ended])
            now = time.monotonic()
            self._count_at = now + SHARE * (now - began)
