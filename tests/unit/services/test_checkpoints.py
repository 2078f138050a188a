"""The interval adviser over a real record, and the proof of published bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headway.errors import ForbiddenError, NotFoundError, RefusedError
from headway.protocol.causes import Cause
from headway.rules import selection
from headway.rules.access import Caller, Role
from headway.rules.records import Run
from headway.rules.states import AttemptState, RunState
from headway.services import checkpoints, jobs, models, runs
from headway.services.context import Services
from headway.storage.publish import publish_bytes, publish_tree
from headway.testing.services import CODE, add_checkpoint, add_snapshot, caller
from headway.testing.stores import attempt_values
from headway.wire.products import ModelRequest
from headway.wire.runs import JobRequest

HOUR = 3600.0


@pytest.fixture
def worker(ctx: Services) -> Caller:
    return caller(ctx, "worker", Role.MEMBER)


@pytest.fixture
def job(ctx: Services, worker: Caller) -> Run:
    made = jobs.submit(ctx, worker, "default", JobRequest(command=["python", "-V"]))
    with ctx.store.read() as tx:
        found = tx.runs.get(made.id)
    assert found is not None
    return found


def ends(ctx: Services, job: Run, *causes: Cause, hours: float = 3.2, nodes: int = 1) -> None:
    now = ctx.clock()
    with ctx.store.begin() as tx:
        for number, cause in enumerate(causes, 1):
            tx.runs.add_attempt(
                **attempt_values(
                    job, number, state=AttemptState.ENDED, cause=cause, placement=[{"node": "n"}] * nodes,
                    created_at=now - hours * HOUR - 4, launched_at=now - hours * HOUR, ended_at=now,
                )
            )  # fmt: skip


def test_the_advice_in_one_sentence(ctx: Services, worker: Caller, job: Run) -> None:
    ends(ctx, job, *[Cause.NODE_LOST] * 5)
    for n in range(3):
        add_checkpoint(ctx, job.id, f"e-{n}.pt", step=n, save_seconds=2.1, blocked_seconds=0.3, created_at=n * 300.0)
    found = checkpoints.advise(ctx, worker, job.id)
    assert (found.losses, found.node_seconds, found.loss_every) == (5, 16 * HOUR, pytest.approx(3.2 * HOUR))
    assert found.restart_seconds == 4 and found.assumed is False
    assert found.text.startswith(
        "Saving takes 2.1 s, of which training stands still 300 ms; a loss comes every 3h12m (5 losses in 16 h). "
        "The interval that costs least is 83 s"
    )
    assert "(now 300 s, " in found.text
    assert found.overhead < (found.overhead_now or 0)


def test_a_job_on_several_nodes_is_lost_more_often(ctx: Services, worker: Caller, job: Run) -> None:
    ends(ctx, job, Cause.NODE_LOST, Cause.DONE, hours=1, nodes=4)
    add_checkpoint(ctx, job.id, "a.pt", save_seconds=1.0)
    found = checkpoints.advise(ctx, worker, job.id)
    assert (found.losses, found.node_seconds, found.loss_every) == (1, 8 * HOUR, 2 * HOUR)
    assert "of which" not in found.text and "it runs on 4" in found.text and found.now is None


def test_without_a_loss_it_says_what_it_assumes(ctx: Services, worker: Caller, job: Run) -> None:
    add_checkpoint(ctx, job.id, "a.pt", save_seconds=1.0, blocked_seconds=0.1)
    found = checkpoints.advise(ctx, worker, job.id)
    assert found.assumed and "no loss was seen in 0 h, so one every 7d" in found.text


def test_without_a_measured_save_it_says_how_to_measure(ctx: Services, worker: Caller, job: Run) -> None:
    add_checkpoint(ctx, job.id, "a.pt")
    with pytest.raises(RefusedError, match="says how long saving it took") as refused:
        checkpoints.advise(ctx, worker, job.id)
    assert "headway.save_checkpoint" in refused.value.remedy
    with pytest.raises(NotFoundError):
        checkpoints.advise(ctx, caller(ctx, "stranger"), job.id)


def published(ctx: Services, job: Run, name: str = "a.bin") -> Any:
    path = f"projects/default/jobs/{job.id}/checkpoints/{name}"
    made = publish_bytes(b"content", ctx.root / path, kind="any")
    return add_checkpoint(ctx, job.id, name, path=path, sha256=made.files[0].sha256, format="file", bytes=7)


def test_what_is_damaged_is_marked_and_never_used_again(ctx: Services, worker: Caller, job: Run) -> None:
    made = published(ctx, job)
    assert checkpoints.verify(ctx, worker, job.id, "a.bin").valid is True
    (ctx.root / made.path).write_bytes(b"contenT")
    proof = checkpoints.verify(ctx, worker, job.id, "a.bin")
    assert (proof.valid, proof.reason) == (False, "It has other bytes than when it was published.")
    (view,) = runs.checkpoints(ctx, worker, job.id)
    assert (view.valid, view.reason) == (False, proof.reason)
    with pytest.raises(RefusedError, match="is not valid"):
        checkpoints.verify(ctx, worker, job.id, "a.bin")
    with pytest.raises(NotFoundError, match=r"no checkpoint 'b\.bin'"):
        checkpoints.verify(ctx, worker, job.id, "b.bin")
    with pytest.raises(ForbiddenError):
        checkpoints.verify(ctx, caller(ctx, "guest", Role.VIEWER), job.id, "a.bin")


def test_a_folder_and_one_that_is_gone(ctx: Services, worker: Caller, job: Run) -> None:
    source = ctx.root / "source"
    source.mkdir()
    (source / "a.json").write_text(json.dumps({}))
    path = f"projects/default/jobs/{job.id}/checkpoints/step-1"
    made = publish_tree(source, ctx.root / path, outputs=[{"name": "a.json", "kind": "json"}])
    add_checkpoint(ctx, job.id, "step-1", path=path, sha256=made.manifest["key"], format="folder", files=2)
    assert checkpoints.verify(ctx, worker, job.id, "step-1").valid is True
    (ctx.root / path / "a.json").unlink()
    assert checkpoints.verify(ctx, worker, job.id, "step-1").reason == "a.json is gone."
    (ctx.root / published(ctx, job).path).unlink()
    assert checkpoints.verify(ctx, worker, job.id, "a.bin").valid is False


def test_removed_ones_are_shown_and_neither_counted_nor_used(ctx: Services, worker: Caller, job: Run) -> None:
    add_checkpoint(ctx, job.id, "a.pt", removed_at=5.0, path="", reason="Removed.")
    add_checkpoint(ctx, job.id, "b.pt")
    with ctx.store.begin() as tx:
        tx.runs.change(job.id, state=RunState.SUCCEEDED)
    assert jobs.get(ctx, worker, "default", job.id).checkpoints == 1
    first, second = runs.checkpoints(ctx, worker, job.id)
    assert (first.removed_at is None, first.path, second.removed_at) == (False, "", None)
    with ctx.store.read() as tx:
        chosen = selection.choose(tx.products.checkpoints(job.id), {})
        assert [c.name for c in chosen] == ["b.pt"]
        with pytest.raises(RefusedError, match="is not there any more: Removed"):
            selection.require(tx.products.checkpoints(job.id), ["a.pt"], [job.id])
    with pytest.raises(RefusedError, match="was removed"):
        checkpoints.verify(ctx, worker, job.id, "a.pt")


def test_a_folder_is_no_model(ctx: Services, worker: Caller, job: Run) -> None:
    add_snapshot(ctx)
    add_checkpoint(ctx, job.id, "step-1", format="distributed", files=5)
    request = ModelRequest(job=job.id, checkpoint="step-1", predictor="p.py:P", snapshot=CODE)
    with pytest.raises(RefusedError, match="is a folder of 5 files"):
        models.register(ctx, worker, "default", "m", request)
