"""What every area of queries shares: rows in, frozen values out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, TypeVar

import sqlalchemy as sa

T = TypeVar("T")


def defaults(kind: type[Any]) -> dict[str, Any]:
    """The fields of a record that have a default, with it."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING:
            found[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            found[field.name] = field.default_factory()
    return found


class Area:
    """Queries of one area on one transaction's connection; made by `Transaction`, never kept beyond it."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def _one(self, kind: type[T], statement: sa.Executable) -> T | None:
        result = self._connection.execute(statement)
        names, row = result.keys(), result.first()
        return None if row is None else kind(**dict(zip(names, row, strict=True)))

    def _all(self, kind: type[T], statement: sa.Executable) -> list[T]:
        result = self._connection.execute(statement)
        names = tuple(result.keys())
        # several times as fast as mappings: the scheduler reads hundreds of rows a second, of 60 columns each
        return [kind(**dict(zip(names, row, strict=True))) for row in result]

    def _scalar(self, statement: sa.Executable) -> Any:
        return self._connection.execute(statement).scalar()

    def _insert(self, kind: type[T], table: sa.Table, /, **values: Any) -> T:
        """Inserts and returns the row as stored, generated id included."""
        # values apart from the statement: with some 60 columns, binding them into it takes longer than the insert
        result = self._connection.execute(sa.insert(table).returning(table), values)
        return kind(**dict(zip(result.keys(), result.one(), strict=True)))

    def _insert_many(self, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
        if rows:
            self._connection.execute(sa.insert(table), list(rows))

    def _many(
        self, statement: sa.Insert | sa.Update, rows: Sequence[dict[str, Any]], *, columns: Sequence[str] | None = None
    ) -> None:
        """Runs the statement with each of the rows, whose values are as the driver has them: JSON is text.

        Ten times as fast as SQLAlchemy's way with many values in a row. columns: those of an insert that rows have.
        """
        if not rows:
            return
        compiled: Any = statement.compile(dialect=self._connection.dialect, column_keys=columns)
        names = compiled.positiontup
        values: Any = list(map(itemgetter(*names), rows)) if names is not None else list(rows)
        self._connection.exec_driver_sql(str(compiled), values)

    def _update(self, table: sa.Table, where: sa.ColumnElement[bool], **changes: Any) -> int:
        """Changes the rows that `where` names and returns how many there were."""
        return self._connection.execute(sa.update(table).where(where).values(**changes)).rowcount
