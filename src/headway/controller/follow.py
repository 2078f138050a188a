"""Evaluations that follow jobs: each new valid checkpoint becomes a row."""

from __future__ import annotations

from headway.rules import cells as cell_rules
from headway.rules import selection
from headway.rules.records import Checkpoint, Evaluation
from headway.store.base import Transaction

Row = tuple[Checkpoint, str]


def wanted(evaluation: Evaluation, job: int, found: list[Checkpoint]) -> list[Checkpoint]:
    """Those of the job's checkpoints that belong to an evaluation which follows it."""
    return selection.choose(found, evaluation.plan) if evaluation.follow and job in evaluation.jobs else []


def new_rows(tx: Transaction, evaluation: Evaluation) -> list[Row]:
    """The checkpoints that came to the followed jobs and have no cell yet, with the names of their rows."""
    if not evaluation.follow:
        return []
    have = tx.evaluations.rows(evaluation.id)
    chosen = [
        checkpoint
        for job in evaluation.jobs
        for checkpoint in wanted(evaluation, job, tx.products.checkpoints(job))
        if checkpoint.id not in have
    ]
    names = selection.row_names(chosen, have.values(), several=len(evaluation.jobs) > 1)
    return [(checkpoint, names[checkpoint.id]) for checkpoint in chosen]


def add(tx: Transaction, evaluation: Evaluation, rows: list[Row]) -> None:
    """Their cells; what is done elsewhere in the project already is valid at once."""
    code = tx.runs.snapshot_by_id(int(evaluation.plan["snapshot_id"]))
    assert code is not None, f"snapshot {evaluation.plan['snapshot_id']} is referred to and not there"
    common = cell_rules.common_digest(evaluation.plan, code.digest)
    columns = cell_rules.columns(evaluation.plan)
    digests = [column.digest for column in columns]
    keys = cell_rules.keys(common, [checkpoint.sha256 for checkpoint, _ in rows], digests)
    new = cell_rules.new_cells(evaluation, rows, columns, keys)
    tx.evaluations.add_new(evaluation.project_id, evaluation.id, new)
