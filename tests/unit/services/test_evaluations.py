"""Evaluations in the record: asked for, asked for again, stopped, sent elsewhere, told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headway.errors import ForbiddenError, HeadwayError, NotFoundError, RefusedError, UsageError
from headway.rules.access import Caller
from headway.rules.states import CellState, EvaluationState, RunState
from headway.services import evaluations, jobs
from headway.services.context import Services
from headway.testing.services import CODE, add_checkpoint, add_snapshot, evaluate
from headway.testing.stores import run_values
from headway.wire.evaluations import EvaluationRequest, EvaluationView, TargetRequest
from headway.wire.runs import JobRequest


@pytest.fixture
def job(ctx: Services, member: Caller) -> int:
    """A job with two valid checkpoints and one that is not."""
    add_snapshot(ctx)
    return new_job(ctx, member)


def new_job(ctx: Services, who: Caller, prefix: str = "") -> int:
    run = jobs.submit(ctx, who, "default", JobRequest(command=["true"])).id
    add_checkpoint(ctx, run, "epoch-01.pt", epoch=1, metrics={"loss": 0.5}, sha256=f"{prefix}1".ljust(64, "0"))
    add_checkpoint(ctx, run, "epoch-02.pt", epoch=2, metrics={"loss": 0.9}, sha256=f"{prefix}2".ljust(64, "0"))
    add_checkpoint(ctx, run, "epoch-03.pt", epoch=3, valid=False, reason="cut off")
    return run


def finish(ctx: Services, evaluation: int, *only: tuple[str, str]) -> None:
    """Publishes a score for each cell, or those of (row, case)."""
    with ctx.store.begin() as tx:
        tx.evaluations.publish(
            [
                {
                    "cell": cell.id, "publication": f"p{cell.id}", "score": 0.5, "scores": {"score": 0.5, "other": 1.0},
                    "outputs": [{"name": "score.json", "bytes": 3, "sha256": "0" * 64, "kind": "json"}],
                    "path": cell.path, "seconds": 1.5, "bytes": 3, "files": 1, "ended_at": 7.0,
                }
                for cell in tx.evaluations.cells(evaluation)
                if not only or (cell.row, cell.case_id) in only
            ]
        )  # fmt: skip


def workers(ctx: Services, evaluation: int, *states: RunState) -> list[int]:
    with ctx.store.begin() as tx:
        project, user = tx.people.project("default"), tx.people.user("mia")
        assert project is not None
        assert user is not None
        owned = {"owner": "evaluation", "owner_id": evaluation}
        return [tx.runs.add(**run_values(project, user, **owned, state=state)).id for state in states]


def keys(ctx: Services, view: EvaluationView) -> list[str]:
    with ctx.store.read() as tx:
        return [c.key for c in tx.evaluations.cells(view.id)]


def test_an_evaluation_is_valid_checkpoints_times_cases(ctx: Services, member: Caller, job: int) -> None:
    view = evaluate(ctx, member, job)
    assert (view.state, view.cells, view.waiting, view.valid, view.ran, view.runs) == ("running", 4, 4, 0, 0, [])
    assert (view.rows, view.columns, view.job, view.jobs) == (2, 2, job, [job])
    assert view.path == str(ctx.root / f"projects/default/evaluations/{view.id}")
    assert view.target == f"{view.path}/outputs"
    cells = evaluations.cells(ctx, member, "default", view.id)
    assert [(c.checkpoint, c.row, c.case) for c in cells] == [
        ("epoch-01.pt", "epoch-01", "clean"), ("epoch-01.pt", "epoch-01", "noise"),
        ("epoch-02.pt", "epoch-02", "clean"), ("epoch-02.pt", "epoch-02", "noise"),
    ]  # fmt: skip
    assert cells[0].path == f"{view.path}/outputs/epoch-01/clean"
    with ctx.store.read() as tx:
        evaluation = tx.evaluations.get(view.id)
        assert evaluation is not None
        assert evaluation.plan["worker"] == "evaluate.py:Digits"
        noise = {"id": "noise", "inputs": {}, "parameters": {"s": 1}, "expected": None, "tags": []}
        assert evaluation.plan["cases"][1] == noise
        assert evaluation.plan["outputs"] == [{"name": "score.json", "kind": "json"}]
    assert len(set(keys(ctx, view))) == 4


def test_repeats_have_seeds_and_folders_of_their_own(ctx: Services, member: Caller, job: int) -> None:
    view = evaluate(ctx, member, job, repeats=2, seed=7, checkpoints="epoch-01.pt", parameters={"s": 3, "t": 4})
    assert (view.rows, view.columns, view.cells) == (1, 4, 4)
    cells = evaluations.cells(ctx, member, "default", view.id)
    assert [(c.case, c.repeat, Path(c.path).name) for c in cells] == [
        ("clean", 0, "clean@0"), ("clean", 1, "clean@1"), ("noise", 0, "noise@0"), ("noise", 1, "noise@1"),
    ]  # fmt: skip
    columns = evaluations.report(ctx, member, "default", view.id).columns
    assert [c.parameters for c in columns[1:3]] == [{"s": 3, "t": 4}, {"s": 1, "t": 4}]
    assert len(set(keys(ctx, view))) == 4


def test_the_same_cell_has_the_same_key_and_another_one_another(ctx: Services, member: Caller, job: int) -> None:
    first = keys(ctx, evaluate(ctx, member, job))
    assert keys(ctx, evaluate(ctx, member, job, name="again", workers=2)) == first
    cases = [{"id": "clean", "tags": ["x"]}, {"id": "noise", "parameters": {"s": 2}}]
    other = keys(ctx, evaluate(ctx, member, job, cases=cases))
    assert [a == b for a, b in zip(first, other, strict=True)] == [True, False, True, False]
    for values in ({"environment": {"A": "1"}}, {"code": "x"}, {"score": "f1"}, {"scorer": "score.py:f"}, {"seed": 1}):
        assert not set(keys(ctx, evaluate(ctx, member, job, **values))) & {*first, *other}


def test_asked_for_again_it_is_the_same_and_nothing_is_run_twice(ctx: Services, member: Caller, job: int) -> None:
    view = evaluate(ctx, member, job, key="k")
    assert evaluate(ctx, member, job, key="k", name="whatever") == view
    assert evaluate(ctx, member, job, key="another") == view
    finish(ctx, view.id, ("epoch-01", "clean"))
    add_checkpoint(ctx, job, "epoch-04.pt", epoch=4)
    grown = evaluate(ctx, member, job)
    assert grown.id != view.id
    assert (grown.cells, grown.valid, grown.reused, grown.ran, grown.bytes) == (6, 1, 1, 0, 3)
    done = next(c for c in evaluations.cells(ctx, member, "default", grown.id) if c.state == "valid")
    assert (done.row, done.score, done.seconds) == ("epoch-01", 0.5, 1.5)
    assert done.path == f"{view.path}/outputs/epoch-01/clean"
    assert [e.id for e in evaluations.listing(ctx, member, "default")] == [grown.id, view.id]


def test_a_plan_tells_what_is_done_and_records_nothing(ctx: Services, viewer: Caller, member: Caller, job: int) -> None:
    view = evaluate(ctx, member, job)
    finish(ctx, view.id, ("epoch-01", "clean"), ("epoch-02", "clean"))
    request = EvaluationRequest(
        name="e", job=job, cases=[{"id": "clean"}, {"id": "more"}], worker="evaluate.py:Digits", snapshot=CODE,
        outputs=[{"name": "score.json", "kind": "json"}], workers=8,
    )  # fmt: skip
    plan = evaluations.plan(ctx, viewer, "default", request)
    assert (plan.rows, plan.columns, plan.cells, plan.done, plan.to_run) == (["epoch-01", "epoch-02"], 2, 4, 2, 2)
    assert (plan.workers, plan.same, plan.example["seed"]) == (2, None, 0)
    assert len(evaluations.listing(ctx, member, "default")) == 1
    again = request.model_copy(update={"cases": request.cases[:1], "workers": 1})
    assert evaluations.plan(ctx, viewer, "default", again).to_run == 0


@pytest.mark.parametrize(
    ("values", "rows"),
    [
        ({"checkpoints": ["epoch-02.pt"]}, ["epoch-02"]),
        ({"checkpoints": "epoch-*.pt"}, ["epoch-01", "epoch-02"]),
        ({"every": 2}, ["epoch-02"]),
        ({"best": 1, "by": "loss"}, ["epoch-01"]),
        ({"best": 1, "by": "loss", "mode": "max"}, ["epoch-02"]),
    ],
)
def test_checkpoints_can_be_chosen(
    ctx: Services, member: Caller, job: int, values: dict[str, Any], rows: list[str]
) -> None:
    view = evaluate(ctx, member, job, cases=[{"id": "c"}], **values)
    assert [c.row for c in evaluations.cells(ctx, member, "default", view.id)] == rows


def test_several_jobs_are_rows_of_one_evaluation(ctx: Services, member: Caller, job: int) -> None:
    other = new_job(ctx, member, "x")
    view = evaluate(ctx, member, job, other, job, cases=[{"id": "c"}])
    assert (view.jobs, view.rows, view.job) == ([job, other], 4, job)
    cells = evaluations.cells(ctx, member, "default", view.id)
    assert [(c.job, c.row) for c in cells] == [
        (job, f"job-{job}/epoch-01"), (job, f"job-{job}/epoch-02"),
        (other, f"job-{other}/epoch-01"), (other, f"job-{other}/epoch-02"),
    ]  # fmt: skip


def test_outputs_of_like_named_checkpoints_do_not_meet(ctx: Services, member: Caller, job: int) -> None:
    add_checkpoint(ctx, job, "epoch-02.safetensors", epoch=2, format="safetensors")
    view = evaluate(ctx, member, job, cases=[{"id": "c"}])
    paths = [Path(c.path).parent.name for c in evaluations.cells(ctx, member, "default", view.id)]
    assert sorted(paths) == ["epoch-01", "epoch-02.pt", "epoch-02.safetensors"]


def test_one_that_follows_may_begin_before_there_is_a_checkpoint(ctx: Services, member: Caller, job: int) -> None:
    young = jobs.submit(ctx, member, "default", JobRequest(command=["true"])).id
    with pytest.raises(RefusedError, match="no valid checkpoint"):
        evaluate(ctx, member, young)
    view = evaluate(ctx, member, young, follow=True, every=2)
    assert (view.state, view.cells, view.columns, view.follow) == ("running", 0, 2, True)
    add_checkpoint(ctx, young, "a.pt")
    assert evaluate(ctx, member, young, follow=True, every=2) == view


@pytest.mark.parametrize(
    ("values", "kind", "words"),
    [
        ({"jobs": [99]}, NotFoundError, "99"),
        ({"checkpoints": ["epoch-2.pt"]}, NotFoundError, "epoch-02.pt"),
        ({"checkpoints": ["epoch-9*.pt"]}, NotFoundError, "no checkpoint like"),
        ({"checkpoints": ["epoch-03.pt"]}, RefusedError, "cut off"),
        ({"every": 3}, RefusedError, "too few"),
        ({"snapshot": "d" * 64}, NotFoundError, "snapshot"),
        ({"worker": "evaluate"}, UsageError, "evaluate.py:Digits"),
        ({"worker": "../evaluate.py:D"}, UsageError, "../evaluate"),
        ({"worker": None}, UsageError, "either"),
        ({"command": ["true"]}, UsageError, "either"),
        ({"check": "check"}, UsageError, "check.py:function"),
        ({"cases": [{"id": "a"}, {"id": "a"}]}, UsageError, "'a' stands 2"),
        ({"outputs": [{"name": "sheet.png", "kind": "imag"}]}, UsageError, "image"),
        ({"outputs": [{"name": "sheet.png", "kind": "image", "channels": 2}]}, UsageError, "channels says nothing"),
        ({"outputs": [{"name": "a.csv", "kind": "csv", "schema": {}}]}, UsageError, "schema says nothing of a file"),
        ({"outputs": [{"name": "a.json", "kind": "json", "schema": {"type": "objct"}}]}, UsageError, "'objct'"),
        ({"outputs": [{"name": "a.png", "count": 2}]}, UsageError, "count"),
        ({"worker": None, "command": ["x", "{case.prmpt}"], "parameters": {"prompt": "a"}}, UsageError, "case.prompt?"),
        ({"worker": None, "command": ["x", "--out={outt}"]}, UsageError, "clean: unknown word 'outt'."),
        ({"outputs": [{"name": "output.json"}]}, UsageError, "headway's own"),
        ({"score_file": None}, UsageError, "score: null"),
        ({"score": None, "outputs": []}, UsageError, "Nothing makes a cell valid"),
        ({"best": 2}, UsageError, "go together"),
        ({"best": 2, "by": "los"}, UsageError, "loss"),
        ({"follow": True, "checkpoints": ["epoch-01.pt"]}, UsageError, "epoch-01.pt"),
        ({"follow": True, "best": 1, "by": "loss"}, UsageError, "follow and best"),
        ({"workers": 2, "least_workers": 3}, UsageError, "at least 3"),
        ({"repeats": 10_000, "cases": [{"id": f"c{n}"} for n in range(11)]}, UsageError, "too many"),
        ({"target": "outputs"}, UsageError, "no absolute folder"),
        ({"target": "/data/../etc"}, UsageError, "no absolute folder"),
        ({"datasets": ["digits"]}, NotFoundError, "digits"),
        ({"spec": "tiny"}, UsageError, "tiny"),
    ],
)
def test_a_wrong_evaluation_is_refused(
    ctx: Services, member: Caller, job: int, values: dict[str, Any], kind: type[HeadwayError], words: str
) -> None:
    with pytest.raises(kind) as raised:
        evaluate(ctx, member, job, **values)
    assert words in str(raised.value)
    assert evaluations.listing(ctx, member, "default") == []


def test_a_target_may_not_be_another_projects(ctx: Services, member: Caller, job: int, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(ctx.root / "projects")
    for folder in (ctx.root, ctx.root / "projects/other/x", ctx.root.parent, tmp_path / "link/other"):
        with pytest.raises(RefusedError, match="no folder of project default"):
            evaluate(ctx, member, job, target=str(folder))
    with pytest.raises(RefusedError, match="one of headway's own folders") as own:
        evaluate(ctx, member, job, target=str(ctx.root / "projects/default/x"))
    assert own.value.code == "no_target"
    view = evaluate(ctx, member, job, target=f"{tmp_path}/out/")
    assert view.target == f"{tmp_path}/out/evaluation-{view.id}"
    assert evaluations.cells(ctx, member, "default", view.id)[0].path == f"{view.target}/epoch-01/clean"


def test_a_target_that_cannot_be_made_is_refused(ctx: Services, member: Caller, job: int, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "gone").symlink_to("nowhere")
    known = replace(ctx, hints=tmp_path / "hints")
    for folder, why in (
        ("/proc/foo", "/proc is on a file system of the kernel's"),
        ("/sys/foo/bar", "/sys is on a file system of the kernel's"),
        (f"{tmp_path}/file", "file is no folder"),
        (f"{tmp_path}/file/below/it", "file is no folder"),
        (f"{tmp_path}/loop", "loop is a link to itself"),
        (f"{tmp_path}/loop/x", "Too many levels of symbolic links"),
        (f"{tmp_path}/gone/x", "gone is a link to nothing"),
        (f"{tmp_path}/{'x' * 300}", "File name too long"),
        (f"{tmp_path}/log/x", "one of headway's own folders"),
    ):
        with pytest.raises(RefusedError) as caught:
            evaluate(known, member, job, target=folder)
        assert why in caught.value.message and caught.value.remedy and caught.value.code == "no_target"
        assert len(str(caught.value)) < 500
    assert evaluations.listing(ctx, member, "default") == []
    view = evaluate(known, member, job, target=str(tmp_path / "a/b"))
    with pytest.raises(RefusedError, match="folder: /proc/x cannot be made"):
        evaluations.target(ctx, member, "default", view.id, TargetRequest(folder="/proc/x"))


def test_stopping_an_evaluation_stops_its_workers(ctx: Services, member: Caller, job: int, viewer: Caller) -> None:
    view = evaluate(ctx, member, job)
    finish(ctx, view.id, ("epoch-01", "clean"))
    waits, lives = workers(ctx, view.id, RunState.QUEUED, RunState.RUNNING)
    with pytest.raises(ForbiddenError):
        evaluations.stop(ctx, viewer, "default", view.id)
    stopped = evaluations.stop(ctx, member, "default", view.id)
    assert (stopped.state, stopped.valid, stopped.runs) == ("stopped", 1, [waits, lives])
    with ctx.store.read() as tx:
        found = {r.id: r for r in tx.runs.many([waits, lives])}
        assert found[waits].state is RunState.STOPPED
        assert found[lives].stop_at is not None
    assert evaluations.stop(ctx, member, "default", view.id) == stopped
    again = evaluations.retry(ctx, member, "default", view.id)
    assert (again.state, again.valid, again.waiting, again.ended_at) == ("running", 1, 3, None)
    assert evaluations.retry(ctx, member, "default", view.id).state == "running"
    with ctx.store.begin() as tx:
        tx.evaluations.change(view.id, state=EvaluationState.SUCCEEDED)
    with pytest.raises(RefusedError):
        evaluations.retry(ctx, member, "default", view.id)


def test_one_that_is_held_runs_when_it_is_retried(ctx: Services, member: Caller, job: int) -> None:
    view = evaluate(ctx, member, job, held=True)
    assert (view.state, view.waiting) == ("stopped", 4)
    assert "retried" in view.reason
    assert evaluations.retry(ctx, member, "default", view.id).state == "running"


def test_a_retry_takes_what_was_done_elsewhere_meanwhile(ctx: Services, member: Caller, job: int) -> None:
    held = evaluate(ctx, member, job, held=True)
    finish(ctx, evaluate(ctx, member, job, name="other").id, ("epoch-02", "noise"))
    assert (held.valid, evaluations.retry(ctx, member, "default", held.id).reused) == (0, 1)


def test_what_is_still_to_come_goes_to_another_folder(ctx: Services, member: Caller, job: int, tmp_path: Path) -> None:
    view = evaluate(ctx, member, job)
    finish(ctx, view.id, ("epoch-01", "clean"))
    (lives,) = workers(ctx, view.id, RunState.RUNNING)
    with ctx.store.begin() as tx:
        cells = tx.evaluations.cells(view.id)
        tx.evaluations.deal([c.id for c in cells[1:]], lives)
        tx.evaluations.change_cell(cells[1].id, state=CellState.RUNNING)
        tx.evaluations.change_cell(cells[2].id, state=CellState.INVALID, reason="no")
        tx.evaluations.change(view.id, state=EvaluationState.PAUSED, cause="no_space", forecast={"fits": False})
    moved = evaluations.target(ctx, member, "default", view.id, TargetRequest(folder=str(tmp_path / "big")))
    assert (moved.state, moved.cause, moved.forecast) == ("running", None, {})
    assert (moved.valid, moved.waiting, moved.invalid) == (1, 2, 1)
    with ctx.store.read() as tx:
        done, *rest = tx.evaluations.cells(view.id)
        worker = tx.runs.get(lives)
        assert worker is not None
        assert worker.stop_at is not None
    assert done.path == f"projects/default/evaluations/{view.id}/outputs/epoch-01/clean"
    assert [c.path for c in rest] == [
        f"{moved.target}/{p}" for p in ("epoch-01/noise", "epoch-02/clean", "epoch-02/noise")
    ]
    assert [c.run_id for c in rest if c.state is CellState.WAITING] == [None, None]
    home = evaluations.target(ctx, member, "default", view.id, TargetRequest(folder=None))
    assert home.target == f"{view.path}/outputs"
    with ctx.store.begin() as tx:
        tx.evaluations.change(view.id, state=EvaluationState.SUCCEEDED)
    with pytest.raises(RefusedError, match="all its outputs"):
        evaluations.target(ctx, member, "default", view.id, TargetRequest(folder=str(tmp_path)))


def test_the_same_folder_again_stands_for_what_is_mounted_there_now(
    ctx: Services, member: Caller, job: int, tmp_path: Path
) -> None:
    folder = str(tmp_path / "disk")
    view = evaluate(ctx, member, job, target=folder)
    gone = {"place": folder, "device": 1, "boot": "b"}

    def plan() -> dict[str, Any]:
        with ctx.store.read() as tx:
            found = tx.evaluations.get(view.id)
        assert found is not None
        return found.plan

    def pause(cause: str) -> None:
        with ctx.store.begin() as tx:
            values = {"state": EvaluationState.PAUSED, "cause": cause, "plan": {**plan(), "mount": gone}}
            tx.evaluations.change(view.id, **values)

    pause("no_space")
    evaluations.target(ctx, member, "default", view.id, TargetRequest(folder=folder))
    assert plan()["mount"] == gone
    pause("unmounted")
    again = evaluations.target(ctx, member, "default", view.id, TargetRequest(folder=folder))
    assert (again.state, again.cause, again.target) == ("running", None, view.target)
    assert plan()["mount"] is None


def test_cells_come_in_pages_and_by_state(ctx: Services, member: Caller, job: int) -> None:
    view = evaluate(ctx, member, job)
    finish(ctx, view.id, ("epoch-02", "clean"))
    every = evaluations.cells(ctx, member, "default", view.id)
    first = evaluations.cells(ctx, member, "default", view.id, limit=3)
    rest = evaluations.cells(ctx, member, "default", view.id, after=first[-1].id)
    assert [*first, *rest] == every
    assert [c.row for c in evaluations.cells(ctx, member, "default", view.id, states=["valid"])] == ["epoch-02"]
    with pytest.raises(UsageError, match="valid"):
        evaluations.cells(ctx, member, "default", view.id, states=["valud"])


def test_a_report_has_rows_columns_cells_and_failures(ctx: Services, member: Caller, job: int) -> None:
    view = evaluate(ctx, member, job)
    finish(ctx, view.id, ("epoch-01", "clean"), ("epoch-02", "clean"))
    with ctx.store.begin() as tx:
        bad = [c.id for c in tx.evaluations.cells(view.id) if c.case_id == "noise"]
        tx.evaluations.change_cells(bad, state=CellState.INVALID, cause="timeout", reason="It took too long.")
    report = evaluations.report(ctx, member, "default", view.id)
    assert [(r.row, r.epoch, r.metrics, r.counts.valid, r.counts.invalid) for r in report.rows] == [
        ("epoch-01", 1, {"loss": 0.5}, 1, 1), ("epoch-02", 2, {"loss": 0.9}, 1, 1),
    ]  # fmt: skip
    assert [(c.case, c.counts.valid, c.counts.invalid) for c in report.columns] == [("clean", 2, 0), ("noise", 0, 2)]
    assert [c.id for c in report.cells if (c.cause, c.reason) == ("timeout", "It took too long.")] == bad
    assert (report.scores, report.score, report.better) == (["score", "other"], "score", "higher")
    assert [c.state for c in report.cells] == ["valid", "invalid", "valid", "invalid"]
    assert (report.evaluation.bytes, report.evaluation.files, report.curves) == (6, 2, {})
