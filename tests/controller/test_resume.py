"""Which checkpoint an attempt resumes from."""

from __future__ import annotations

import hashlib
import os
import time
from typing import Any

import pytest

from headway.controller import launches
from headway.protocol import names
from headway.rules.records import Run
from headway.storage.publish import publish_bytes, publish_tree
from headway.testing.services import add_checkpoint, start_attempt

from .conftest import House

CONTENT = b"0123456789"
#: what the record knows of it; its file appears at about that time
AS_PUBLISHED = {"sha256": hashlib.sha256(CONTENT).hexdigest(), "created_at": time.time() + 60}


def publish(house: House, run: Run, step: int, **changes: Any) -> str:
    path = f"projects/default/jobs/{run.id}/checkpoints/step-{step}.pt"
    publish_bytes(CONTENT, house.ctx.root / path, kind="any")
    return add_checkpoint(
        house.ctx, run.id, f"step-{step}.pt", step=step, path=path, **{**AS_PUBLISHED, **changes}
    ).path


def publish_folder(house: House, run: Run, step: int) -> str:
    source = house.ctx.root / "source"
    source.mkdir()
    (source / "a.bin").write_bytes(b"0123456789")
    path = f"projects/default/jobs/{run.id}/checkpoints/step-{step}"
    publish_tree(source, house.ctx.root / path, outputs=[{"name": "a.bin", "kind": "any"}])
    size = sum(p.stat().st_size for p in (house.ctx.root / path).iterdir())
    return add_checkpoint(
        house.ctx, run.id, f"step-{step}", step=step, path=path, bytes=size, created_at=time.time()
    ).path


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


def test_one_that_was_written_to_since_is_read_again(house: House, run: Run) -> None:
    first, second = publish(house, run, 1), publish(house, run, 2)
    later = time.time() + 3600
    # touched, and still the same bytes
    os.utime(house.ctx.root / second, (later, later))
    assert resumed(house, run) == second
    (house.ctx.root / second).write_bytes(b"9876543210")
    os.utime(house.ctx.root / second, (later, later))
    assert resumed(house, run) == first
    (house.ctx.root / second).unlink()
    (house.ctx.root / second).symlink_to(house.ctx.root / first)
    assert resumed(house, run) == first
