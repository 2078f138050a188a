"""What has changed in a project since the last look."""

from __future__ import annotations

from headway.rules.access import Action, Caller
from headway.rules.states import ENDED_RUNS, EvaluationState
from headway.services import access, evaluations, views
from headway.services.context import Services

#: newest runs and evaluations that are watched, besides the older ones that have not ended since they were seen
NEWEST = 100
_OPEN = frozenset({EvaluationState.RUNNING, EvaluationState.PAUSED})


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
        #: state of each evaluation when it was told last
        self._states: dict[int, EvaluationState] = {}

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
            for evaluation in sorted(found, key=lambda e: e.id):
                # what has ended and was told does not change, and counting its cells is not free
                if evaluation.state in _OPEN or self._states.get(evaluation.id) != evaluation.state:
                    self._states[evaluation.id] = evaluation.state
                    view = evaluations.view(self._ctx, tx, evaluation, home.name)
                    shown.append(("evaluation", view.id, view.model_dump_json()))
        told = []
        for kind, identity, text in shown:
            if self._told.get((kind, identity)) != text:
                self._told[(kind, identity)] = text
                told.append((kind, text))
        return told
