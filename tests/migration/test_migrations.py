"""Migrations make exactly the tables that the code knows, and a record of a newer headway is left alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from headway.errors import RefusedError
from headway.services.first_start import SPECS
from headway.store import migrate
from headway.store.base import Store
from headway.store.sqlite import SqliteStore
from headway.store.tables import metadata


def differences(store: Store) -> list[object]:
    with store.read() as tx:
        context = MigrationContext.configure(tx.connection, opts={"compare_type": True, "compare_server_default": True})
        return list(compare_metadata(context, metadata))


def shape(store: Store) -> str:
    """Everything that the database says about its tables."""
    with store.read() as tx:
        found = sa.inspect(tx.connection)
        tables = {
            table: (
                [(c["name"], str(c["type"]), c["nullable"]) for c in found.get_columns(table)],
                sorted(found.get_indexes(table), key=str),
                found.get_pk_constraint(table),
                sorted(found.get_foreign_keys(table), key=str),
                sorted(found.get_unique_constraints(table), key=str),
            )
            for table in sorted(found.get_table_names())
        }
    return json.dumps(tables, indent=1, default=str)


def by_alembic(store: Store) -> None:
    """Every revision in turn, from nothing."""
    with store.begin() as tx:
        migrate.run(tx.connection, migrate.head())


def test_the_revisions_make_the_tables_of_the_code(empty_store: Store) -> None:
    by_alembic(empty_store)
    assert differences(empty_store) == []
    assert migrate.at_head(empty_store)


def test_the_short_way_for_a_new_record_is_the_same_as_the_long_one(
    empty_sqlite: Store, empty_postgres: Store, tmp_path: Path
) -> None:
    by_alembic(empty_sqlite)
    other = SqliteStore(tmp_path / "other.db")
    assert migrate.upgrade(other)
    assert shape(other) == shape(empty_sqlite)
    other.close()
    assert migrate.upgrade(empty_postgres)
    short = shape(empty_postgres)
    with empty_postgres.begin() as tx:
        for table in (*reversed(metadata.sorted_tables), migrate._version):
            table.drop(tx.connection)
    by_alembic(empty_postgres)
    assert shape(empty_postgres) == short


def test_an_upgrade_is_done_once_and_keeps_what_is_there(empty_store: Store) -> None:
    assert migrate.revision(empty_store) is None
    assert not migrate.at_head(empty_store)
    assert migrate.upgrade(empty_store)
    with empty_store.begin() as tx:
        tx.runs.put_spec(SPECS[0])
    assert not migrate.upgrade(empty_store)
    assert migrate.revision(empty_store) == migrate.head()
    with empty_store.read() as tx:
        assert tx.runs.specs() == [SPECS[0]]


def test_a_newer_record_is_refused_and_not_touched(empty_store: Store) -> None:
    migrate.upgrade(empty_store)
    with empty_store.begin() as tx:
        tx.connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    before = shape(empty_store)
    asks: list[Callable[[Store], object]] = [migrate.upgrade, migrate.at_head, migrate.revision]
    for ask in asks:
        with pytest.raises(RefusedError) as refused:
            ask(empty_store)
        assert refused.value.code == "newer_home"
        assert "9999" in refused.value.message
    assert shape(empty_store) == before


def test_a_migration_that_fails_leaves_nothing(empty_store: Store) -> None:
    with pytest.raises(RuntimeError), empty_store.begin() as tx:
        migrate.run(tx.connection, migrate.head())
        raise RuntimeError
    assert migrate.revision(empty_store) is None
    assert migrate.upgrade(empty_store)


def test_there_is_one_line_of_revisions() -> None:
    assert migrate.head() in migrate.known()
    downs = [down for _, down in migrate._revisions()]
    assert len(downs) == len(set(downs))


def test_a_start_on_a_record_of_this_version_does_not_import_alembic(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from headway.store.sqlite import SqliteStore; "
        "from headway.store import migrate; s = SqliteStore(Path(sys.argv[1])); "
        "migrate.upgrade(s); migrate.upgrade(s); assert migrate.at_head(s); print('alembic' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "h.db")], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_evaluations_of_before_are_whole_afterwards(empty_store: Store) -> None:
    """A cell's row, bytes and files come from what its record had; its evaluation's jobs and plan too."""
    with empty_store.begin() as tx:
        migrate.run(tx.connection, "0002")
        kept = sa.MetaData()
        kept.reflect(tx.connection)

        def add(table: str, **values: object) -> None:
            columns = kept.tables[table].columns
            zero = {"JSON": {}, "JSONB": {}, "BOOLEAN": False, "TEXT": "", "VARCHAR": "queued"}
            first = {c.name: zero.get(c.type.__visit_name__.upper(), 1) for c in columns if not c.nullable}
            tx.connection.execute(sa.insert(kept.tables[table]), {**first, **values})

        add("projects", name="p")
        add("users", name="u")
        add("runs")
        add("checkpoints", name="epoch-1.pt")
        plan = {"cases": [{"id": "c", "parameters": {"s": 1}, "tags": []}], "worker": "e.py:E", "workers": 3}
        add("evaluations", state="running", plan=plan)
        outputs = [{"name": "a", "bytes": 3}, {"name": "b", "bytes": 4}]
        add("cells", state="valid", case_id="c", path="projects/p/evaluations/1/outputs/epoch-1/c", outputs=outputs)
    assert migrate.upgrade(empty_store)
    with empty_store.read() as tx:
        found = tx.evaluations.get(1)
        assert found is not None
        assert (found.jobs, found.digest, found.follow, found.policy) == ([1], "", False, "side_by_side")
        assert found.plan["cases"] == [{"id": "c", "inputs": {}, "parameters": {"s": 1}, "expected": None, "tags": []}]
        assert (found.plan["workers"], found.plan["repeats"], found.plan["tries"]) == (3, 1, 2)
        (cell,) = tx.evaluations.cells(1)
        assert (cell.row, cell.repeat, cell.bytes, cell.files, cell.cause) == ("epoch-1", 0, 7, 2, None)
