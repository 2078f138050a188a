"""Run by Alembic: migrates on the connection, and in the transaction, that `store.migrate` hands over."""

from __future__ import annotations

from alembic import context

from headway.store.tables import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    # SQLite alters most things by copying the table
    render_as_batch=connection.dialect.name == "sqlite",
)
context.run_migrations()
