"""Services over a real record, folder and object store, and the rows that a controller would make, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headway.protocol.files import AttemptFolder, LogLine
from headway.rules.access import Caller, Role
from headway.rules.records import Checkpoint, Run, Snapshot
from headway.rules.states import AttemptState, RunState
from headway.services import evaluations, first_start
from headway.services.context import Services
from headway.storage import secrets
from headway.storage.objects import open_objects
from headway.store import migrate
from headway.store.base import Store
from headway.store.sqlite import SqliteStore
from headway.testing.stores import attempt_values
from headway.wire.evaluations import EvaluationRequest, EvaluationView

CODE = "c" * 64


class Clock:
    """Stands still until it is moved."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def open_services(home: Path, store: Store | None = None, clock: Clock | None = None) -> Services:
    """Services as after a first start. `home` holds record, root, hints, admin.token and gateway.token."""
    store = store or SqliteStore(home / "headway.db")
    migrate.upgrade(store)
    (home / "root").mkdir(exist_ok=True)
    ctx = Services(
        store=store,
        root=home / "root",
        objects=open_objects(f"file://{home}/root/objects"),
        hints=home / "hints",
        objects_url=f"file://{home}/root/objects",
        secret_key=home / "secret.key",
        clock=clock or Clock(),
    )
    secrets.ensure_key(home / "secret.key")
    first_start.ensure(ctx, admin_file=home / "admin.token", gateway_file=home / "gateway.token")
    return ctx


def caller(ctx: Services, name: str, role: Role | None = None, project: str = "default") -> Caller:
    """A user of that name, made when missing, with that role in the project."""
    with ctx.store.begin() as tx:
        user = tx.people.user(name) or tx.people.add_user(name=name, is_admin=False, now=1.0)
        if role is not None:
            home = tx.people.project(project)
            assert home is not None
            tx.people.set_role(home.id, user.id, role)
    return Caller(user.id, user.name, user.is_admin, user.is_service)


def add_snapshot(ctx: Services, digest: str = CODE, project: str = "default") -> Snapshot:
    """The record of a code snapshot (no bytes)."""
    with ctx.store.begin() as tx:
        home = tx.people.project(project)
        assert home is not None
        return tx.runs.snapshot(home.id, digest) or tx.runs.add_snapshot(
            project_id=home.id, digest=digest, path=f"projects/{project}/snapshots/{digest}.tar", files=1, bytes=1,
            commit="abc", dirty=True, created_at=1.0,
        )  # fmt: skip


def add_checkpoint(ctx: Services, run_id: int, name: str, **changes: Any) -> Checkpoint:
    """A valid checkpoint as the controller records one."""
    values: dict[str, Any] = {
        "attempt_id": f"{run_id}-1", "path": f"projects/default/jobs/{run_id}/checkpoints/{name}", "step": None,
        "epoch": None, "metrics": {}, "bytes": 10, "sha256": name.ljust(64, "0"), "format": "torch", "valid": True,
        "reason": "", "created_at": 1.0,
    }  # fmt: skip
    with ctx.store.begin() as tx:
        return tx.products.put_checkpoint(run_id=run_id, name=name, **{**values, **changes})


def evaluate(ctx: Services, who: Caller, *of_jobs: int, **values: Any) -> EvaluationView:
    """An evaluation of the jobs on two cases with a score each."""
    usual: dict[str, Any] = {
        "name": "e", "jobs": list(of_jobs), "cases": [{"id": "clean"}, {"id": "noise", "parameters": {"s": 1}}],
        "worker": "evaluate.py:Digits", "outputs": [{"name": "score.json", "kind": "json"}], "snapshot": CODE,
    }  # fmt: skip
    return evaluations.create(ctx, who, "default", EvaluationRequest(**{**usual, **values}))


def start_attempt(ctx: Services, run_id: int, **changes: Any) -> AttemptFolder:
    """A further attempt of the run, running, and its folder."""
    with ctx.store.begin() as tx:
        run = tx.runs.get(run_id)
        assert run is not None
        number = run.attempts + 1
        tx.runs.change(run_id, state=RunState.RUNNING, attempts=number, started_at=ctx.clock())
        tx.runs.add_attempt(**attempt_values(run, number, **{"state": AttemptState.RUNNING, **changes}))
    folder = AttemptFolder.of(ctx.root, f"{run_id}-{number}")
    folder.node().path.mkdir(parents=True)
    return folder


def end_run(ctx: Services, run_id: int, state: RunState = RunState.SUCCEEDED) -> Run:
    """Ends the run and its newest attempt."""
    with ctx.store.begin() as tx:
        run = tx.runs.get(run_id)
        assert run is not None
        if run.attempts:
            tx.runs.change_attempt(f"{run_id}-{run.attempts}", state=AttemptState.ENDED, ended_at=ctx.clock())
        tx.runs.change(run_id, state=state, ended_at=ctx.clock())
    return run


def write_lines(path: Path, *texts: str, stream: str = "o") -> None:
    """Appends lines as a runner does."""
    with open(path, "a", encoding="utf-8") as file:
        file.writelines(LogLine(1.5, 0, stream, text).render() for text in texts)
