"""Evaluations: deals cells to worker runs, takes in what they publish, pauses and ends.

Eligible: evaluations in state running or paused.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from headway.controller.loop import Loop
from headway.protocol import events
from headway.rules import dealing
from headway.rules.records import Cell, Evaluation, Run
from headway.rules.states import (
    CELL_MOVES,
    ENDED_RUNS,
    EVALUATION_MOVES,
    CellState,
    EvaluationState,
    RunState,
    check,
    legal,
)
from headway.storage.full import TargetFullError
from headway.storage.publish import publish_bytes
from headway.store.base import Transaction

OWNER = "evaluation"
_log = logging.getLogger(__name__)


def take_in(tx: Transaction, run: Run, event: dict[str, Any]) -> set[str]:
    """One event of the helper of `run`, a worker."""
    assert run.owner_id is not None
    kind, evaluation_id = event.get("event"), run.owner_id
    if kind == events.CELL_STARTED:
        cell = tx.evaluations.cell(int(event["cell"]))
        if cell is not None and cell.state in (CellState.WAITING, CellState.INVALID):
            tx.evaluations.change_cell(cell.id, state=CellState.RUNNING, tries=cell.tries + 1)
        return set()
    if kind == events.CELL:
        _published(tx, event)
        if not event.get("found"):
            # what was found has been there before: it tells nothing of the target
            _resume(tx, run.id, evaluation_id, float(event["at"]))
        return {"evaluation"}
    if kind == events.CELL_INVALID:
        cell = tx.evaluations.cell(int(event["cell"]))
        if cell is not None and legal(CELL_MOVES, cell.state, CellState.INVALID) and cell.state is not CellState.VALID:
            tx.evaluations.change_cell(
                cell.id, state=CellState.INVALID, reason=str(event.get("reason") or ""), ended_at=float(event["at"])
            )
        return {"evaluation"}
    if kind == events.PAUSED:
        _pause(tx, run.id, evaluation_id, event)
        return {"evaluation"}
    if kind == events.RESUMED:
        _resume(tx, run.id, evaluation_id, float(event["at"]))
        return {"evaluation"}
    return set()


def _published(tx: Transaction, event: dict[str, Any]) -> None:
    cell = tx.evaluations.cell(int(event["cell"]))
    if cell is None:
        return
    publication = str(event["publication"])
    # the same publication told again (a helper was restarted) is the same output, not another one
    new = publication != cell.publication
    tx.evaluations.change_cell(
        cell.id,
        state=cell.state if cell.state is CellState.VALID else check(CELL_MOVES, cell.state, CellState.VALID),
        publication=publication,
        ran=cell.ran + int(new),
        score=event.get("score"),
        scores=event.get("scores") or {},
        outputs=event.get("outputs") or [],
        path=str(event.get("path") or cell.path),
        reason="",
        seconds=event.get("seconds"),
        ended_at=float(event["at"]),
    )


# Workers meet the same full target, each in its own time, and their events are taken in worker by worker. So the times
# in the events decide: one from before the evaluation last paused or went on is no news. Each worker run keeps, among
# its owner's notes, when it last moved its evaluation.
_MOVED = "moved_at"


def _last_move(tx: Transaction, evaluation_id: int) -> float:
    runs = tx.runs.listing(owner=OWNER, owner_id=evaluation_id, limit=1000)
    return max((float(run.work.get(_MOVED, 0.0)) for run in runs), default=0.0)


def _note_move(tx: Transaction, run_id: int, at: float) -> None:
    # read anew: an earlier event of the same batch may have written it
    if (run := tx.runs.get(run_id)) is not None:
        tx.runs.change(run_id, work={**run.work, _MOVED: at})


def _pause(tx: Transaction, run_id: int, evaluation_id: int, event: dict[str, Any]) -> None:
    evaluation, at = tx.evaluations.get(evaluation_id), float(event["at"])
    if evaluation is None or evaluation.state is not EvaluationState.RUNNING or at < _last_move(tx, evaluation_id):
        return
    _note_move(tx, run_id, at)
    _stop_for(tx, evaluation, event)


def _resume(tx: Transaction, run_id: int, evaluation_id: int, at: float) -> None:
    evaluation = tx.evaluations.get(evaluation_id)
    if evaluation is None or evaluation.state is not EvaluationState.PAUSED or at < _last_move(tx, evaluation_id):
        return
    _note_move(tx, run_id, at)
    _go_on(tx, evaluation_id)


def _stop_for(tx: Transaction, evaluation: Evaluation, full: dict[str, Any]) -> None:
    """full: cause, message and remedy, as `TargetFullError.to_json` has them."""
    tx.evaluations.change(
        evaluation.id,
        state=check(EVALUATION_MOVES, evaluation.state, EvaluationState.PAUSED),
        cause=str(full.get("cause") or ""),
        reason=str(full.get("message") or ""),
        remedy=str(full.get("remedy") or ""),
        pauses=evaluation.pauses + 1,
    )


def _go_on(tx: Transaction, evaluation_id: int) -> None:
    evaluation = tx.evaluations.get(evaluation_id)
    if evaluation is not None and evaluation.state is EvaluationState.PAUSED:
        tx.evaluations.change(
            evaluation_id,
            state=check(EVALUATION_MOVES, evaluation.state, EvaluationState.RUNNING),
            cause=None,
            reason="",
            remedy="",
        )


class Evaluate(Loop):
    name = "evaluate"
    topics = frozenset({"evaluation"})
    interval = 2.0

    def step(self) -> set[str]:
        with self.desk.services.store.read() as tx:
            due = tx.evaluations.active()
        topics: set[str] = set()
        for evaluation in due:
            with self.desk.isolated(f"evaluation {evaluation.id}"):
                topics |= self._one(evaluation.id)
        return topics

    def _one(self, evaluation_id: int) -> set[str]:
        with self.desk.services.store.read() as tx:
            evaluation, step = self._decide(tx, evaluation_id)
            if evaluation is None or step is None:
                return set()
            self.desk.assure(tx)
            cells = tx.evaluations.cells(evaluation_id)
            names = {c.id: c.name for c in tx.products.checkpoints(evaluation.job_id)}
        if step.state is not None:
            # before the end is in the record: nobody looks after an evaluation that has ended
            try:
                publish_index(self.desk.services.root / evaluation.path, cells, names)
            except TargetFullError as full:
                return self._wait(evaluation, full)
        with self.desk.apply() as tx:
            if self._decide(tx, evaluation_id) != (evaluation, step):
                return {"evaluation"}  # something came in between; it is looked at anew
            if step.state is None:
                self._deal(tx, evaluation, step.deal)
                return {"run", "states"}
            self._end(tx, evaluation, step)
        return {"states"}

    def _decide(self, tx: Transaction, evaluation_id: int) -> tuple[Evaluation | None, dealing.Step | None]:
        """The evaluation and what is to be done with it; None when there is nothing to do now."""
        evaluation = tx.evaluations.get(evaluation_id)
        if evaluation is None or evaluation.state not in (EvaluationState.RUNNING, EvaluationState.PAUSED):
            return evaluation, None
        runs = {r.id: r for r in tx.runs.listing(owner=OWNER, owner_id=evaluation_id, limit=1000)}
        if any(r.state not in ENDED_RUNS for r in runs.values()):
            return evaluation, None
        open_cells = tx.evaluations.cells(evaluation_id, dealing.OPEN_CELLS)
        step = dealing.decide(tx.evaluations.counts(evaluation_id), open_cells, runs, evaluation.rounds)
        return evaluation, step if step.deal or step.state is not None else None

    def _wait(self, evaluation: Evaluation, full: TargetFullError) -> set[str]:
        """The index cannot be written now: a pause like any other. It is tried again with every look."""
        if self.desk.quiet.due(f"index of evaluation {evaluation.id}: {full.cause}"):
            _log.warning("the index of evaluation %d waits: %s", evaluation.id, full.message)
        if evaluation.state is EvaluationState.PAUSED:
            return set()
        with self.desk.apply() as tx:
            if tx.evaluations.get(evaluation.id) == evaluation:
                _stop_for(tx, evaluation, full.to_json())
        return {"states"}

    def _end(self, tx: Transaction, evaluation: Evaluation, step: dealing.Step) -> None:
        if evaluation.state is EvaluationState.PAUSED and step.state is EvaluationState.SUCCEEDED:
            _go_on(tx, evaluation.id)
        tx.evaluations.change(
            evaluation.id,
            state=step.state,
            reason=step.reason,
            remedy=""
            if step.state is EvaluationState.SUCCEEDED
            else f"Mend the cause, then `headway eval retry {evaluation.id}`; when it is in the code, evaluate anew.",
            cause=None,
            ended_at=self.desk.now(),
        )

    def _deal(self, tx: Transaction, evaluation: Evaluation, cells: list[Cell]) -> None:
        plan = evaluation.plan
        spec = tx.runs.spec(plan["spec"])
        assert spec is not None, f"spec {plan['spec']} is referred to and not there"
        for number, part in enumerate(dealing.deal(cells, int(plan["workers"])), start=1):
            run = tx.runs.add(
                **new_run(
                    project_id=evaluation.project_id,
                    owner=OWNER,
                    owner_id=evaluation.id,
                    name=f"{evaluation.name} worker {number}",
                    command=["python", "-m", "headway.script.worker", plan["worker"]],
                    environment=plan.get("environment") or {},
                    spec=spec.name,
                    cpus=spec.cpus,
                    memory_bytes=spec.memory_bytes,
                    accelerators=spec.accelerators,
                    accelerator_kind=spec.accelerator_kind,
                    max_duration=plan.get("max_duration"),
                    retries=int(plan.get("retries", 3)),
                    snapshot_id=plan["snapshot_id"],
                    datasets=plan.get("datasets") or [],
                    work={"evaluation": evaluation.id, "round": evaluation.rounds + 1},
                    submitted_by=evaluation.submitted_by,
                    now=self.desk.now(),
                )
            )
            tx.evaluations.deal([c.id for c in part], run.id)
        tx.evaluations.change(evaluation.id, rounds=evaluation.rounds + 1)


def new_run(*, now: float, **given: Any) -> dict[str, Any]:
    """The fields of a run that an owner adds, with the rest at their beginning."""
    return {
        "state": RunState.QUEUED,
        "reason": "",
        "parameters": {},
        "processes": 1,
        "priority": 5,
        "grace": 30.0,
        "attempts": 0,
        "losses": 0,
        "key": None,
        "created_at": now,
        "started_at": None,
        "ended_at": None,
        "exit_code": None,
        "cause": None,
        "stop_at": None,
        "stop_reason": "",
        **given,
    }


def publish_index(folder: Any, cells: list[Cell], names: dict[int, str]) -> None:
    """`index.jsonl` beside the outputs: one line a cell, enough to rebuild the record. Not counted by the quota."""
    lines = [
        json.dumps(
            {
                "cell": cell.id,
                "checkpoint": names.get(cell.checkpoint_id),
                "case": cell.case_id,
                "key": cell.key,
                "state": cell.state.value,
                "score": cell.score,
                "scores": cell.scores,
                "path": cell.path,
                "outputs": cell.outputs,
                "publication": cell.publication,
                "reason": cell.reason,
            },
            ensure_ascii=False,
        )
        for cell in cells
    ]
    publish_bytes(("\n".join(lines) + "\n").encode(), folder / "index.jsonl", kind="file")
