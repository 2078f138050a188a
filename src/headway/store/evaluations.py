"""Evaluations and their cells."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa

from headway.rules.records import Cell, Evaluation
from headway.rules.states import CellState, EvaluationState
from headway.store.area import Area
from headway.store.tables import cells, evaluations


class Evaluations(Area):
    def add(self, **values: Any) -> Evaluation:
        return self._insert(Evaluation, evaluations, **values)

    def get(self, evaluation_id: int) -> Evaluation | None:
        return self._one(Evaluation, sa.select(evaluations).where(evaluations.c.id == evaluation_id))

    def by_key(self, project_id: int, key: str) -> Evaluation | None:
        query = sa.select(evaluations).where(evaluations.c.project_id == project_id, evaluations.c.key == key)
        return self._one(Evaluation, query)

    def listing(self, project_id: int, limit: int = 100) -> list[Evaluation]:
        """Newest first."""
        query = sa.select(evaluations).where(evaluations.c.project_id == project_id)
        return self._all(Evaluation, query.order_by(evaluations.c.id.desc()).limit(limit))

    def active(self) -> list[Evaluation]:
        """Evaluations that a controller has to look after: state running or paused."""
        states = [EvaluationState.RUNNING, EvaluationState.PAUSED]
        return self._all(Evaluation, sa.select(evaluations).where(evaluations.c.state.in_(states)))

    def change(self, evaluation_id: int, **changes: Any) -> None:
        self._update(evaluations, evaluations.c.id == evaluation_id, **changes)

    # cells

    def add_cells(self, rows: Sequence[dict[str, Any]]) -> None:
        """rows: all fields of `Cell` but its id."""
        self._insert_many(cells, rows)

    def cell(self, cell_id: int) -> Cell | None:
        return self._one(Cell, sa.select(cells).where(cells.c.id == cell_id))

    def cells(self, evaluation_id: int, states: Collection[CellState] | None = None) -> list[Cell]:
        query = sa.select(cells).where(cells.c.evaluation_id == evaluation_id).order_by(cells.c.id)
        if states is not None:
            query = query.where(cells.c.state.in_(list(states)))
        return self._all(Cell, query)

    def dealt(self, run_id: int, states: Collection[CellState]) -> list[Cell]:
        """Cells dealt to a worker run that are in one of `states`."""
        query = sa.select(cells).where(cells.c.run_id == run_id, cells.c.state.in_(list(states)))
        return self._all(Cell, query.order_by(cells.c.id))

    def evaluated_checkpoints(self, job_id: int) -> set[int]:
        """Ids of the job's checkpoints that any evaluation has a cell of."""
        query = (
            sa.select(cells.c.checkpoint_id)
            .join(evaluations, evaluations.c.id == cells.c.evaluation_id)
            .where(evaluations.c.job_id == job_id)
            .distinct()
        )
        return {row[0] for row in self._connection.execute(query)}

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

    def change_cell(self, cell_id: int, **changes: Any) -> None:
        self._update(cells, cells.c.id == cell_id, **changes)

    def reset_cells(self, evaluation_id: int) -> None:
        """Makes every cell that is not valid wait again, dealt to nobody, with all its tries before it."""
        where = (cells.c.evaluation_id == evaluation_id) & (cells.c.state != CellState.VALID)
        self._update(cells, where, state=CellState.WAITING, run_id=None, tries=0, reason="", ended_at=None)

    def deal(self, cell_ids: Collection[int], run_id: int) -> None:
        self._update(cells, cells.c.id.in_(list(cell_ids)), run_id=run_id)
