"""One controller's desk over a real SQLite record, a clock that stands still, and a fake engine named as such."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from headway.controller.loop import Desk
from headway.engines.base import Engine, Observation, Presence
from headway.protocol.exits import Cause, Exit
from headway.protocol.files import AttemptFolder, write_json
from headway.protocol.launch import Launch
from headway.rules.records import Attempt, Node, Run
from headway.services.context import Services
from headway.store.base import Transaction
from headway.testing.services import Clock, open_services
from headway.testing.stores import run_values


class FakeEngine(Engine):
    """Decides nothing and runs nothing: presences are what the test says, and calls are kept."""

    name = "local"

    def __init__(self) -> None:
        self.presence: dict[str, Presence] = {}
        self.calls: list[tuple[str, str]] = []
        self.refuses: OSError | None = None

    def nodes(self, now: float) -> list[Node]:
        return [
            Node(
                name="fake", engine=self.name, address="127.0.0.1", cpus=2.0, memory_bytes=8 << 30, accelerators=[],
                declared=True, seen_at=now,
            )
        ]  # fmt: skip

    def start(self, launch: Launch) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.calls.append(("start", launch.attempt))
        self.presence.setdefault(launch.attempt, Presence.ALIVE)

    def observe(self, attempts: Iterable[str]) -> Mapping[str, Observation]:
        return {a: Observation(self.presence.get(a, Presence.UNKNOWN)) for a in attempts}

    def stop(self, attempt: str, *, grace: float, cause: str, message: str) -> None:
        self.calls.append(("stop", attempt))

    def sweep(self, attempt: str) -> None:
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
def house(tmp_path: Path) -> Iterator[House]:
    clock = Clock()
    ctx = open_services(tmp_path, clock=clock)
    yield House(ctx, clock)
    ctx.store.close()
