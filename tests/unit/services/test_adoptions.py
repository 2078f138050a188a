"""An earlier loop's outputs: exactly the valid ones are registered, and nothing of them is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headway.errors import HeadwayError, NotFoundError, RefusedError, UsageError
from headway.rules.access import Caller
from headway.rules.states import CellState
from headway.services import adoptions, cell_checks, evaluations, jobs
from headway.services.context import Services
from headway.storage.publish import verify_folder
from headway.testing.services import add_checkpoint, add_snapshot, evaluate
from headway.wire.evaluations import Adopted, AdoptRequest, EvaluationView, VerifyRequest
from headway.wire.runs import JobRequest

LAYOUT = {"out.json": "{checkpoint}/{case}.json"}


@pytest.fixture
def job(ctx: Services, member: Caller) -> int:
    add_snapshot(ctx)
    run = jobs.submit(ctx, member, "default", JobRequest(command=["true"])).id
    for name in ("epoch-1.pt", "epoch-2.pt", "epoch-3.pt"):
        add_checkpoint(ctx, run, name)
    return run


def held(ctx: Services, who: Caller, job: int, **values: Any) -> EvaluationView:
    usual: dict[str, Any] = {"held": True, "score": None, "outputs": [{"name": "out.json", "kind": "json"}]}
    return evaluate(ctx, who, job, **{**usual, **values})


def adopt(ctx: Services, who: Caller, evaluation: int, folder: Path, **values: Any) -> Adopted:
    request = AdoptRequest(**{"folder": str(folder), "layout": LAYOUT, **values})
    return adoptions.adopt(ctx, who, "default", evaluation, request)


def old(folder: Path, **files: str) -> Path:
    """A folder of files named checkpoint/case.json by checkpoint__case."""
    for name, content in files.items():
        path = folder / f"{name.replace('__', '/').replace('_', '-')}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def test_exactly_the_valid_ones_are_registered(ctx: Services, member: Caller, job: int, tmp_path: Path) -> None:
    view = held(ctx, member, job)
    folder = old(
        tmp_path / "old", epoch_1__clean="{}", epoch_1__noise='{"a": ', epoch_2__clean="[1]", epoch_2__noise=""
    )
    tried = adopt(ctx, member, view.id, folder, dry_run=True)
    assert (tried.found, tried.adopted, tried.missing) == (4, 2, 2)
    assert evaluations.get(ctx, member, "default", view.id).valid == 0
    told = adopt(ctx, member, view.id, folder)
    assert (told.found, told.adopted, told.missing, told.next, told.total) == (4, 2, 2, None, 6)
    assert [(f.row, f.case) for f in told.faults] == [("epoch-1", "noise"), ("epoch-2", "noise")]
    assert all(f.reason.startswith("out.json: ") for f in told.faults)
    found = evaluations.get(ctx, member, "default", view.id)
    assert (found.valid, found.waiting, found.ran, found.reused, found.state) == (2, 4, 0, 2, "stopped")
    cells = evaluations.cells(ctx, member, "default", view.id, states=["valid"])
    assert [(c.row, c.case, c.cause) for c in cells] == [
        ("epoch-1", "clean", "adopted"),
        ("epoch-2", "clean", "adopted"),
    ]
    published = verify_folder(Path(cells[0].path))
    assert published.manifest["key"] == cells[0].key
    assert cell_checks.verify(ctx, member, "default", view.id, VerifyRequest()).faults == []
    # the old files are as they were, and nothing but the outputs was left
    assert (folder / "epoch-1/clean.json").read_text() == "{}"
    assert sorted(p.name for p in Path(view.path).iterdir()) == ["index.jsonl", "outputs"]
    assert adopt(ctx, member, view.id, folder).adopted == 0


def test_files_can_be_moved(ctx: Services, member: Caller, job: int, tmp_path: Path) -> None:
    view = held(ctx, member, job)
    folder = old(tmp_path / "old", epoch_1__clean="{}", epoch_1__noise="{")
    adopt(ctx, member, view.id, folder, move=True)
    assert [p.name for p in (folder / "epoch-1").iterdir()] == ["noise.json"]


def test_several_files_and_a_score(ctx: Services, member: Caller, job: int, tmp_path: Path) -> None:
    outputs = [{"name": "frames/*.json", "kind": "json", "count": "2..3"}, {"name": "score.json", "kind": "json"}]
    view = held(ctx, member, job, outputs=outputs, score="score", cases=[{"id": "c"}])
    layout = {"frames/*.json": "{checkpoint}/f-*.json", "score.json": "{checkpoint}/s.json"}
    for n, (frames, score) in enumerate([(2, '{"score": 0.5, "x": 1}'), (2, '{"x": 1}'), (1, '{"score": 1}')], start=1):
        place = tmp_path / f"old/epoch-{n}"
        place.mkdir(parents=True)
        (place / "s.json").write_text(score)
        for frame in range(frames):
            (place / f"f-{frame}.json").write_text("{}")
    told = adopt(ctx, member, view.id, tmp_path / "old", layout=layout)
    assert [f.reason for f in told.faults] == [
        "score.json holds no finite number under 'score'.",
        "1 files are frames/*.json, not 2..3.",
    ]
    (cell,) = evaluations.cells(ctx, member, "default", view.id, states=["valid"])
    assert (cell.score, cell.scores) == (0.5, {"score": 0.5, "x": 1})
    assert [o["name"] for o in cell.outputs] == ["frames/0.json", "frames/1.json", "score.json"]
    assert cell.files == 3


def test_very_many_are_adopted_in_several_calls(ctx: Services, member: Caller, job: int, tmp_path: Path) -> None:
    view = held(ctx, member, job)
    folder = old(tmp_path / "old", epoch_1__clean="{}", epoch_1__noise="{}", epoch_3__noise="{}")
    after: int | None = 0
    adopted, calls = 0, 0
    while after is not None:
        told = adopt(ctx, member, view.id, folder, seconds=1e-9, after=after)
        adopted, after, calls = adopted + told.adopted, told.next, calls + 1
    assert (adopted, calls) == (3, 6)


@pytest.mark.parametrize(
    ("values", "asked", "kind", "words"),
    [
        ({"held": False}, {}, RefusedError, "is running"),
        ({"check": "c.py:f"}, {}, RefusedError, "check or a scorer"),
        ({"score": "score", "scores": "stdout"}, {}, RefusedError, "no file"),
        ({}, {"layout": {"out.json": "{checkpoint}.json"}}, UsageError, "every case"),
        ({"repeats": 2}, {}, UsageError, "every repeat"),
        ({}, {"layout": {"out.json": "{checkpoin}/{case}.json"}}, UsageError, "checkpoint"),
        ({}, {"layout": {"out.json": "{case"}}, UsageError, "brace"),
        ({}, {"layout": {"out.json": "{case!r}"}}, UsageError, "alone"),
        ({}, {"layout": {"out.json": "../{case}.json"}}, UsageError, "below"),
        ({}, {"layout": {"out.json": "{case}/*.json"}}, UsageError, "stars"),
        ({}, {"layout": {"ou.json": "{case}.json"}}, UsageError, "out.json"),
        ({"outputs": [{"name": "out.json"}, {"name": "b.txt"}]}, {}, UsageError, "b.txt"),
        ({}, {"layout": {}}, UsageError, "index.jsonl"),
    ],
)
def test_what_cannot_be_adopted_is_said(
    ctx: Services,
    member: Caller,
    job: int,
    tmp_path: Path,
    values: dict[str, Any],
    asked: dict[str, Any],
    kind: type[HeadwayError],
    words: str,
) -> None:
    view = held(ctx, member, job, **values)
    with pytest.raises(kind) as raised:
        adopt(ctx, member, view.id, tmp_path / "old", **asked)
    assert words in str(raised.value)


def test_a_folder_of_another_project_is_refused(ctx: Services, member: Caller, job: int) -> None:
    view = held(ctx, member, job)
    with pytest.raises(RefusedError, match="no folder of project"):
        adopt(ctx, member, view.id, ctx.root / "projects/other")
    with pytest.raises(UsageError, match="absolute"):
        adopt(ctx, member, view.id, Path("old"))
    with pytest.raises(NotFoundError):
        adopt(ctx, member, view.id + 1, ctx.root)


def test_a_quota_that_is_over_is_said_and_what_fitted_stays(
    ctx: Services, member: Caller, job: int, tmp_path: Path
) -> None:
    from headway.storage.quota import ProjectQuota

    view = held(ctx, member, job)
    folder = old(tmp_path / "old", epoch_1__clean="{}", epoch_1__noise="{}")
    ProjectQuota(ctx.project_folder("default")).set_limits(None, 3)
    with pytest.raises(RefusedError, match="1 were adopted") as refused:
        adopt(ctx, member, view.id, folder)
    assert refused.value.code == "over_quota"
    assert evaluations.get(ctx, member, "default", view.id).valid == 1


def test_a_lost_record_is_rebuilt_from_the_index(ctx: Services, member: Caller, job: int, tmp_path: Path) -> None:
    first = held(ctx, member, job, target=str(tmp_path / "out"))
    folder = old(tmp_path / "old", epoch_1__clean="{}", epoch_1__noise="{}", epoch_2__clean="{}")
    adopt(ctx, member, first.id, folder)
    with ctx.store.begin() as tx:
        cells = tx.evaluations.cells(first.id)
        # the record of these cells is lost
        tx.evaluations.change_cells([c.id for c in cells], state=CellState.WAITING, outputs=[], score=None, ran=0)
    Path(cells[1].path, "out.json").write_text("damaged")
    told = adopt(ctx, member, first.id, Path(first.target), layout={})
    assert (told.adopted, told.missing, [f.case for f in told.faults]) == (2, 3, ["noise"])
    with ctx.store.read() as tx:
        again = tx.evaluations.cells(first.id, [CellState.VALID])
    assert [(c.id, c.path, c.publication) for c in again] == [
        (c.id, c.path, c.publication) for c in (cells[0], cells[2])
    ]
    assert [(c.outputs, c.ran, c.cause) for c in again] == [(c.outputs, 0, "adopted") for c in (cells[0], cells[2])]
