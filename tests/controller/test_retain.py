"""Retention over a real record and real files: what goes, what never does, and what a controller that dies leaves."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from headway.controller.owners import take_in
from headway.controller.retain import PAUSE_SECONDS, Retain
from headway.protocol.files import write_json
from headway.rules.records import Attempt, Checkpoint, Run
from headway.rules.states import AttemptState, CellState, EvaluationState, RunState, VersionState
from headway.storage.publish import file_digest, publish_bytes, publish_tree
from headway.storage.quota import ProjectQuota
from headway.store.area import defaults
from headway.store.base import LeaseLostError
from headway.testing.services import add_checkpoint, start_attempt
from headway.testing.stores import attempt_values

from .conftest import House

LAST = {"retention": {"keep_last": 2}}


def fill(house: House, run: Run, count: int = 5) -> list[Checkpoint]:
    """Published checkpoints of 10 bytes each, and their rows."""
    quota = ProjectQuota(house.ctx.project_folder("default"))
    made = []
    for n in range(1, count + 1):
        path = f"projects/default/jobs/{run.id}/checkpoints/step-{n}.pt"
        done = publish_bytes(f"content {n:02d}".encode(), house.ctx.root / path, kind="any", quota=quota)
        made.append(add_checkpoint(house.ctx, run.id, f"step-{n}.pt", step=n, sha256=done.files[0].sha256, path=path))
    return made


def first_attempt(run: Run) -> Attempt:
    return Attempt(**{**defaults(Attempt), **attempt_values(run, 1)})


def rows(house: House, run: Run) -> list[Checkpoint]:
    with house.ctx.store.read() as tx:
        return tx.products.checkpoints(run.id)


def there(house: House, run: Run) -> list[str]:
    folder = house.ctx.project_folder("default") / "jobs" / str(run.id) / "checkpoints"
    return sorted(p.name for p in folder.iterdir() if not p.name.startswith("."))


def settle(house: House) -> None:
    loop = Retain(house.desk)
    loop.step()
    house.clock.now += PAUSE_SECONDS
    loop.step()


def test_what_the_rule_does_not_keep_goes_and_its_bytes_come_back(house: House) -> None:
    run = house.add_run(work=LAST, state=RunState.SUCCEEDED)
    fill(house, run)
    other = house.add_run(work={}, state=RunState.SUCCEEDED)
    fill(house, other)
    quota = ProjectQuota(house.ctx.project_folder("default"))
    assert quota.usage() == (100, 10)
    loop = Retain(house.desk)
    assert loop.step() == {"states"}
    # marked, so that nobody chooses them any more, and there for a moment still
    assert [c.removed_at is not None for c in rows(house, run)] == [True, True, True, False, False]
    assert len(there(house, run)) == 5
    assert loop.step() == set()
    house.clock.now += PAUSE_SECONDS
    assert loop.step() == {"states"}
    assert there(house, run) == ["step-4.pt", "step-5.pt"] and len(there(house, other)) == 5
    assert quota.usage() == (70, 7)
    first = rows(house, run)[0]
    assert first.path == "" and first.valid and "retention" in first.reason
    assert loop.step() == set()
    assert quota.recount() == (70, 7)


def test_folders_go_too(house: House) -> None:
    run = house.add_run(work={"retention": {"keep_last": 1}}, state=RunState.SUCCEEDED)
    quota = ProjectQuota(house.ctx.project_folder("default"))
    for n in (1, 2):
        source = house.ctx.root / f"source-{n}"
        source.mkdir()
        (source / "a.bin").write_bytes(bytes(n))
        path = f"projects/default/jobs/{run.id}/checkpoints/step-{n}"
        made = publish_tree(source, house.ctx.root / path, outputs=[{"name": "a.bin", "kind": "any"}], quota=quota)
        add_checkpoint(house.ctx, run.id, f"step-{n}", step=n, sha256=made.manifest["key"], path=path, files=2)
    settle(house)
    assert there(house, run) == ["step-2"] and quota.usage()[1] == 2


def register(house: House, run: Run, checkpoint: Checkpoint) -> None:
    with house.ctx.store.begin() as tx:
        model = tx.products.add_model(project_id=run.project_id, name="m", now=1.0)
        tx.products.add_model_version(
            model_id=model.id, version=1, state=VersionState.READY, reason="", path="m", weights="w", format="torch",
            source={"job": run.id, "checkpoint_id": checkpoint.id}, bytes=1, sha256="x", predictor={"entry": "p:P"},
            snapshot_id=None, key=None, created_by=run.submitted_by, created_at=1.0,
        )  # fmt: skip


def evaluate(house: House, run: Run, checkpoint: Checkpoint) -> None:
    with house.ctx.store.begin() as tx:
        evaluation = tx.evaluations.add(
            project_id=run.project_id, name="e", state=EvaluationState.RUNNING, reason="", remedy="", cause=None,
            job_id=run.id, plan={}, pauses=0, rounds=0, key=None, path="e", submitted_by=run.submitted_by,
            created_at=1.0, ended_at=None,
        )  # fmt: skip
        cell: dict[str, Any] = dict.fromkeys(("run_id", "score", "publication", "seconds", "ended_at"))
        cell |= {
            "evaluation_id": evaluation.id, "checkpoint_id": checkpoint.id, "case_id": "a", "key": "k", "scores": {},
            "state": CellState.WAITING, "outputs": [], "path": "p", "ran": 0, "tries": 0, "reason": "",
        }  # fmt: skip
        tx.evaluations.add_cells([cell])


def test_never_what_is_evaluated_registered_or_resumed_from(house: House) -> None:
    run = house.add_run(work={"retention": {"keep_last": 1}})
    made = fill(house, run)
    evaluate(house, run, made[0])
    register(house, run, made[1])
    folder = start_attempt(house.ctx, run.id)
    settle(house)
    # its launch is not written yet: nobody knows which one it resumes from
    assert len(there(house, run)) == 5
    write_json(folder.launch, {"environment": {"RESUME_FROM": str(house.ctx.root / made[2].path)}})
    settle(house)
    assert there(house, run) == ["step-1.pt", "step-2.pt", "step-3.pt", "step-5.pt"]
    with house.ctx.store.begin() as tx:
        tx.runs.change_attempt(f"{run.id}-1", state=AttemptState.ENDED)
        tx.runs.change(run.id, state=RunState.SUCCEEDED)
    settle(house)
    assert there(house, run) == ["step-1.pt", "step-2.pt", "step-5.pt"]


def test_what_an_evaluation_follows_stays_until_it_has_taken_it_in(house: House) -> None:
    run = house.add_run(work={"retention": {"keep_last": 1}}, state=RunState.RUNNING)
    evaluation = house.add_evaluation(0, rows=0, job=run, follow=True, checkpoints="step-[12].pt")
    fill(house, run, 4)
    settle(house)
    assert there(house, run) == ["step-1.pt", "step-2.pt", "step-4.pt"]
    with house.ctx.store.begin() as tx:
        tx.evaluations.change(evaluation.id, state=EvaluationState.STOPPED)
        tx.runs.change(run.id, state=RunState.SUCCEEDED)
    settle(house)
    assert there(house, run) == ["step-4.pt"]


def test_who_came_just_before_the_mark_keeps_it(house: House) -> None:
    run = house.add_run(work={"retention": {"keep_last": 1}}, state=RunState.SUCCEEDED)
    made = fill(house, run, 2)
    loop = Retain(house.desk)
    loop.step()
    evaluate(house, run, made[0])
    house.clock.now += PAUSE_SECONDS
    loop.step()
    first = rows(house, run)[0]
    assert first.removed_at is None and first.reason == "" and len(there(house, run)) == 2


def test_what_was_saved_again_under_its_name_stays(house: House) -> None:
    run = house.add_run(work={"retention": {"keep_last": 1}}, state=RunState.SUCCEEDED)
    made = fill(house, run, 2)
    loop = Retain(house.desk)
    loop.step()
    path = house.ctx.root / made[0].path
    publish_bytes(b"newer", path, kind="any")
    house.clock.now += PAUSE_SECONDS
    loop.step()
    assert path.read_bytes() == b"newer"
    # its event comes last, and it is a checkpoint again
    with house.ctx.store.begin() as tx:
        add = {"event": "checkpoint", "name": "step-1.pt", "path": made[0].path, "step": 9, "valid": True, "bytes": 5}
        event = {**add, "sha256": file_digest(path), "format": "torch", "at": house.clock()}
        take_in(tx, run, first_attempt(run), event, house.clock())
    again = next(c for c in rows(house, run) if c.name == "step-1.pt")
    assert (again.removed_at, again.path, again.step) == (None, made[0].path, 9)


def test_a_late_word_about_a_removed_one_changes_nothing(house: House) -> None:
    run = house.add_run(work={"retention": {"keep_last": 1}}, state=RunState.SUCCEEDED)
    made = fill(house, run, 2)
    settle(house)
    before = rows(house, run)
    event = {"event": "checkpoint", "name": "step-1.pt", "path": made[0].path, "valid": True, "sha256": made[0].sha256}
    with house.ctx.store.begin() as tx:
        take_in(tx, run, first_attempt(run), {**event, "at": house.clock() - PAUSE_SECONDS - 1}, house.clock())
    assert rows(house, run) == before


def test_a_published_one_that_is_told_again_keeps_its_attempt_and_time(house: House) -> None:
    run = house.add_run()
    made = fill(house, run, 1)[0]
    event = {"event": "checkpoint", "name": made.name, "path": made.path, "valid": True, "sha256": made.sha256}
    with house.ctx.store.begin() as tx:
        later = dataclasses.replace(first_attempt(run), id=f"{run.id}-2")
        take_in(tx, run, later, {**event, "at": 77.0, "step": 1, "save_seconds": 2, "files": 1}, 78.0)
    (found,) = rows(house, run)
    assert (found.attempt_id, found.created_at, found.save_seconds) == (made.attempt_id, made.created_at, 2.0)


def test_files_of_ended_attempts_go_with_it(house: House) -> None:
    run = house.add_run(work={"retention": {"keep_last": 1}})
    fill(house, run, 2)
    folder = start_attempt(house.ctx, run.id)
    write_json(folder.launch, {"environment": {}})
    folder.checkpoints.mkdir()
    for name in ("step-1.pt", "step-2.pt"):
        (folder.checkpoints / name).write_bytes(b"x")
    with house.ctx.store.begin() as tx:
        tx.runs.change_attempt(f"{run.id}-1", state=AttemptState.ENDED)
    settle(house)
    assert [p.name for p in folder.checkpoints.iterdir()] == ["step-2.pt"]


def test_a_controller_that_died_anywhere_is_followed_by_one_that_finishes(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = house.add_run(work={"retention": {"keep_last": 1}}, state=RunState.SUCCEEDED)
    fill(house, run, 2)
    quota = ProjectQuota(house.ctx.project_folder("default"))
    Retain(house.desk).step()
    house.clock.now += PAUSE_SECONDS
    # the bytes are gone, and the record does not know
    (house.ctx.root / rows(house, run)[0].path).unlink()
    quota.recount()
    house.desk = house.new_desk("second")
    Retain(house.desk).step()
    assert rows(house, run)[0].path == "" and quota.usage() == (10, 1)


def test_a_stale_lease_removes_nothing(house: House) -> None:
    run = house.add_run(work={"retention": {"keep_last": 1}}, state=RunState.SUCCEEDED)
    fill(house, run, 2)
    stale = Retain(house.desk)
    stale.step()
    house.clock.now += PAUSE_SECONDS
    house.new_desk("second")
    before = house.record()
    with pytest.raises(LeaseLostError):
        stale.step()
    assert house.record() == before and len(there(house, run)) == 2
