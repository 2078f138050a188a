"""Outputs read again: what is as it was, what is not, and who else had it."""

from __future__ import annotations

import errno
import hashlib
import json
from pathlib import Path

import pytest

from headway.errors import ForbiddenError, NotFoundError, RefusedError
from headway.rules.access import Caller
from headway.rules.states import CellState, EvaluationState
from headway.services import cell_checks, evaluations, jobs
from headway.services.context import Services
from headway.testing.services import add_checkpoint, add_snapshot, evaluate
from headway.wire.evaluations import VerifyRequest
from headway.wire.runs import JobRequest


@pytest.fixture
def job(ctx: Services, member: Caller) -> int:
    add_snapshot(ctx)
    run = jobs.submit(ctx, member, "default", JobRequest(command=["true"])).id
    add_checkpoint(ctx, run, "a.pt")
    add_checkpoint(ctx, run, "b.pt")
    return run


def finish(ctx: Services, evaluation: int) -> list[Path]:
    """Writes an output for each cell and ends the evaluation; the files."""
    files = []
    with ctx.store.begin() as tx:
        rows = []
        for cell in tx.evaluations.cells(evaluation):
            file = ctx.root / cell.path / "score.json"
            file.parent.mkdir(parents=True)
            content = f'{{"score": {cell.id}}}'.encode()
            file.write_bytes(content)
            files.append(file)
            output = {"name": "score.json", "bytes": len(content), "kind": "json"}
            rows.append(
                {
                    "cell": cell.id, "publication": str(cell.id), "score": 1.0, "scores": {}, "path": cell.path,
                    "outputs": [{**output, "sha256": hashlib.sha256(content).hexdigest()}], "seconds": None,
                    "bytes": len(content), "files": 1, "ended_at": 5.0,
                }
            )  # fmt: skip
        tx.evaluations.publish(rows)
        tx.evaluations.change(evaluation, state=EvaluationState.SUCCEEDED, ended_at=9.0)
    return files


def test_whole_outputs_verify(ctx: Services, member: Caller, viewer: Caller, job: int) -> None:
    view = evaluate(ctx, member, job)
    finish(ctx, view.id)
    proof = cell_checks.verify(ctx, member, "default", view.id, VerifyRequest())
    assert (proof.checked, proof.total, proof.faults, proof.next) == (4, 4, [], None)
    assert proof.bytes == evaluations.get(ctx, member, "default", view.id).bytes
    with pytest.raises(ForbiddenError):
        cell_checks.verify(ctx, viewer, "default", view.id, VerifyRequest())
    with pytest.raises(NotFoundError):
        cell_checks.verify(ctx, member, "default", 99, VerifyRequest())


def test_damage_of_each_kind_is_found_and_said(ctx: Services, member: Caller, job: int) -> None:
    view = evaluate(ctx, member, job)
    truncated, flipped, gone, whole = finish(ctx, view.id)
    truncated.write_bytes(truncated.read_bytes()[:-1])
    flipped.write_bytes(flipped.read_bytes().swapcase())
    gone.unlink()
    proof = cell_checks.verify(ctx, member, "default", view.id, VerifyRequest())
    said = [f.reason for f in proof.faults]
    size = len(whole.read_bytes())
    assert said == [
        f"score.json has {size - 1} bytes, not {size}.",
        "score.json has other bytes than when it was published.",
        "score.json is gone.",
    ]
    assert [(f.row, f.case) for f in proof.faults] == [("a", "clean"), ("a", "noise"), ("b", "clean")]
    found = evaluations.get(ctx, member, "default", view.id)
    assert (found.state, found.valid, found.invalid) == ("failed", 1, 3)
    assert found.reason == "3 published outputs were found damaged; see the cells."
    cells = evaluations.cells(ctx, member, "default", view.id, states=["invalid"])
    assert [(c.cause, c.reason, c.outputs) for c in cells] == [("damaged", reason, []) for reason in said]
    index = [json.loads(line) for line in Path(view.path, "index.jsonl").read_text().splitlines()]
    assert [line["state"] for line in index] == ["invalid", "invalid", "invalid", "valid"]
    again = evaluations.retry(ctx, member, "default", view.id)
    assert (again.state, again.valid, again.waiting) == ("running", 1, 3)


