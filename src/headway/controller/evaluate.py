"""Evaluations: deals cells to worker runs, takes in what they publish, pauses and ends.

Eligible: evaluations in state running or paused.
"""

from __future__ import annotations

import json
from typing import Any

from headway.controller.loop import Loop
from headway.protocol import events
from headway.rules import dealing
from headway.rules.records import Cell, Evaluation
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
from headway.storage.publish import publish_bytes
from headway.store.base import Transaction

OWNER = "evaluation"


def take_in(tx: Transaction, evaluation_id: int, event: dict[str, Any]) -> set[str]:
    """One event of a worker's helper."""
    kind = event.get("event")
    if kind == events.CELL_STARTED:
        cell = tx.evaluations.cell(int(event["cell"]))
        if cell is not None and cell.state in (CellState.WAITING, CellState.INVALID):
            tx.evaluations.change_cell(cell.id, state=CellState.RUNNING, tries=cell.tries + 1)
        return set()
    if kind == events.CELL:
        _published(tx, event)
        _go_on(tx, evaluation_id)
        return {"evaluation"}
    if kind == events.CELL_INVALID:
        cell = tx.evaluations.cell(int(event["cell"]))
        if cell is not None and legal(CELL_MOVES, cell.state, CellState.INVALID) and cell.state is not CellState.VALID:
            tx.evaluations.change_cell(
                cell.id, state=CellState.INVALID, reason=str(event.get("reason") or ""), ended_at=float(event["at"])
            )
        return {"evaluation"}
    if kind == events.PAUSED:
        _pause(tx, evaluation_id, event)
        return {"evaluation"}
    if kind == events.RESUMED:
        _go_on(tx, evaluation_id)
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


def _pause(tx: Transaction, evaluation_id: int, event: dict[str, Any]) -> None:
    evaluation = tx.evaluations.get(evaluation_id)
    if evaluation is None or evaluation.state is not EvaluationState.RUNNING:
        return
    tx.evaluations.change(
        evaluation_id,
        state=check(EVALUATION_MOVES, evaluation.state, EvaluationState.PAUSED),
        cause=str(event.get("cause") or ""),
        reason=str(event.get("message") or ""),
        remedy=str(event.get("remedy") or ""),
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
            topics |= self._one(evaluation.id)
        return topics

    def _one(self, evaluation_id: int) -> set[str]:
        with self.desk.apply() as tx:
            evaluation = tx.evaluations.get(evaluation_id)
            if evaluation is None or evaluation.state not in (EvaluationState.RUNNING, EvaluationState.PAUSED):
                return set()
            runs = {r.id: r for r in tx.runs.listing(owner=OWNER, owner_id=evaluation_id, limit=1000)}
            if any(r.state not in ENDED_RUNS for r in runs.values()):
                return set()
            open_cells = tx.evaluations.cells(evaluation_id, dealing.OPEN_CELLS)
            step = dealing.decide(tx.evaluations.counts(evaluation_id), open_cells, runs, evaluation.rounds)
            if step.deal:
                self._deal(tx, evaluation, step.deal)
                return {"run", "states"}
            if step.state is None:
                return set()
            if evaluation.state is EvaluationState.PAUSED and step.state is EvaluationState.SUCCEEDED:
                _go_on(tx, evaluation_id)
            tx.evaluations.change(
                evaluation_id,
                state=step.state,
                reason=step.reason,
                remedy="" if step.state is EvaluationState.SUCCEEDED else "Mend the cause, then retry the evaluation.",
                cause=None,
                ended_at=self.desk.now(),
            )
            cells = tx.evaluations.cells(evaluation_id)
            names = {c.id: c.name for c in tx.products.checkpoints(evaluation.job_id)}
        publish_index(self.desk.services.root / evaluation.path, cells, names)
        return {"states"}

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
