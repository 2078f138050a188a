"""Evaluations, and sums over their cells."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from headway.rules.records import Checkpoint, Evaluation
from headway.rules.states import CellState, EvaluationState
from headway.store.area import defaults
from headway.store.cells import Cells, chunks
from headway.store.tables import cells, checkpoints, evaluations

#: fields of the index, in their order; nothing is decoded that is to be encoded again
_INDEX: dict[str, sa.ColumnElement[Any]] = {
    "cell": cells.c.id,
    "job": checkpoints.c.run_id,
    "checkpoint": checkpoints.c.name,
    "checkpoint_id": cells.c.checkpoint_id,
    "sha256": checkpoints.c.sha256,
    "row": cells.c.row,
    "case": cells.c.case_id,
    "repeat": cells.c.repeat,
    "key": cells.c.key,
    "state": sa.type_coerce(cells.c.state, sa.Text),
    "score": cells.c.score,
    "scores": sa.cast(cells.c.scores, sa.Text),
    "path": cells.c.path,
    "outputs": sa.cast(cells.c.outputs, sa.Text),
    **{
        name: cells.c[name]
        for name in ("publication", "bytes", "files", "ran", "tries", "reason", "cause", "seconds", "ended_at")
    },
}


@dataclass(frozen=True)
class Totals:
    """Sums over an evaluation's cells; `bytes`, `files` and `reused` are those of the valid ones."""

    counts: dict[CellState, int]
    ran: int
    bytes: int
    files: int
    #: valid without having been run for this evaluation
    reused: int


@dataclass(frozen=True)
class Coverage:
    """Cells by state, of each row (a checkpoint's id) and each column (a case's id and the repeat)."""

    rows: dict[int, dict[CellState, int]]
    columns: dict[tuple[str, int], dict[CellState, int]]