def test_a_link_is_damage_and_is_given_to_nobody(ctx: Services, member: Caller, job: int, tmp_path: Path) -> None:
    view = evaluate(ctx, member, job)
    linked, *_ = finish(ctx, view.id)
    copy = tmp_path / "copy"
    copy.write_bytes(linked.read_bytes())
    linked.unlink()
    linked.symlink_to(copy)
    cell = evaluations.cells(ctx, member, "default", view.id)[0].id
    with pytest.raises(NotFoundError, match="is gone"):
        evaluations.file(ctx, member, "default", view.id, cell, "score.json")
    proof = cell_checks.verify(ctx, member, "default", view.id, VerifyRequest())
    assert [f.reason for f in proof.faults] == ["score.json is a link."]


def test_a_disk_that_is_away_condemns_nothing(
    ctx: Services, member: Caller, job: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "mnt"
    target.mkdir()
    view = evaluate(ctx, member, job, target=str(target))
    finish(ctx, view.id)
    target.rename(tmp_path / "away")
    with pytest.raises(RefusedError, match="is not there"):
        cell_checks.verify(ctx, member, "default", view.id, VerifyRequest())
    assert not target.exists()
    (tmp_path / "away").rename(target)

    def broken(path: Path) -> str:
        raise OSError(errno.EIO, "Input/output error", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(cell_checks, "file_digest", broken)
        with pytest.raises(RefusedError, match="cannot be read"):
            cell_checks.verify(ctx, member, "default", view.id, VerifyRequest())
    proof = cell_checks.verify(ctx, member, "default", view.id, VerifyRequest())
    assert (proof.checked, proof.faults) == (4, [])


def test_what_is_damaged_can_be_run_again_at_once(ctx: Services, member: Caller, job: int) -> None:
    view = evaluate(ctx, member, job)
    finish(ctx, view.id)[2].unlink()
    proof = cell_checks.verify(ctx, member, "default", view.id, VerifyRequest(again=True))
    assert len(proof.faults) == 1
    found = evaluations.get(ctx, member, "default", view.id)
    assert (found.state, found.valid, found.waiting, found.ended_at) == ("running", 3, 1, None)


def test_those_that_share_a_damaged_output_lose_it_too(ctx: Services, member: Caller, job: int) -> None:
    first = evaluate(ctx, member, job)
    files = finish(ctx, first.id)
    second = evaluate(ctx, member, job, name="second")
    assert second.reused == 4
    with ctx.store.begin() as tx:
        tx.evaluations.change(second.id, state=EvaluationState.SUCCEEDED)
    files[0].unlink()
    cell_checks.verify(ctx, member, "default", second.id, VerifyRequest(again=True))
    views = [evaluations.get(ctx, member, "default", e.id) for e in (first, second)]
    assert [(v.state, v.valid, v.invalid, v.waiting) for v in views] == [("failed", 3, 1, 0), ("running", 3, 0, 1)]
    with ctx.store.read() as tx:
        (waits,) = tx.evaluations.cells(second.id, [CellState.WAITING])
    # it is made in its own place this time
    assert waits.path == f"projects/default/evaluations/{second.id}/outputs/a/clean"


def test_very_many_are_read_in_several_calls(ctx: Services, member: Caller, job: int) -> None:
    view = evaluate(ctx, member, job)
    finish(ctx, view.id)[3].unlink()
    after, seen = 0, []
    while True:
        proof = cell_checks.verify(ctx, member, "default", view.id, VerifyRequest(after=after, limit=3))
        seen.append((proof.checked, len(proof.faults)))
        if proof.next is None:
            break
        after = proof.next
    assert seen == [(3, 0), (1, 1)]
