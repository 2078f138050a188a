"""Versions of datasets that were found damaged."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

#: table -> (column, type, value in the rows that are there; None: the column may be empty)
_COLUMNS: dict[str, list[tuple[str, sa.types.TypeEngine[Any], sa.TextClause | None]]] = {
    "dataset_versions": [("damaged", sa.Boolean(), sa.text("false"))],
}


def upgrade() -> None:
    for table, columns in _COLUMNS.items():
        with op.batch_alter_table(table) as batch:
            for name, kind, value in columns:
                batch.add_column(sa.Column(name, kind, nullable=value is None, server_default=value))
        with op.batch_alter_table(table) as batch:
            for name, kind, value in columns:
                if value is not None:
                    batch.alter_column(name, existing_type=kind, existing_nullable=False, server_default=None)


def downgrade() -> None:
    for table, columns in _COLUMNS.items():
        with op.batch_alter_table(table) as batch:
            for name, _, _ in columns:
                batch.drop_column(name)
