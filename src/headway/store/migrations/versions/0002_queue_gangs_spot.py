"""What the queue, gangs, spot, limits and templates need."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_OBJECT, _LIST = sa.text("'{}'"), sa.text("'[]'")
_QUEUED = sa.text("state = 'queued'")
_BLOCKED = sa.text("blocked")


def _json() -> sa.types.TypeEngine[Any]:
    return sa.JSON().with_variant(postgresql.JSONB(astext_type=sa.Text()), "postgresql")


def _id() -> sa.Column[int]:
    return sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False)


#: table -> (column, type, value in the rows that are there; None: the column may be empty)
_COLUMNS: dict[str, list[tuple[str, sa.types.TypeEngine[Any], sa.TextClause | None]]] = {
    "projects": [("weight", sa.Double(), sa.text("1.0")), ("limits", _json(), _OBJECT)],
    "nodes": [
        ("state", sa.Enum("up", "drained", "lost", name="nodestate", native_enum=False, length=32), sa.text("'up'")),
        ("reason", sa.Text(), sa.text("''")),
        ("notice", sa.Text(), None),
    ],
    "runs": [
        ("nodes", sa.BigInteger(), sa.text("1")),
        ("least", _json(), _OBJECT),
        (
            "billing",
            sa.Enum("on_demand", "spot", "subscription", name="billing", native_enum=False, length=32),
            sa.text("'on_demand'"),
        ),
        ("spot", _json(), _OBJECT),
        ("max_wait", sa.Double(), None),
        ("after", _json(), _LIST),
        ("blocked", sa.Boolean(), sa.text("false")),
        ("position", sa.Double(), sa.text("0.0")),
        ("shape", sa.Text(), sa.text("''")),
        ("queued_at", sa.Double(), sa.text("0.0")),
        ("asked_at", sa.Double(), sa.text("0.0")),
        ("avoid", _json(), _LIST),
        ("limits", _json(), _OBJECT),
        ("retry_rules", _json(), _OBJECT),
        ("reclaims", sa.BigInteger(), sa.text("0")),
        ("pause_at", sa.Double(), None),
        ("tags", _json(), _OBJECT),
        ("template", sa.Text(), None),
    ],
    "attempts": [
        ("reclaim_at", sa.Double(), None),
        ("reclaim_reason", sa.Text(), sa.text("''")),
        ("reclaim_grace", sa.Double(), None),
    ],
    "checkpoints": [
        ("files", sa.BigInteger(), sa.text("1")),
        ("save_seconds", sa.Double(), None),
        ("blocked_seconds", sa.Double(), None),
        ("removed_at", sa.Double(), None),
    ],
}


def upgrade() -> None:
    op.drop_index("ix_runs_queued", table_name="runs")
    for table, columns in _COLUMNS.items():
        with op.batch_alter_table(table) as batch:
            for name, kind, value in columns:
                batch.add_column(sa.Column(name, kind, nullable=value is None, server_default=value))
        with op.batch_alter_table(table) as batch:
            for name, kind, value in columns:
                if value is not None:
                    batch.alter_column(name, existing_type=kind, existing_nullable=False, server_default=None)
    op.execute("UPDATE runs SET position = created_at, queued_at = created_at, asked_at = created_at")
    op.create_index(
        "ix_runs_queued",
        "runs",
        # `state` so that counting needs no look at the rows
        ["project_id", "blocked", "priority", "shape", "position", "state"],
        unique=False,
        sqlite_where=_QUEUED,
        postgresql_where=_QUEUED,
    )
    op.create_index("ix_runs_blocked", "runs", ["id"], unique=False, sqlite_where=_BLOCKED, postgresql_where=_BLOCKED)
    op.create_table(
        "templates",
        _id(),
        sa.Column("project_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_templates_project_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_templates")),
        sa.UniqueConstraint("project_id", "name", name=op.f("uq_templates_project_id_name")),
    )
    op.create_table(
        "template_versions",
        _id(),
        sa.Column("template_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("body", _json(), nullable=False),
        sa.Column("snapshot_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("created_by", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["template_id"], ["templates.id"], name=op.f("fk_template_versions_template_id")),
        sa.ForeignKeyConstraint(["snapshot_id"], ["snapshots.id"], name=op.f("fk_template_versions_snapshot_id")),
        sa.ForeignKeyConstraint(["created_by"], ["users.id"], name=op.f("fk_template_versions_created_by")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_template_versions")),
        sa.UniqueConstraint("template_id", "version", name=op.f("uq_template_versions_template_id_version")),
    )


def downgrade() -> None:
    op.drop_table("template_versions")
    op.drop_table("templates")
    op.drop_index("ix_runs_queued", table_name="runs")
    op.drop_index("ix_runs_blocked", table_name="runs")
    for table, columns in _COLUMNS.items():
        with op.batch_alter_table(table) as batch:
            for name, _, _ in columns:
                batch.drop_column(name)
    op.create_index(
        "ix_runs_queued",
        "runs",
        ["priority", "id"],
        unique=False,
        sqlite_where=_QUEUED,
        postgresql_where=_QUEUED,
    )
