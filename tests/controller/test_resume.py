"""Which checkpoint an attempt resumes from."""

from __future__ import annotations

from typing import Any

import pytest

from headway.controller import launches
from headway.protocol import names
from headway.rules.records import Run
from headway.storage.publish import publish_bytes, publish_tree
from headway.testing.services import add_checkpoint, start_attempt

from .conftest import House


def publish(house: House, run: Run, step: int, **changes: Any) -> str:
    path = f"projects/default/jobs/{run.id}/checkpoints/step-{step}.pt"
    publish_bytes(b"0123456789", house.ctx.root / path, kind="any")
    return add_checkpoint(house.ctx, run.id, f"step-{step}.pt", step=step, path=path, **changes).path


def publish_folder(house: House, run: Run, step: int) -> str:
    source = house.ctx.root / "source"
    source.mkdir()
    (source / "a.bin").write_bytes(b"0123456789")
    path = f"projects/default/jobs/{run.id}/checkpoints/step-{step}"
    publish_tree(source, house.ctx.root / path, outputs=[{"name": "a.bin", "kind": "any"}])
    size = sum(p.stat().st_size for p in (house.ctx.root / path).iterdir())
    return add_checkpoint(house.ctx, run.id, f"step-{step}", step=step, path=path, bytes=size).path


def resumed(house: House, run: Run) -> str | None:
    with house.ctx.store.read() as tx:
        attempt = tx.runs.attempts(run.id)[-1]
        fresh = tx.runs.get(run.id)
        assert fresh is not None
        launch = launches.build(house.desk, tx, fresh, attempt)
    found = launch.environment.get(names.RESUME_FROM)
    return found.removeprefix(f"{house.ctx.root}/") if found else None


@pytest.fixture
def run(house: House) -> Run:
    made = house.add_run(work={"checkpoints": ["*"]})
    start_attempt(house.ctx, made.id)
    return made


def test_the_newest_that_is_valid_and_there(house: House, run: Run) -> None:
    assert resumed(house, run) is None
    first = publish(house, run, 1)
    assert resumed(house, run) == first
    second = publish(house, run, 2)
    publish(house, run, 3, valid=False, reason="It is cut off.")
    publish(house, run, 4, removed_at=1.0)
    assert resumed(house, run) == second
    folder = publish_folder(house, run, 5)
    assert resumed(house, run) == folder
    # bytes that were lost after it was published
    (house.ctx.root / folder / "a.bin").write_bytes(b"0123")
    assert resumed(house, run) == second
    (house.ctx.root / second).write_bytes(b"")
    assert resumed(house, run) == first
    (house.ctx.root / first).unlink()
    assert resumed(house, run) is None
