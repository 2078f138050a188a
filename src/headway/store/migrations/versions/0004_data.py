"""Datasets in packs that the record knows, pushes, connections, and where a project's data lies."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_LARGE = sa.text("pack_id IS NULL")
_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _json() -> sa.types.TypeEngine[Any]:
    return sa.JSON().with_variant(postgresql.JSONB(astext_type=sa.Text()), "postgresql")


def _column(name: str, kind: sa.types.TypeEngine[Any], *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=nullable)


def _primary() -> sa.Column[Any]:
    return sa.Column("id", _ID, autoincrement=True, nullable=False)


def _refers(table: str, column: str, target: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{target}.id"], name=f"fk_{table}_{column}")


#: table -> (column, type, value in the rows that are there; None: the column may be empty)
_COLUMNS: dict[str, list[tuple[str, sa.types.TypeEngine[Any], sa.TextClause | None]]] = {
    "projects": [("storage", sa.Text(), None), ("connection_id", _ID, None), ("regions", _json(), sa.text("'[]'"))],
    "datasets": [("numbers", sa.BigInteger(), sa.text("0"))],
    "dataset_versions": [("parents", _json(), sa.text("'[]'")), ("sent_bytes", sa.BigInteger(), sa.text("0"))],
}


def upgrade() -> None:
    _new_tables()
    for table, columns in _COLUMNS.items():
        with op.batch_alter_table(table) as batch:
            for name, kind, value in columns:
                batch.add_column(sa.Column(name, kind, nullable=value is None, server_default=value))
        with op.batch_alter_table(table) as batch:
            for name, kind, value in columns:
                if value is not None:
                    batch.alter_column(name, existing_type=kind, existing_nullable=False, server_default=None)
    with op.batch_alter_table("projects") as batch:
        batch.create_foreign_key("fk_projects_connection_id", "connections", ["connection_id"], ["id"])
    op.execute(
        "UPDATE datasets SET numbers = "
        "COALESCE((SELECT MAX(version) FROM dataset_versions WHERE dataset_id = datasets.id), 0)"
    )


def _new_tables() -> None:
    op.create_table(
        "connections",
        _primary(),
        _column("name", sa.Text()),
        _column("kind", sa.Text()),
        _column("endpoint", sa.Text()),
        _column("region", sa.Text()),
        _column("options", _json()),
        _column("secret", sa.Text()),
        _column("created_by", _ID),
        _column("created_at", sa.Double()),
        _column("changed_at", sa.Double()),
        _refers("connections", "created_by", "users"),
        sa.PrimaryKeyConstraint("id", name="pk_connections"),
        sa.UniqueConstraint("name", name="uq_connections_name"),
    )
    op.create_table(
        "stored_objects",
        _primary(),
        _column("project_id", _ID),
        _column("kind", sa.Text()),
        _column("name", sa.Text()),
        _column("bytes", sa.BigInteger()),
        _column("files", sa.BigInteger()),
        _column("state", sa.String(32)),
        _column("created_at", sa.Double()),
        _column("touched_at", sa.Double()),
        _refers("stored_objects", "project_id", "projects"),
        sa.PrimaryKeyConstraint("id", name="pk_stored_objects"),
        sa.UniqueConstraint("project_id", "kind", "name", name="uq_stored_objects_project_id_kind_name"),
    )
    op.create_table(
        "contents",
        _column("project_id", _ID),
        _column("sha256", sa.LargeBinary()),
        _column("bytes", sa.BigInteger()),
        _column("pack_id", _ID, nullable=True),
        _column("offset", sa.BigInteger(), nullable=True),
        _column("parts", _json()),
        _refers("contents", "project_id", "projects"),
        _refers("contents", "pack_id", "stored_objects"),
        sa.PrimaryKeyConstraint("project_id", "sha256", name="pk_contents"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_contents_pack_id", "contents", ["pack_id"])
    op.create_index("ix_contents_large", "contents", ["project_id"], sqlite_where=_LARGE, postgresql_where=_LARGE)
    op.create_table(
        "pushes",
        _primary(),
        _column("project_id", _ID),
        _column("name", sa.Text()),
        _column("source", sa.Text()),
        _column("created_by", _ID),
        _column("created_at", sa.Double()),
        _column("touched_at", sa.Double()),
        _column("state", sa.String(32)),
        _column("version_id", _ID, nullable=True),
        _column("sent_bytes", sa.BigInteger()),
        _refers("pushes", "project_id", "projects"),
        _refers("pushes", "created_by", "users"),
        _refers("pushes", "version_id", "dataset_versions"),
        sa.PrimaryKeyConstraint("id", name="pk_pushes"),
    )
    op.create_index("ix_pushes_project", "pushes", ["project_id", "state"])


def downgrade() -> None:
    with op.batch_alter_table("projects") as batch:
        batch.drop_constraint("fk_projects_connection_id", type_="foreignkey")
    for table, columns in _COLUMNS.items():
        with op.batch_alter_table(table) as batch:
            for name, _, _ in columns:
                batch.drop_column(name)
    for table in ("pushes", "contents", "stored_objects", "connections"):
        op.drop_table(table)
