"""Cells of evaluations. They come in hundreds of thousands: what is done to many takes few statements."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import sqlalchemy as sa

from headway.rules.cells import NewCell
from headway.rules.records import Cell
from headway.rules.states import CellState, EvaluationState
from headway.store.area import Area, defaults
from headway.store.tables import cells, evaluations

#: ids or keys in one statement; SQLite takes 32,766 values
_CHUNK = 5000
_RESULT = ("score", "scores", "outputs", "path", "seconds", "bytes", "files", "ended_at", "cause")
_JSON = ("scores", "outputs")
#: what a cell that was done elsewhere has of that one
_DONE = (*_RESULT, "publication")
#: of a cell that nobody has tried, as SQL
_WAITING = {
    "state": "'waiting'",
    "scores": "'{}'",
    "outputs": "'[]'",
    "reason": "''",
    **dict.fromkeys(("run_id", "score", "publication", "seconds", "ended_at", "cause"), "NULL"),
    **dict.fromkeys(("ran", "tries", "bytes", "files"), "0"),
}
#: as SQL and no parameter: only then does SQLite see that an index of valid cells will do
_VALID: sa.ColumnElement[Any] = sa.literal_column("'valid'")
#: cells on their way in; source_id: the cell that has done what such a one would do
_fresh = sa.Table(
    "fresh_cells",
    sa.MetaData(),
    sa.Column("number", cells.c.id.type, primary_key=True, autoincrement=True),
    *(sa.Column(name, cells.c[name].type, nullable=False) for name in NewCell._fields),
    sa.Column("source_id", cells.c.id.type),
    prefixes=["TEMPORARY"],
)
_source = cells.alias("source")


class Cells(Area):
    def add_cells(self, rows: Sequence[dict[str, Any]]) -> None:
        """rows: fields of `Cell` but its id, the same ones in each; what has a default may be left out."""
        if rows:
            first = {name: value for name, value in defaults(Cell).items() if name not in rows[0]}
            self._insert_many(cells, [{**first, **row} for row in rows] if first else rows)

    def cell(self, cell_id: int) -> Cell | None:
        return self._one(Cell, sa.select(cells).where(cells.c.id == cell_id))

    def cells(
        self,
        evaluation_id: int,
        states: Collection[CellState] | None = None,
        *,
        after: int = 0,
        limit: int | None = None,
    ) -> list[Cell]:
        """In the order in which they were added, behind the one with id `after`."""
        query = sa.select(cells).where(cells.c.evaluation_id == evaluation_id, cells.c.id > after).order_by(cells.c.id)
        if states is not None:
            query = query.where(cells.c.state.in_(list(states)))
        return self._all(Cell, query if limit is None else query.limit(limit))

    def many_cells(self, cell_ids: Collection[int]) -> list[Cell]:
        """Those of the ids that there are, by id."""
        found: list[Cell] = []
        for part in chunks(sorted(set(cell_ids))):
            found += self._all(Cell, sa.select(cells).where(cells.c.id.in_(part)).order_by(cells.c.id))
        return found

    def dealt(self, run_id: int, states: Collection[CellState]) -> list[Cell]:
        """Cells dealt to a worker run that are in one of `states`."""
        query = sa.select(cells).where(cells.c.run_id == run_id, cells.c.state.in_(list(states)))
        return self._all(Cell, query.order_by(cells.c.id))

    # changes of cells

    def change_cell(self, cell_id: int, **changes: Any) -> None:
        self._update(cells, cells.c.id == cell_id, **changes)

    def change_cells(self, cell_ids: Collection[int], **changes: Any) -> None:
        """The same to each of them."""
        for part in chunks(sorted(cell_ids)):
            self._update(cells, cells.c.id.in_(part), **changes)

    def move_cells(self, places: Sequence[tuple[int, str]]) -> None:
        """(id, path): where each one's output is or comes to."""
        if places:
            statement = sa.update(cells).where(cells.c.id == sa.bindparam("which")).values(path=sa.bindparam("place"))
            self._connection.execute(statement, [{"which": i, "place": path} for i, path in places])

    def publish(self, rows: Sequence[dict[str, Any]]) -> None:
        """Makes cells valid with what was published for them. The same publication told again counts once.

        rows: "cell" (id), "publication", "score", "scores", "outputs", "path", "seconds", "bytes", "files", "ended_at",
        and "cause", which may be left out.
        """
        if not rows:
            return
        again = cells.c.publication.is_not_distinct_from(_bind("publication"))
        statement = (
            sa.update(cells)
            .where(cells.c.id == sa.bindparam("which"))
            .values(
                state=_VALID,
                reason=sa.literal_column("''"),
                ran=cells.c.ran + sa.case((again, sa.literal_column("0")), else_=sa.literal_column("1")),
                publication=_bind("publication"),
                **{name: _bind(name) for name in _RESULT},
            )
        )
        self._many(
            statement,
            [
                {
                    "which": row["cell"],
                    "new_publication": row["publication"],
                    **{f"new_{name}": row.get(name) for name in _RESULT if name not in _JSON},
                    **{f"new_{name}": _json(row[name]) for name in _JSON},
                }
                for row in rows
            ],
        )

    def reset_cells(self, evaluation_id: int) -> None:
        """Makes every cell that is not valid wait again, dealt to nobody, with all its tries before it."""
        where = (cells.c.evaluation_id == evaluation_id) & (cells.c.state != CellState.VALID)
        self._update(cells, where, state=CellState.WAITING, run_id=None, tries=0, reason="", cause=None, ended_at=None)

    def deal(self, cell_ids: Collection[int], run_id: int) -> None:
        self.change_cells(cell_ids, run_id=run_id)

    # cells of the whole project, known by their keys

    def done(self, project_id: int, keys: Collection[str]) -> list[Cell]:
        """Every valid cell of the project with one of the keys."""
        found: list[Cell] = []
        for part in chunks(sorted(set(keys))):
            found += self._all(Cell, _done(project_id).where(cells.c.key.in_(part)).order_by(cells.c.id))
        return found

    def done_keys(self, project_id: int, keys: Collection[str]) -> dict[str, int]:
        """Those of the keys that are done anywhere in the project, with the id of the first cell that did it."""
        found: dict[str, int] = {}
        for part in chunks(sorted(set(keys))):
            query = _done(project_id).with_only_columns(cells.c.key, sa.func.min(cells.c.id))
            rows = self._connection.execute(query.where(cells.c.key.in_(part)).group_by(cells.c.key))
            found.update((row[0], row[1]) for row in rows)
        return found

    def dealt_elsewhere(self, project_id: int, evaluation_id: int) -> set[str]:
        """Keys of what workers of the project's other evaluations, as far as these run, have still to do."""
        query = (
            sa.select(cells.c.key)
            .join(evaluations, evaluations.c.id == cells.c.evaluation_id)
            .where(
                evaluations.c.project_id == project_id,
                evaluations.c.state == EvaluationState.RUNNING,
                evaluations.c.id != evaluation_id,
                cells.c.state.in_([CellState.WAITING, CellState.RUNNING]),
                cells.c.run_id.is_not(None),
            )
        )
        return set(self._connection.execute(query).scalars())

    def add_new(self, project_id: int, evaluation_id: int, rows: Sequence[NewCell]) -> int:
        """Adds cells: those whose keys are done in the project are valid, where that lies, and the rest wait.

        How many were done.
        """
        if not rows:
            return 0
        # in few statements, for there may be 100,000 of them: first beside the record, then from there
        _fresh.create(self._connection, checkfirst=False)
        try:
            self._many(sa.insert(_fresh), [row._asdict() for row in rows], columns=NewCell._fields)
            self._connection.execute(sa.update(_fresh).values(source_id=_first_done(project_id, _fresh.c.key)))
            done = sa.select(sa.func.count()).where(_fresh.c.source_id.is_not(None))
            many = int(self._connection.execute(done).scalar_one())
            waiting: dict[str, sa.ColumnElement[Any]] = {n: sa.literal_column(text) for n, text in _WAITING.items()}
            waiting |= {"evaluation_id": sa.literal_column(str(int(evaluation_id)))}
            waiting |= {name: _fresh.c[name] for name in NewCell._fields}
            valid = waiting | {"state": _VALID, **{name: _source.c[name] for name in _DONE}}
            self._add_fresh(waiting, sa.select(*waiting.values()).where(_fresh.c.source_id.is_(None)))
            self._add_fresh(valid, sa.select(*valid.values()).where(_fresh.c.source_id == _source.c.id))
        finally:
            _fresh.drop(self._connection, checkfirst=False)
        return many

    def _add_fresh(self, names: Iterable[str], found: sa.Select[Any]) -> None:
        self._connection.execute(sa.insert(cells).from_select(list(names), found.order_by(_fresh.c.number)))

    def reuse(self, evaluation_id: int, project_id: int) -> int:
        """Makes the evaluation's waiting cells valid whose key is done in the project, where that lies; how many."""
        first = _first_done(project_id, cells.c.key)
        own = (cells.c.evaluation_id == evaluation_id) & (cells.c.state == CellState.WAITING)
        found = self._connection.execute(sa.select(cells.c.id, first).where(own, first.is_not(None))).all()
        statement = (
            sa.update(cells)
            .where(cells.c.id == sa.bindparam("which"), _source.c.id == sa.bindparam("source_id"))
            .values(state=_VALID, reason=sa.literal_column("''"), run_id=sa.null(), **{n: _source.c[n] for n in _DONE})
        )
        self._many(statement, [{"which": row[0], "source_id": row[1]} for row in found])
        return len(found)


def _done(project_id: int) -> sa.Select[Any]:
    return (
        sa.select(cells)
        .join(evaluations, evaluations.c.id == cells.c.evaluation_id)
        .where(evaluations.c.project_id == project_id, cells.c.state == _VALID)
    )


def _first_done(project_id: int, key: sa.ColumnElement[Any]) -> sa.ScalarSelect[Any]:
    """Id of the first cell of the project that has done what has this key."""
    other = cells.alias("other")
    return (
        sa.select(sa.func.min(other.c.id))
        .select_from(other.join(evaluations, evaluations.c.id == other.c.evaluation_id))
        .where(other.c.key == key, other.c.state == _VALID, evaluations.c.project_id == project_id)
        .scalar_subquery()
    )


def _bind(name: str) -> sa.BindParameter[Any]:
    return sa.bindparam(f"new_{name}", type_=cells.c[name].type)


_json = json.JSONEncoder(ensure_ascii=False).encode


def chunks(values: Sequence[Any]) -> Iterator[list[Any]]:
    waiting = iter(values)
    while part := list(islice(waiting, _CHUNK)):
        yield part
