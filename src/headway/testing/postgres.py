"""Records for tests, as pytest fixtures: SQLite, and PostgreSQL on a server of the tests' own.

The server lives in a temporary folder, listens on a Unix socket and is gone afterwards. Import the fixtures into a
`conftest.py`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import pytest
import sqlalchemy as sa

from headway.store.base import Store
from headway.store.postgres import PostgresStore
from headway.store.sqlite import SqliteStore


class PostgresMissing(Exception):
    """There is no PostgreSQL here that could be started; the message says what is missing."""


def programs() -> Path:
    """The folder with `initdb` and `postgres`. Raises PostgresMissing."""
    packaged = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda p: int(p.parts[4]))
    if packaged:
        return packaged[-1].parent
    found = shutil.which("postgres")
    if found is None:
        raise PostgresMissing("PostgreSQL (Debian package postgresql)")
    return Path(found).resolve().parent


def _user() -> pwd.struct_passwd | None:
    """Whom the server runs as: it refuses root."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        raise PostgresMissing("the user postgres, as whom root can start PostgreSQL") from None


@contextmanager
def server() -> Iterator[str]:
    """The URL of a fresh server with the database `postgres`. Raises PostgresMissing."""
    binaries, user = programs(), _user()
    # short: a socket's path may have about a hundred characters
    folder = Path(tempfile.mkdtemp(prefix="hwpg-", dir="/tmp"))
    identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
    if user:
        os.chown(folder, user.pw_uid, user.pw_gid)
    data = folder / "data"

    def call(*words: str) -> None:
        done = subprocess.run(
            words, cwd=folder, capture_output=True, text=True, env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
            **identity,  # type: ignore[call-overload]
        )  # fmt: skip
        if done.returncode:
            log = folder / "log"
            raise PostgresMissing(f"a PostgreSQL that starts: {done.stderr or done.stdout}{_tail(log)}")

    control = [str(binaries / "pg_ctl"), "-D", str(data), "-w", "-s"]
    try:
        call(str(binaries / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8")
        # these are tests: what a crash of the machine would lose does not matter
        options = f"-k {folder} -c listen_addresses= -c fsync=off -c full_page_writes=off -c shared_buffers=32MB"
        call(*control, "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield f"postgresql://postgres@/postgres?host={quote(str(folder), safe='')}"
        finally:
            call(*control, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _tail(log: Path) -> str:
    return f" {log.read_text(errors='replace')[-500:]}" if log.exists() else ""


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """One for all tests; a test that needs it is skipped, by name, where there is none."""
    opened = server()
    try:
        url = opened.__enter__()
    except PostgresMissing as missing:
        pytest.skip(f"needs {missing}")
    yield url
    opened.__exit__(None, None, None)


@contextmanager
def postgres_database(server: str) -> Iterator[Store]:
    """A database of its own without tables, on the server of that URL."""
    name = f"t{uuid4().hex}"
    admin = PostgresStore(server)
    with admin.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    store = PostgresStore(sa.make_url(server).set(database=name).render_as_string(hide_password=False))
    yield store
    store.close()
    with admin.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text(f"DROP DATABASE {name}"))
    admin.close()


@pytest.fixture
def empty_postgres(postgres_server: str) -> Iterator[Store]:
    """A database of its own without tables."""
    with postgres_database(postgres_server) as store:
        yield store


@pytest.fixture
def empty_sqlite(tmp_path: Path) -> Iterator[Store]:
    store = SqliteStore(tmp_path / "headway.db")
    yield store
    store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def empty_store(request: pytest.FixtureRequest) -> Store:
    """A record without tables, of each kind."""
    store: Store = request.getfixturevalue(f"empty_{request.param}")
    return store
