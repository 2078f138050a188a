"""One controller's desk over a real SQLite record, a clock that stands still, and a fake engine named as such."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from headway.controller import follow
from headway.controller.loop import Desk
from headway.engines.base import Engine, NodeObservation, Observation, Presence
from headway.protocol.exits import Cause, Exit
from headway.protocol.files import AttemptFolder, write_json
from headway.protocol.launch import Launch
from headway.rules.records import Attempt, Cell, Evaluation, Node, Run
from headway.rules.states import CellState, EvaluationState, RunState
from headway.services.context import Services
from headway.store.base import Transaction
from headway.testing.services import Clock, add_checkpoint, add_snapshot, open_services
from headway.testing.stores import run_values

#: what is published for a cell
DONE: dict[str, Any] = {
    "scores": {}, "outputs": [], "path": "p", "seconds": 1.0, "bytes": 10, "files": 2, "ended_at": 1.0,
}  # fmt: skip


class FakeEngine(Engine):
    """Decides nothing and runs nothing: presences are what the test says, and calls are kept."""

    name = "local"

    def __init__(self) -> None:
        self.presence: dict[str, Presence] = {}
        self.calls: list[tuple[str, str]] = []
        self.refuses: OSError | None = None
        #: called before each start
        self.at_start: Callable[[], None] = lambda: None
        #: grace periods and causes of the stops
        self.graces: list[float] = []
        self.causes: list[str] = []
        #: what attempts of several nodes look like, node by node
        self.nodes_of: dict[str, list[NodeObservation]] = {}
        self.amended: list[tuple[str, dict[str, Any]]] = []

    def nodes(self, now: float) -> list[Node]:
        return [
            Node(
                name="fake", engine=self.name, address="127.0.0.1", cpus=2.0, memory_bytes=8 << 30, accelerators=[],
                declared=True, seen_at=now,
            )
        ]  # fmt: skip

    def start(self, launch: Launch) -> None:
        self.at_start()
        if self.refuses is not None:
            raise self.refuses
        self.calls.append(("start", launch.attempt))
        self.presence.setdefault(launch.attempt, Presence.ALIVE)

    def observe(self, attempts: Iterable[str]) -> Mapping[str, Observation]:
        return {
            a: Observation.of(self.nodes_of[a])
            if a in self.nodes_of
            else Observation(self.presence.get(a, Presence.UNKNOWN))
            for a in attempts
        }

    def stop(self, attempt: str, *, grace: float, cause: str, message: str) -> None:
        self.calls.append(("stop", attempt))
        self.graces.append(grace)
        self.causes.append(cause)

    def amend(self, attempt: str, changes: Mapping[str, Any]) -> None:
        self.calls.append(("amend", attempt))
        self.amended.append((attempt, dict(changes)))

    def sweep(self, attempt: str, node: int | None = None, *, lost: bool = False) -> None:
        self.calls.append(("sweep", attempt))


class House:
    """The desk and what a runner would do."""

    def __init__(self, ctx: Services, clock: Clock) -> None:
        self.ctx, self.clock, self.engine = ctx, clock, FakeEngine()
        self.desk = self.new_desk("first")

    def new_desk(self, holder: str) -> Desk:
        """A controller that takes the lease from whoever has it."""
        desk = Desk(self.ctx, self.engine, f"file://{self.ctx.root}/objects", self.ctx.root.parent / "cache")
        with self.ctx.store.begin() as tx:
            current = tx.leases.current("controller")
            if current is not None:
                tx.leases.release(current)
            desk.lease = tx.leases.acquire("controller", holder, now=self.clock(), seconds=15.0)
            tx.runs.put_nodes(self.engine.name, self.engine.nodes(self.clock()))
        return desk

    def add_run(self, **changes: Any) -> Run:
        with self.ctx.store.begin() as tx:
            project, user = tx.people.project("default"), tx.people.user("admin")
            assert project is not None and user is not None
            return tx.runs.add(**run_values(project, user, **{"memory_bytes": 1 << 30, **changes}))

    def add_evaluation(
        self,
        cells: int = 1,
        state: CellState = CellState.VALID,
        *,
        rows: int = 1,
        job: Run | None = None,
        **changes: Any,
    ) -> Evaluation:
        """One of a job with `rows` checkpoints, with so many cells of each, and no worker yet."""
        job = job or self.add_run(state=RunState.SUCCEEDED)
        code = add_snapshot(self.ctx)
        found = [add_checkpoint(self.ctx, job.id, f"{chr(ord('a') + i)}.pt", step=i) for i in range(rows)]
        plan: dict[str, Any] = {
            "cases": [{"id": f"case-{i}"} for i in range(cells)], "spec": "small", "workers": 2, "worker": "e.py:E",
            "snapshot_id": code.id, "outputs": [{"name": "out.txt"}], "score": "score", "score_file": "score.json",
        }  # fmt: skip
        own = {f.name for f in dataclasses.fields(Evaluation)}
        plan |= {name: value for name, value in changes.items() if name not in own}
        with self.ctx.store.begin() as tx:
            evaluation = tx.evaluations.add(**{
                "project_id": job.project_id, "name": "e", "state": EvaluationState.RUNNING, "reason": "", "remedy": "",
                "cause": None, "job_id": job.id, "jobs": [job.id], "plan": plan, "pauses": 0, "rounds": 0, "key": None,
                "path": "", "submitted_by": job.submitted_by, "created_at": 1.0, "ended_at": None,
                "digest": f"digest-{job.id}-{len(tx.evaluations.listing(job.project_id))}",
                **{name: value for name, value in changes.items() if name in own},
            })  # fmt: skip
            tx.evaluations.change(evaluation.id, path=f"projects/default/evaluations/{evaluation.id}")
            made = tx.evaluations.get(evaluation.id)
            assert made is not None
            follow.add(tx, made, [(c, c.name.removesuffix(".pt")) for c in found])
            ids = [cell.id for cell in tx.evaluations.cells(made.id)]
            if state is CellState.VALID:
                tx.evaluations.publish([{"cell": i, "publication": f"first-{i}", "score": 1.0} | DONE for i in ids])
            elif state is not CellState.WAITING:
                tx.evaluations.change_cells(ids, state=state)
        return made

    def cells(self, evaluation_id: int) -> list[Cell]:
        with self.ctx.store.read() as tx:
            return tx.evaluations.cells(evaluation_id)

    def workers(self, evaluation_id: int) -> list[Run]:
        """Oldest first."""
        with self.ctx.store.read() as tx:
            return tx.runs.listing(owner="evaluation", owner_id=evaluation_id)[::-1]

    def change_run(self, run_id: int, **changes: Any) -> None:
        with self.ctx.store.begin() as tx:
            tx.runs.change(run_id, **changes)

    def evaluation(self, evaluation_id: int) -> Evaluation:
        with self.ctx.store.read() as tx:
            found = tx.evaluations.get(evaluation_id)
        assert found is not None
        return found

    def run(self, run_id: int) -> Run:
        with self.ctx.store.read() as tx:
            found = tx.runs.get(run_id)
        assert found is not None
        return found

    def attempt(self, attempt_id: str) -> Attempt:
        with self.ctx.store.read() as tx:
            found = tx.runs.attempt(attempt_id)
        assert found is not None
        return found

    def record(self) -> list[tuple[str, list[Any]]]:
        """Every row of every table but the leases: equal records are the same record."""
        from headway.store.tables import metadata

        def rows(tx: Transaction, table: Any) -> list[Any]:
            return [tuple(map(str, row)) for row in tx.connection.execute(table.select())]

        with self.ctx.store.read() as tx:
            return [(t.name, rows(tx, t)) for t in metadata.sorted_tables if t.name != "leases"]

    def report(self, attempt: str, *events: dict[str, Any]) -> None:
        folder = AttemptFolder.of(self.ctx.root, attempt).node(0)
        folder.path.mkdir(parents=True, exist_ok=True)
        with open(folder.events, "a", encoding="utf-8") as file:
            file.writelines(json.dumps({"at": self.clock(), **event}) + "\n" for event in events)

    def end(self, attempt: str, cause: Cause = Cause.DONE, code: int | None = 0) -> None:
        now = self.clock()
        folder = AttemptFolder.of(self.ctx.root, attempt).node(0)
        folder.path.mkdir(parents=True, exist_ok=True)
        write_json(folder.exit, Exit(cause, code, None, None, "", now - 10, now - 9, now).to_json())
        self.engine.presence[attempt] = Presence.ENDED


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    # on a machine that is busy every look is a long one, and the next step would pass it over
    monkeypatch.setattr("headway.controller.evaluate._LONG_LOOK", math.inf)
    clock = Clock()
    ctx = open_services(tmp_path, clock=clock)
    yield House(ctx, clock)
    ctx.store.close()
