"""Evaluations: dealt, seen through pauses and ended by one controller, whoever dies and whatever comes late."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from headway.controller import evaluate, targets
from headway.controller.evaluate import Evaluate
from headway.protocol.exits import Cause
from headway.rules import dealing
from headway.rules.records import Evaluation
from headway.rules.states import AttemptState, Billing, CellState, EvaluationState, RunState
from headway.storage import indexes, staging
from headway.storage.full import TargetFullError
from headway.store.base import LeaseLostError
from headway.testing.services import add_checkpoint
from headway.testing.stores import attempt_values

from .conftest import DONE, House

WAITING, VALID, INVALID = CellState.WAITING, CellState.VALID, CellState.INVALID
LOST = {"state": RunState.FAILED, "cause": Cause.KILLED, "reason": "Killed.", "ended_at": 1.0}
EXIT = {"state": RunState.FAILED, "cause": Cause.EXIT, "reason": "8 cells in a row failed alike: no.", "ended_at": 1.0}
ENDED = {"state": RunState.SUCCEEDED, "ended_at": 1.0}


def publish(house: House, evaluation: Evaluation, *cells: int) -> None:
    with house.ctx.store.begin() as tx:
        rows = [{"cell": i, "publication": f"p-{i}", "score": 0.5} | DONE for i in cells]
        tx.evaluations.publish(rows)


class Killed(BaseException):
    pass


# dealing


def test_cells_are_dealt_once_to_workers_that_end_together(house: House) -> None:
    evaluation = house.add_evaluation(3, WAITING, rows=4)
    loop = Evaluate(house.desk)
    assert "run" in loop.step()
    workers = house.workers(evaluation.id)
    assert [w.state for w in workers] == [RunState.QUEUED] * 2
    dealt = [[c.checkpoint_id for c in house.cells(evaluation.id) if c.run_id == w.id] for w in workers]
    assert [len(d) for d in dealt] == [6, 6] and not set(dealt[0]) & set(dealt[1])
    before = house.record()
    assert loop.step() == set()
    assert house.record() == before
    assert workers[0].command == ["python", "-m", "headway.script.worker"]


@pytest.mark.parametrize(
    ("asked", "runs"), [({"workers": 8}, 2), ({"workers": 8, "least_workers": 5}, 5), ({"workers": 1}, 1)]
)
def test_workers_are_as_many_as_the_nodes_hold_within_the_range(house: House, asked: Any, runs: int) -> None:
    # the one node has two CPUs
    evaluation = house.add_evaluation(10, WAITING, **asked)
    Evaluate(house.desk).step()
    assert len(house.workers(evaluation.id)) == runs


def test_a_stale_lease_deals_and_ends_nothing(house: House) -> None:
    waiting, done = house.add_evaluation(2, WAITING), house.add_evaluation()
    stale = Evaluate(house.desk)
    house.new_desk("second")
    before = house.record()
    with pytest.raises(LeaseLostError):
        stale.step()
    assert house.record() == before
    assert not (house.ctx.root / done.path / indexes.INDEX).exists()
    assert house.workers(waiting.id) == []


def test_of_two_controllers_one_deals(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluation = house.add_evaluation(2, WAITING)
    slow, prepare = Evaluate(house.desk), evaluate.deals.prepare

    def other_first(*given: Any) -> Any:
        found = prepare(*given)
        monkeypatch.undo()
        Evaluate(house.new_desk("second")).step()
        return found

    monkeypatch.setattr(evaluate.deals, "prepare", other_first)
    with pytest.raises(LeaseLostError):
        slow.step()
    assert len(house.workers(evaluation.id)) == 2


def test_a_worker_that_was_lost_too_often_is_followed_by_another_round(house: House) -> None:
    evaluation = house.add_evaluation(1, WAITING, workers=1)
    loop = Evaluate(house.desk)
    loop.step()
    house.change_run(house.workers(evaluation.id)[0].id, **LOST)
    loop.step()
    runs = house.workers(evaluation.id)
    assert [r.state for r in runs] == [RunState.FAILED, RunState.QUEUED]
    assert house.cells(evaluation.id)[0].run_id == runs[1].id
    assert house.evaluation(evaluation.id).rounds == 2


def test_rounds_that_bring_nothing_come_to_an_end(house: House) -> None:
    evaluation = house.add_evaluation(1, WAITING, workers=1)
    loop = Evaluate(house.desk)
    for _ in range(dealing.ROUNDS_LIMIT + 1):
        loop.step()
        house.change_run(house.workers(evaluation.id)[-1].id, **LOST)
    loop.step()
    found = house.evaluation(evaluation.id)
    assert found.state is EvaluationState.FAILED and "1 cells are left after 20 rounds" in found.reason


def test_what_one_worker_left_is_dealt_beside_the_other_that_lives(house: House) -> None:
    evaluation = house.add_evaluation(2, WAITING, rows=2)
    loop = Evaluate(house.desk)
    loop.step()
    first, second = house.workers(evaluation.id)
    house.change_run(second.id, state=RunState.RUNNING)
    house.change_run(first.id, **ENDED)
    loop.step()
    third = house.workers(evaluation.id)[2]
    owners = [c.run_id for c in house.cells(evaluation.id)]
    assert sorted(owners) == [second.id] * 2 + [third.id] * 2


def test_the_circuit_breaker_ends_it_with_its_sentence_and_leaves_the_rest_waiting(house: House) -> None:
    evaluation = house.add_evaluation(2, WAITING, workers=1)
    loop = Evaluate(house.desk)
    loop.step()
    (worker,) = house.workers(evaluation.id)
    with house.ctx.store.begin() as tx:
        tx.evaluations.change_cell(house.cells(evaluation.id)[0].id, state=INVALID, reason="no", cause="exit")
    house.change_run(worker.id, **EXIT)
    loop.step()
    found = house.evaluation(evaluation.id)
    assert found.state is EvaluationState.FAILED
    assert found.reason == f"Worker run {worker.id} failed: 8 cells in a row failed alike: no."
    assert f"headway eval retry {evaluation.id}" in found.remedy
    assert [c.state for c in house.cells(evaluation.id)] == [INVALID, WAITING]


def test_what_another_evaluation_did_meanwhile_is_not_run_again(house: House) -> None:
    job = house.add_run(state=RunState.SUCCEEDED)
    first = house.add_evaluation(2, WAITING, job=job)
    second = house.add_evaluation(2, WAITING, job=job, name="other")
    a = house.cells(first.id)
    assert [c.key for c in a] == [c.key for c in house.cells(second.id)]
    publish(house, first, a[0].id)
    with house.ctx.store.begin() as tx:
        tx.evaluations.change(first.id, state=EvaluationState.STOPPED)
        tx.evaluations.change(second.id, rounds=1)
    Evaluate(house.desk).step()
    found = house.cells(second.id)
    assert [c.state for c in found] == [VALID, WAITING]
    assert (found[0].ran, found[0].publication) == (0, f"p-{a[0].id}")


def test_what_another_evaluation_is_doing_is_not_run_beside_it(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Evaluate, "interval", 0.0)
    job = house.add_run(state=RunState.SUCCEEDED)
    first = house.add_evaluation(3, WAITING, job=job, workers=1)
    loop = Evaluate(house.desk)
    loop.step()
    second = house.add_evaluation(4, WAITING, job=job, name="other", workers=3)
    loop.step()
    # the case that the first one does not have
    assert [c.run_id is None for c in house.cells(second.id)] == [True, True, True, False]
    a = house.cells(first.id)
    publish(house, first, a[0].id)
    before = [w.id for w in house.workers(second.id)]
    loop.step()
    assert [c.state for c in house.cells(second.id)] == [VALID, WAITING, WAITING, WAITING]
    assert [w.id for w in house.workers(second.id)] == before
    with house.ctx.store.begin() as tx:
        tx.evaluations.change(first.id, state=EvaluationState.STOPPED)
    loop.step()
    found = house.cells(second.id)
    assert found[1].run_id not in (None, *before) and found[2].run_id not in (None, *before)
    assert [c.ran for c in found] == [0, 0, 0, 0]


def test_cells_of_a_checkpoint_that_is_gone_fail_and_those_of_a_changed_one_get_its_key(house: House) -> None:
    evaluation = house.add_evaluation(1, WAITING, rows=3)
    with house.ctx.store.begin() as tx:
        gone, changed, _ = tx.evaluations.checkpoints(evaluation.id).values()
        tx.products.change_checkpoint(gone, removed_at=5.0)
    add_checkpoint(house.ctx, evaluation.jobs[0], changed.name, step=1, sha256="f" * 64)
    before = [c.key for c in house.cells(evaluation.id)]
    Evaluate(house.desk).step()
    found = house.cells(evaluation.id)
    assert [c.state for c in found] == [INVALID, WAITING, WAITING]
    assert (found[0].cause, found[0].reason) == ("load", "Checkpoint a.pt is not there any more.")
    assert [c.key == b for c, b in zip(found, before, strict=True)] == [True, False, True]


def test_a_changed_target_waits_for_the_workers_of_the_old_one(house: House, tmp_path: Path) -> None:
    evaluation = house.add_evaluation(2, WAITING, workers=1)
    loop = Evaluate(house.desk)
    loop.step()
    (old,) = house.workers(evaluation.id)
    house.change_run(old.id, state=RunState.STOPPING, stop_at=2.0)
    with house.ctx.store.begin() as tx:
        tx.evaluations.change(evaluation.id, target=str(tmp_path / "new"))
        tx.evaluations.change_cells([c.id for c in house.cells(evaluation.id)], run_id=None)
    loop.step()
    assert len(house.workers(evaluation.id)) == 1
    house.change_run(old.id, state=RunState.STOPPED, cause=Cause.STOPPED, ended_at=3.0)
    loop.step()
    assert [w.state for w in house.workers(evaluation.id)] == [RunState.STOPPED, RunState.QUEUED]


# policies


def test_spare_workers_are_behind_everybody_and_protected_from_nobody(house: House) -> None:
    evaluation = house.add_evaluation(1, WAITING, policy="spare")
    Evaluate(house.desk).step()
    (worker,) = house.workers(evaluation.id)
    assert (worker.billing.value, worker.priority, worker.spot["protection"]) == ("spot", 1, 0.0)


def test_workers_at_spot_prices_bid_as_was_asked(house: House) -> None:
    spot = {"bid": "cap", "max_price": 2_000_000, "max_discount": None, "protection": 60.0, "grace": 5.0}
    evaluation = house.add_evaluation(1, WAITING, spot=spot)
    Evaluate(house.desk).step()
    (worker,) = house.workers(evaluation.id)
    assert (worker.billing, worker.spot, worker.priority) == (Billing.SPOT, spot, 5)


def test_after_training_waits_for_the_jobs(house: House) -> None:
    job = house.add_run(state=RunState.RUNNING)
    evaluation = house.add_evaluation(1, WAITING, job=job, policy="after_training")
    loop = Evaluate(house.desk)
    loop.step()
    assert house.workers(evaluation.id) == []
    house.change_run(job.id, state=RunState.FAILED)
    loop.step()
    assert len(house.workers(evaluation.id)) == 1


# following


@pytest.fixture
def following(house: House) -> Evaluation:
    job = house.add_run(state=RunState.RUNNING)
    return house.add_evaluation(2, WAITING, job=job, follow=True, checkpoints="all", workers=2)


def test_each_new_checkpoint_of_a_followed_job_is_a_row(house: House, following: Evaluation) -> None:
    loop, job = Evaluate(house.desk), following.jobs[0]
    loop.step()
    publish(house, following, *(c.id for c in house.cells(following.id)))
    for worker in house.workers(following.id):
        house.change_run(worker.id, **ENDED)
    loop.step()
    # all that there is is valid, and more will come
    assert house.evaluation(following.id).state is EvaluationState.RUNNING
    add_checkpoint(house.ctx, job, "b.pt", step=2)
    add_checkpoint(house.ctx, job, "c.pt", step=3, valid=False)
    loop.step()
    assert [(c.row, c.case_id, c.state) for c in house.cells(following.id)[2:]] == [
        ("b", "case-0", WAITING),
        ("b", "case-1", WAITING),
    ]
    assert all(c.run_id for c in house.cells(following.id))
    before = house.record()
    loop.step()
    assert house.record() == before
    publish(house, following, *(c.id for c in house.cells(following.id)))
    house.change_run(job, state=RunState.SUCCEEDED)
    loop.step()
    assert house.evaluation(following.id).state is EvaluationState.SUCCEEDED


def test_a_followed_job_that_is_placed_again_has_not_ended(house: House, following: Evaluation) -> None:
    loop, job = Evaluate(house.desk), following.jobs[0]
    publish(house, following, *(c.id for c in house.cells(following.id)))
    house.change_run(job, state=RunState.QUEUED)
    loop.step()
    assert house.evaluation(following.id).state is EvaluationState.RUNNING
    # it failed and was retried by hand before it was looked at: nothing has happened
    house.change_run(job, state=RunState.FAILED)
    house.change_run(job, state=RunState.QUEUED)
    loop.step()
    assert house.evaluation(following.id).state is EvaluationState.RUNNING
    house.change_run(job, state=RunState.FAILED)
    loop.step()
    assert house.evaluation(following.id).state is EvaluationState.SUCCEEDED


def test_a_last_checkpoint_that_comes_with_the_end_of_its_job_is_taken(house: House, following: Evaluation) -> None:
    publish(house, following, *(c.id for c in house.cells(following.id)))
    add_checkpoint(house.ctx, following.jobs[0], "z.pt", step=9)
    house.change_run(following.jobs[0], state=RunState.SUCCEEDED)
    Evaluate(house.desk).step()
    assert house.evaluation(following.id).state is EvaluationState.RUNNING
    assert [c.row for c in house.cells(following.id)] == ["a", "a", "z", "z"]


def test_a_job_that_made_nothing_ends_who_followed_it(house: House) -> None:
    job = house.add_run(state=RunState.RUNNING)
    evaluation = house.add_evaluation(2, WAITING, job=job, rows=0, follow=True)
    loop = Evaluate(house.desk)
    loop.step()
    assert house.evaluation(evaluation.id).state is EvaluationState.RUNNING
    house.change_run(job.id, state=RunState.FAILED)
    loop.step()
    found = house.evaluation(evaluation.id)
    assert found.state is EvaluationState.FAILED and "no checkpoint" in found.reason


# full targets


FULL = TargetFullError("no_space", "/disk", "It is full.")


def pause(house: House, evaluation: Evaluation) -> None:
    with house.ctx.store.begin() as tx:
        evaluate.stop_for(tx, evaluation, FULL.to_json())


def full_for_a_while(monkeypatch: pytest.MonkeyPatch, *answers: TargetFullError | None) -> list[Any]:
    asked, left = [], list(answers)

    def writable(*given: Any) -> bool:
        asked.append(given)
        answer = left.pop(0) if left else None
        if answer is not None:
            raise answer
        return True

    monkeypatch.setattr(targets, "writable", writable)
    return asked


def test_a_pause_that_no_worker_sees_through_is_ended_by_the_controller(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluation = house.add_evaluation(1, WAITING, workers=1)
    loop = Evaluate(house.desk)
    loop.step()
    (worker,) = house.workers(evaluation.id)
    house.change_run(worker.id, **ENDED, work={**worker.work, "excused": True})
    pause(house, evaluation)
    quota = TargetFullError("over_quota", "/disk", "Over quota.")
    full_for_a_while(monkeypatch, FULL, quota, quota)
    loop.step()
    assert house.evaluation(evaluation.id).cause == "no_space"
    loop.step()
    found = house.evaluation(evaluation.id)
    assert (found.state, found.cause, found.pauses) == (EvaluationState.PAUSED, "over_quota", 2)
    loop.step()
    found = house.evaluation(evaluation.id)
    assert (found.state, found.cause, found.rounds) == (EvaluationState.RUNNING, None, 1)
    assert [w.state for w in house.workers(evaluation.id)] == [RunState.SUCCEEDED, RunState.QUEUED]


def test_a_worker_that_died_of_the_full_disk_fails_nothing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluation = house.add_evaluation(3, WAITING, workers=1)
    loop = Evaluate(house.desk)
    loop.step()
    house.change_run(house.workers(evaluation.id)[0].id, **EXIT)
    full_for_a_while(monkeypatch, FULL, FULL)
    loop.step()
    found = house.evaluation(evaluation.id)
    assert (found.state, found.cause, found.pauses) == (EvaluationState.PAUSED, "no_space", 1)
    assert {c.state for c in house.cells(evaluation.id)} == {WAITING}
    loop.step()
    assert house.evaluation(evaluation.id).state is EvaluationState.RUNNING
    # the next one that ends so has nobody else to blame
    house.change_run(house.workers(evaluation.id)[1].id, **EXIT)
    loop.step()
    assert house.evaluation(evaluation.id).state is EvaluationState.FAILED


def test_a_worker_that_failed_while_its_evaluation_was_paused_is_excused(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluation = house.add_evaluation(1, WAITING, workers=1)
    loop = Evaluate(house.desk)
    loop.step()
    house.change_run(house.workers(evaluation.id)[0].id, **EXIT)
    pause(house, evaluation)
    full_for_a_while(monkeypatch, FULL)
    loop.step()
    assert house.evaluation(evaluation.id).state is EvaluationState.PAUSED
    loop.step()
    assert [w.state for w in house.workers(evaluation.id)] == [RunState.FAILED, RunState.QUEUED]


def test_a_target_that_hangs_holds_up_no_other_evaluation(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck, other = house.add_evaluation(1, WAITING), house.add_evaluation(1, WAITING)
    pause(house, stuck)
    go = threading.Event()
    monkeypatch.setattr(targets, "writable", lambda *_: go.wait(60))
    loop = Evaluate(house.desk)
    loop._looks = targets.Looks(patience=0.01)
    loop.step()
    assert house.evaluation(stuck.id).state is EvaluationState.PAUSED
    assert len(house.workers(other.id)) == 1
    go.set()
    loop._looks = targets.Looks()
    loop.step()
    assert house.evaluation(stuck.id).state is EvaluationState.RUNNING


def test_a_real_target_in_the_way_of_a_file_is_named_and_gone_on_with(house: House, tmp_path: Path) -> None:
    evaluation = house.add_evaluation(1, WAITING, target=str(tmp_path / "outputs"))
    pause(house, evaluation)
    (tmp_path / "outputs").write_text("in the way")
    loop = Evaluate(house.desk)
    loop.step()
    found = house.evaluation(evaluation.id)
    assert (found.state, found.cause) == (EvaluationState.PAUSED, "io_error")
    assert str(tmp_path / "outputs") in found.reason
    (tmp_path / "outputs").unlink()
    loop.step()
    assert house.evaluation(evaluation.id).state is EvaluationState.RUNNING


# forecasts


def test_the_first_cells_forecast_the_rest_and_warn(house: House, caplog: pytest.LogCaptureFixture) -> None:
    evaluation = house.add_evaluation(20, WAITING, workers=1)
    quota = targets.quota.of(house.ctx, "default")
    quota.set_limits(25, None)
    loop = Evaluate(house.desk)
    loop.step()
    assert house.evaluation(evaluation.id).forecast == {}
    house.change_run(house.workers(evaluation.id)[0].id, state=RunState.RUNNING)
    publish(house, evaluation, *(c.id for c in house.cells(evaluation.id)[:5]))
    loop.step()
    found = house.evaluation(evaluation.id)
    assert found.forecast["fits"] is False and found.state is EvaluationState.RUNNING
    assert "the quota of project default has 25 B left: that is reached after about 2" in found.forecast["sentence"]
    assert "may not fit" in caplog.text
    quota.set_limits(None, None)
    publish(house, evaluation, *(c.id for c in house.cells(evaluation.id)[:10]))
    loop._forecasts.clear()
    loop.step()
    found = house.evaluation(evaluation.id)
    assert found.forecast["fits"] is True and found.forecast["needed_bytes"] == 100


# the end and its index


def test_all_valid_is_the_end_whatever_workers_still_do(house: House) -> None:
    evaluation = house.add_evaluation(2, WAITING, rows=2)
    loop = Evaluate(house.desk)
    loop.step()
    running, waiting = house.workers(evaluation.id)
    house.change_run(running.id, state=RunState.RUNNING)
    publish(house, evaluation, *(c.id for c in house.cells(evaluation.id)))
    loop.step()
    assert house.evaluation(evaluation.id).state is EvaluationState.SUCCEEDED
    assert [house.run(w.id).state for w in (running, waiting)] == [RunState.RUNNING, RunState.STOPPED]


def test_a_controller_that_dies_at_the_index_leaves_the_end_to_the_next(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluation = house.add_evaluation()

    def die(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(indexes, "publish", die)
        Evaluate(house.desk).step()
    assert house.evaluation(evaluation.id).state == EvaluationState.RUNNING
    Evaluate(house.new_desk("second")).step()
    assert house.evaluation(evaluation.id).state == EvaluationState.SUCCEEDED
    assert len(list(indexes.read(house.ctx.root / evaluation.path))) == 1


def test_an_index_that_finds_the_disk_full_is_a_pause(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluation = house.add_evaluation()

    def full(*_: Any) -> None:
        raise FULL

    loop = Evaluate(house.desk)
    with monkeypatch.context() as patch:
        patch.setattr(indexes, "publish", full)
        for _ in range(2):
            loop.step()
    found = house.evaluation(evaluation.id)
    assert (found.state, found.cause, found.pauses) == (EvaluationState.PAUSED, "no_space", 1)
    loop.step()
    found = house.evaluation(evaluation.id)
    assert (found.state, found.cause) == (EvaluationState.SUCCEEDED, None)


def test_one_evaluation_whose_index_cannot_be_written_holds_up_no_other(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = house.add_evaluation(), house.add_evaluation()
    publish = indexes.publish

    def sometimes(folder: Path, *given: Any) -> None:
        if folder.name == str(bad.id):
            raise OSError(errno.ENOTDIR, "Not a directory")
        publish(folder, *given)

    monkeypatch.setattr(indexes, "publish", sometimes)
    Evaluate(house.desk).step()
    states = [house.evaluation(e.id).state for e in (bad, good)]
    assert states == [EvaluationState.RUNNING, EvaluationState.SUCCEEDED]


def test_the_index_of_a_stopped_one_waits_for_its_workers_last_words(house: House) -> None:
    evaluation = house.add_evaluation(2, WAITING, workers=1)
    loop = Evaluate(house.desk)
    loop.step()
    (worker,) = house.workers(evaluation.id)
    house.change_run(worker.id, state=RunState.STOPPING, stop_at=1.0)
    with house.ctx.store.begin() as tx:
        tx.evaluations.change(evaluation.id, state=EvaluationState.STOPPED, ended_at=house.clock())
    loop.step()
    folder = house.ctx.root / evaluation.path
    assert not (folder / indexes.INDEX).exists()
    publish(house, evaluation, house.cells(evaluation.id)[0].id)
    house.change_run(worker.id, state=RunState.STOPPED)
    # the controller that knew is gone
    Evaluate(house.new_desk("second")).step()
    assert [one["state"] for one in indexes.read(folder)] == ["valid", "waiting"]


def test_the_table_follows_the_index_and_is_made_by_the_next_controller(house: House) -> None:
    evaluation = house.add_evaluation(2)
    folder = house.ctx.root / evaluation.path
    with house.ctx.store.begin() as tx:
        tx.evaluations.change(evaluation.id, state=EvaluationState.SUCCEEDED, ended_at=house.clock())
    (folder).mkdir(parents=True)
    with house.ctx.store.read() as tx:
        indexes.publish(folder, tx.evaluations.index(evaluation.id))
    loop = Evaluate(house.desk)
    loop.step()
    for process in loop.indexing._making.values():
        process.wait(60)
    loop.step()
    assert (folder / indexes.TABLE).exists() and not indexes.stale(folder)
    assert loop.indexing._making == {}


# what is left


def staged(house: House, folder: Path, attempt: str) -> Path:
    place = staging.folder(folder, house.ctx.root, attempt) / "1"
    place.mkdir(parents=True)
    (place / "half.bin").write_bytes(b"x")
    return place


def tidied(loop: Evaluate) -> None:
    """Lets what the loop tidies come to its end."""
    loop.step()
    for thread in threading.enumerate():
        if thread.name.startswith("look at ('tidy'"):
            thread.join(30)
    loop.step()


@pytest.mark.parametrize("dies", [False, True])
def test_what_killed_workers_left_goes_with_the_end(house: House, dies: bool) -> None:
    evaluation = house.add_evaluation(2, WAITING, workers=1)
    loop = Evaluate(house.desk)
    loop.step()
    (worker,) = house.workers(evaluation.id)
    with house.ctx.store.begin() as tx:
        attempt = tx.runs.add_attempt(**attempt_values(worker, 1, state=AttemptState.ENDED))
    house.change_run(worker.id, state=RunState.RUNNING)
    outputs = house.ctx.root / evaluation.path / "outputs"
    staged(house, outputs, attempt.id)
    staging.note(staged(house, outputs, "999-1"), {"cell": 1})
    publish(house, evaluation, *(c.id for c in house.cells(evaluation.id)))
    loop.step()
    assert house.evaluation(evaluation.id).state is EvaluationState.SUCCEEDED
    tidied(loop)
    # a worker lives
    assert len(list(outputs.glob(".staging-*"))) == 2
    house.change_run(worker.id, **ENDED)
    tidied(Evaluate(house.new_desk("second")) if dies else loop)
    assert [p.name for p in outputs.glob(".staging-*")] == [staging.folder(outputs, house.ctx.root, "999-1").name]


def test_a_cell_that_a_stopped_worker_was_at_runs_no_more(house: House) -> None:
    evaluation = house.add_evaluation(2, WAITING, workers=1)
    loop = Evaluate(house.desk)
    loop.step()
    (worker,) = house.workers(evaluation.id)
    first = house.cells(evaluation.id)[0]
    with house.ctx.store.begin() as tx:
        tx.evaluations.change_cells([first.id], state=CellState.RUNNING)
        tx.evaluations.change(evaluation.id, state=EvaluationState.STOPPED, ended_at=house.clock())
    house.change_run(worker.id, state=RunState.RUNNING)
    loop.step()
    # it may be publishing still
    assert house.cells(evaluation.id)[0].state is CellState.RUNNING
    house.change_run(worker.id, **{**ENDED, "state": RunState.STOPPED})
    loop.step()
    assert [cell.state for cell in house.cells(evaluation.id)] == [CellState.WAITING] * 2


def test_a_folder_that_was_left_is_tidied_too(house: House, tmp_path: Path) -> None:
    evaluation = house.add_evaluation(2, target=str(tmp_path / "new"))
    old = tmp_path / "old" / f"evaluation-{evaluation.id}"
    worker = house.add_run(owner="evaluation", owner_id=evaluation.id, **ENDED)
    with house.ctx.store.begin() as tx:
        tx.evaluations.change(evaluation.id, plan={**evaluation.plan, "left_folders": [str(old)]})
        attempt = tx.runs.add_attempt(**attempt_values(worker, 1, state=AttemptState.ENDED))
    staging.note(staged(house, old, attempt.id), {"cell": 1})
    tidied(Evaluate(house.desk))
    assert list(old.iterdir()) == []
