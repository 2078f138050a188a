"""What evaluations of several jobs, repeats, targets and reuse by key need."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_VALID, _DEALT = sa.text("state = 'valid'"), sa.text("run_id IS NOT NULL")
_ASKED = sa.text("digest <> ''")
_OLD_UNIQUE = ["evaluation_id", "checkpoint_id", "case_id"]
_UNIQUE = [*_OLD_UNIQUE, "repeat"]
_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _json() -> sa.types.TypeEngine[Any]:
    return sa.JSON().with_variant(postgresql.JSONB(astext_type=sa.Text()), "postgresql")


#: table -> (column, type, value in the rows that are there; None: the column may be empty)
_COLUMNS: dict[str, list[tuple[str, sa.types.TypeEngine[Any], sa.TextClause | None]]] = {
    "evaluations": [
        ("jobs", _json(), sa.text("'[]'")),
        ("digest", sa.Text(), sa.text("''")),
        ("follow", sa.Boolean(), sa.text("false")),
        ("target", sa.Text(), None),
        ("forecast", _json(), sa.text("'{}'")),
        ("policy", sa.Text(), sa.text("'side_by_side'")),
    ],
    "cells": [
        ("row", sa.Text(), sa.text("''")),
        ("repeat", sa.BigInteger(), sa.text("0")),
        ("bytes", sa.BigInteger(), sa.text("0")),
        ("files", sa.BigInteger(), sa.text("0")),
        ("cause", sa.Text(), None),
    ],
}
#: what a plan of before did not say
_PLAN: dict[str, Any] = {
    "parameters": {},
    "repeats": 1,
    "seed": 0,
    "command": None,
    "check": None,
    "scorer": None,
    "scores": "file",
    "better": "higher",
    "least_workers": 1,
    "policy": "side_by_side",
    "cell_timeout": None,
    "tries": 2,
    "checkpoints": "all",
    "every": None,
    "best": None,
    "by": None,
    "mode": "min",
    "follow": False,
}


def upgrade() -> None:
    with op.batch_alter_table("evaluations") as batch:
        batch.alter_column("job_id", existing_type=_ID, nullable=True)
    with op.batch_alter_table("cells") as batch:
        batch.drop_constraint("uq_cells_evaluation_id_checkpoint_id_case_id", type_="unique")
    for table, columns in _COLUMNS.items():
        with op.batch_alter_table(table) as batch:
            for name, kind, value in columns:
                batch.add_column(sa.Column(name, kind, nullable=value is None, server_default=value))
        with op.batch_alter_table(table) as batch:
            for name, kind, value in columns:
                if value is not None:
                    batch.alter_column(name, existing_type=kind, existing_nullable=False, server_default=None)
    with op.batch_alter_table("cells") as batch:
        batch.create_unique_constraint("uq_cells_evaluation_id_checkpoint_id_case_id_repeat", _UNIQUE)
    op.create_index(
        "ix_evaluations_digest",
        "evaluations",
        ["project_id", "digest"],
        unique=True,
        sqlite_where=_ASKED,
        postgresql_where=_ASKED,
    )
    op.create_index(
        "ix_cells_key",
        "cells",
        ["key", "evaluation_id", "state"],
        unique=False,
        sqlite_where=_VALID,
        postgresql_where=_VALID,
    )
    op.create_index("ix_cells_run", "cells", ["run_id"], unique=False, sqlite_where=_DEALT, postgresql_where=_DEALT)
    _fill()


def _fill() -> None:
    """The new columns of evaluations and cells that are there."""
    kept = sa.MetaData()
    evaluations = sa.Table(
        "evaluations",
        kept,
        sa.Column("id", _ID),
        sa.Column("job_id", _ID),
        sa.Column("jobs", _json()),
        sa.Column("plan", _json()),
    )
    cells = sa.Table(
        "cells",
        kept,
        sa.Column("id", _ID),
        sa.Column("path", sa.Text()),
        sa.Column("outputs", _json()),
        *(sa.Column(name, kind) for name, kind, _ in _COLUMNS["cells"]),
    )
    connection = op.get_bind()
    for found in connection.execute(sa.select(evaluations.c.id, evaluations.c.job_id, evaluations.c.plan)).all():
        cases = [{"inputs": {}, "expected": None, **case} for case in found.plan.get("cases", [])]
        values = {"jobs": [found.job_id], "plan": {**_PLAN, **found.plan, "cases": cases}}
        connection.execute(sa.update(evaluations).where(evaluations.c.id == found.id).values(**values))
    changes = [
        {
            "which": found.id,
            "row": PurePosixPath(found.path).parent.name,
            "bytes": sum(int(o.get("bytes") or 0) for o in found.outputs),
            "files": len(found.outputs),
        }
        for found in connection.execute(sa.select(cells.c.id, cells.c.path, cells.c.outputs))
    ]
    if changes:
        connection.execute(
            sa.update(cells)
            .where(cells.c.id == sa.bindparam("which"))
            .values({name: sa.bindparam(name) for name in ("row", "bytes", "files")}),
            changes,
        )


def downgrade() -> None:
    op.drop_index("ix_cells_run", table_name="cells")
    op.drop_index("ix_cells_key", table_name="cells")
    op.drop_index("ix_evaluations_digest", table_name="evaluations")
    with op.batch_alter_table("cells") as batch:
        batch.drop_constraint("uq_cells_evaluation_id_checkpoint_id_case_id_repeat", type_="unique")
    for table, columns in _COLUMNS.items():
        with op.batch_alter_table(table) as batch:
            for name, _, _ in columns:
                batch.drop_column(name)
    with op.batch_alter_table("cells") as batch:
        batch.create_unique_constraint("uq_cells_evaluation_id_checkpoint_id_case_id", _OLD_UNIQUE)
    with op.batch_alter_table("evaluations") as batch:
        batch.alter_column("job_id", existing_type=_ID, nullable=False)