class Evaluations(Cells):
    def add(self, **values: Any) -> Evaluation:
        return self._insert(Evaluation, evaluations, **{**defaults(Evaluation), **values})

    def get(self, evaluation_id: int) -> Evaluation | None:
        return self._one(Evaluation, sa.select(evaluations).where(evaluations.c.id == evaluation_id))

    def by_key(self, project_id: int, key: str) -> Evaluation | None:
        query = sa.select(evaluations).where(evaluations.c.project_id == project_id, evaluations.c.key == key)
        return self._one(Evaluation, query)

    def by_digest(self, project_id: int, digest: str) -> Evaluation | None:
        """The one that was asked for with this digest."""
        query = sa.select(evaluations).where(evaluations.c.project_id == project_id, evaluations.c.digest == digest)
        return self._one(Evaluation, query)

    def listing(self, project_id: int, limit: int = 100) -> list[Evaluation]:
        """Newest first."""
        query = sa.select(evaluations).where(evaluations.c.project_id == project_id)
        return self._all(Evaluation, query.order_by(evaluations.c.id.desc()).limit(limit))

    def active(self) -> list[Evaluation]:
        """Evaluations that a controller has to look after: state running or paused."""
        states = [EvaluationState.RUNNING, EvaluationState.PAUSED]
        return self._all(Evaluation, sa.select(evaluations).where(evaluations.c.state.in_(states)))

    def active_ids(self) -> list[int]:
        """The ids of those, without their plans, which may be long."""
        states = [EvaluationState.RUNNING, EvaluationState.PAUSED]
        query = sa.select(evaluations.c.id).where(evaluations.c.state.in_(states)).order_by(evaluations.c.id)
        return list(self._connection.execute(query).scalars())

    def state(self, evaluation_id: int) -> EvaluationState | None:
        found = self._scalar(sa.select(evaluations.c.state).where(evaluations.c.id == evaluation_id))
        return None if found is None else EvaluationState(found)

    def change(self, evaluation_id: int, **changes: Any) -> None:
        self._update(evaluations, evaluations.c.id == evaluation_id, **changes)

    def checkpoints(self, evaluation_id: int) -> dict[int, Checkpoint]:
        """The checkpoints that the evaluation has cells of, by id."""
        rows = sa.select(cells.c.checkpoint_id).where(cells.c.evaluation_id == evaluation_id).distinct()
        found = self._all(Checkpoint, sa.select(checkpoints).where(checkpoints.c.id.in_(rows)))
        return {c.id: c for c in found}

    def rows(self, evaluation_id: int) -> dict[int, str]:
        """Names of the rows by their checkpoints' ids."""
        query = sa.select(cells.c.checkpoint_id, cells.c.row).where(cells.c.evaluation_id == evaluation_id).distinct()
        return {row[0]: row[1] for row in self._connection.execute(query)}

    def case_seconds(self, evaluation_id: int) -> dict[str, float]:
        """How long valid cells took, a mean for each case that has any that tells."""
        query = sa.select(cells.c.case_id, sa.func.avg(cells.c.seconds)).where(
            cells.c.evaluation_id == evaluation_id, cells.c.state == CellState.VALID, cells.c.seconds.is_not(None)
        )
        return {row[0]: float(row[1]) for row in self._connection.execute(query.group_by(cells.c.case_id))}

    def evaluated_checkpoints(self, job_id: int) -> set[int]:
        """Ids of the job's checkpoints that any evaluation has a cell of."""
        of_job = sa.select(checkpoints.c.id).where(checkpoints.c.run_id == job_id)
        query = sa.select(cells.c.checkpoint_id).where(cells.c.checkpoint_id.in_(of_job)).distinct()
        return {row[0] for row in self._connection.execute(query)}

    # sums

    def counts(self, evaluation_id: int) -> dict[CellState, int]:
        rows = self._connection.execute(
            sa.select(cells.c.state, sa.func.count())
            .where(cells.c.evaluation_id == evaluation_id)
            .group_by(cells.c.state)
        )
        return {row[0]: row[1] for row in rows}

    def ran(self, evaluation_id: int) -> int:
        """Outputs published for the evaluation's cells, ever."""
        total = self._scalar(sa.select(sa.func.sum(cells.c.ran)).where(cells.c.evaluation_id == evaluation_id))
        return int(total or 0)

    def tally(self, evaluation_id: int) -> dict[tuple[CellState, int | None], int]:
        """Cells by state and the worker run that they were dealt to."""
        rows = self._connection.execute(
            sa.select(cells.c.state, cells.c.run_id, sa.func.count())
            .where(cells.c.evaluation_id == evaluation_id)
            .group_by(cells.c.state, cells.c.run_id)
        )
        return {(row[0], row[1]): row[2] for row in rows}

    def totals(self, evaluation_id: int) -> Totals:
        """All sums in one look at the cells."""
        unrun = sa.func.sum(sa.case((cells.c.ran == 0, 1), else_=0))
        sums = (sa.func.sum(cells.c.ran), sa.func.sum(cells.c.bytes), sa.func.sum(cells.c.files), unrun)
        rows = self._connection.execute(
            sa.select(cells.c.state, sa.func.count(), *sums)
            .where(cells.c.evaluation_id == evaluation_id)
            .group_by(cells.c.state)
        ).all()
        valid = next((row for row in rows if row[0] is CellState.VALID), (CellState.VALID, 0, 0, 0, 0, 0))
        return Totals(
            counts={row[0]: row[1] for row in rows},
            ran=sum(int(row[2]) for row in rows),
            bytes=int(valid[3]),
            files=int(valid[4]),
            reused=int(valid[5]),
        )

    def tallies(self, evaluation_ids: Collection[int]) -> dict[int, dict[CellState, int]]:
        """Cells by state of each of them, from the index alone; one without cells is left out."""
        found: dict[int, dict[CellState, int]] = {}
        for part in chunks(sorted(set(evaluation_ids))):
            rows = self._connection.execute(
                sa.select(cells.c.evaluation_id, cells.c.state, sa.func.count())
                .where(cells.c.evaluation_id.in_(part))
                .group_by(cells.c.evaluation_id, cells.c.state)
            )
            for row in rows:
                found.setdefault(row[0], {})[row[1]] = row[2]
        return found

    def coverage(self, evaluation_id: int) -> Coverage:
        found = Coverage({}, {})
        own = cells.c.evaluation_id == evaluation_id
        by_row = sa.select(cells.c.checkpoint_id, cells.c.state, sa.func.count()).where(own)
        for row in self._connection.execute(by_row.group_by(cells.c.checkpoint_id, cells.c.state)):
            found.rows.setdefault(row[0], {})[row[1]] = row[2]
        by_column = sa.select(cells.c.case_id, cells.c.repeat, cells.c.state, sa.func.count()).where(own)
        for row in self._connection.execute(by_column.group_by(cells.c.case_id, cells.c.repeat, cells.c.state)):
            found.columns.setdefault((row[0], row[1]), {})[row[2]] = row[3]
        return found

    def index(self, evaluation_id: int) -> list[dict[str, Any]]:
        """What the index beside the outputs says of each cell, by id; `scores` and `outputs` are JSON texts."""
        rows = self._connection.execute(
            sa.select(*(column.label(name) for name, column in _INDEX.items()))
            .join_from(cells, checkpoints, checkpoints.c.id == cells.c.checkpoint_id, isouter=True)
            .where(cells.c.evaluation_id == evaluation_id)
            .order_by(cells.c.id)
        )
        names = tuple(rows.keys())
        return [dict(zip(names, row, strict=True)) for row in rows]
