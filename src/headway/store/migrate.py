"""Brings a record's tables to this version of headway, and tells whether they are.

An empty record gets the tables at once and is stamped with the head; one of an earlier version is upgraded by Alembic
(a test holds both ways to the same result). Only that second way imports Alembic, so a server that starts on a record
of its own version never does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import sqlalchemy as sa

from headway.errors import RefusedError
from headway.store.base import Store
from headway.store.tables import metadata

_FOLDER = Path(__file__).parent / "migrations"
_ASSIGNED = re.compile(r"^(revision|down_revision)(?:\s*:[^=]+)?\s*=\s*[\"']?([A-Za-z0-9_]+)[\"']?", re.MULTILINE)
#: Alembic's own table, as it makes it
_version = sa.Table(
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
#: one migration of a PostgreSQL database at a time: any fixed number
_LOCK = 4_807_329


def _revisions() -> Iterator[tuple[str, str]]:
    """(revision, the one before it or "None") of every file in `versions`, read without importing them."""
    for path in (_FOLDER / "versions").glob("*.py"):
        found = dict(_ASSIGNED.findall(path.read_text(encoding="utf-8")))
        if "revision" in found:
            yield found["revision"], found.get("down_revision", "None")


@cache
def known() -> frozenset[str]:
    """Every revision that this headway knows."""
    return frozenset(revision for revision, _ in _revisions())


@cache
def head() -> str:
    """The newest revision: the one that no other follows."""
    before = {down for _, down in _revisions()}
    (found,) = known() - before
    return found


def revision(store: Store) -> str | None:
    """The revision that the record is at; None when it is empty. Raises RefusedError (newer_home)."""
    with store.read() as tx:
        return _revision(tx.connection)


def _revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(_version.name):
        return None
    found = connection.execute(sa.select(_version.c.version_num)).scalar()
    if found is not None and found not in known():
        raise RefusedError(
            f"The record is at revision {found}, which this headway ({head()}) does not know.",
            "It was made by a newer headway: install that one, or use another home.",
            code="newer_home",
        )
    return None if found is None else str(found)


def at_head(store: Store) -> bool:
    """Whether the record needs no migration. Raises RefusedError (newer_home)."""
    return revision(store) == head()


def upgrade(store: Store) -> bool:
    """Brings the record to `head()`, all or nothing; whether anything had to be done.

    Several processes may call it at once: one does it, the others wait. Raises RefusedError (newer_home) and changes
    nothing when the record is of a newer headway.
    """
    if at_head(store):
        return False
    with store.migrating() as tx:
        connection = tx.connection
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
        found = _revision(connection)
        if found == head():
            return False
        if found is None:
            metadata.create_all(connection)
            _version.create(connection)
            connection.execute(sa.insert(_version).values(version_num=head()))
        else:
            run(connection, head())
        return True


def run(connection: sa.Connection, target: str) -> None:
    """Runs Alembic's revisions up to `target` in the connection's open transaction; from an empty record too."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, target)
