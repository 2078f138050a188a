"""What a reader of a project is told: each thing as it is, then what is different, and nothing twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headway.rules.access import Caller
from headway.rules.states import CellState, EvaluationState, RunState
from headway.services import cell_checks, changes, evaluation_views, jobs
from headway.services.context import Services
from headway.testing.services import add_checkpoint, add_snapshot, end_run, evaluate
from headway.wire.evaluations import EvaluationView, VerifyRequest
from headway.wire.runs import JobRequest

from .test_cell_checks import finish


@pytest.fixture
def evaluation(ctx: Services, member: Caller) -> EvaluationView:
    add_snapshot(ctx)
    run = jobs.submit(ctx, member, "default", JobRequest(command=["true"])).id
    add_checkpoint(ctx, run, "a.pt")
    return evaluate(ctx, member, run)


def told(watch: changes.Watch) -> list[dict[str, object]]:
    return [json.loads(text) for kind, text in watch.look() if kind == "evaluation"]


def test_an_ended_evaluation_is_told_again_when_verify_finds_damage(
    ctx: Services, member: Caller, evaluation: EvaluationView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "SHARE", 0.0)
    files = finish(ctx, evaluation.id)
    with ctx.store.begin() as tx:
        # as `stop` leaves one: verify does not change its state
        tx.evaluations.change(evaluation.id, state=EvaluationState.STOPPED)
    watch = changes.Watch(ctx, member, "default")
    assert [(e["state"], e["valid"]) for e in told(watch)] == [("stopped", 2)]
    assert told(watch) == []
    files[0].write_bytes(b"{}")
    cell_checks.verify(ctx, member, "default", evaluation.id, VerifyRequest())
    assert [(e["state"], e["valid"], e["invalid"]) for e in told(watch)] == [("stopped", 1, 1)]
    assert told(watch) == []


def test_an_ended_evaluation_is_told_again_when_a_cell_is_adopted_or_its_last_worker_ends(
    ctx: Services, member: Caller, evaluation: EvaluationView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "SHARE", 0.0)
    with ctx.store.begin() as tx:
        tx.evaluations.change(evaluation.id, state=EvaluationState.STOPPED, ended_at=9.0)
        cell = tx.evaluations.cells(evaluation.id)[0]
    watch = changes.Watch(ctx, member, "default")
    assert [e["valid"] for e in told(watch)] == [0]
    with ctx.store.begin() as tx:
        tx.evaluations.change_cell(cell.id, state=CellState.VALID, bytes=7, files=1, cause="adopted")
    assert [(e["valid"], e["bytes"]) for e in told(watch)] == [(1, 7)]
    with ctx.store.begin() as tx:
        tx.runs.change(evaluation.jobs[0], owner=evaluation_views.OWNER, owner_id=evaluation.id)
    assert [e["runs"] for e in told(watch)] == [[evaluation.jobs[0]]]
    end_run(ctx, evaluation.jobs[0], RunState.STOPPED)
    # it was asked for; its view says the same
    assert told(watch) == []


def test_very_many_cells_of_ended_evaluations_are_not_counted_at_each_look(
    ctx: Services, member: Caller, evaluation: EvaluationView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "SHARE", 1e9)
    files: list[Path] = finish(ctx, evaluation.id)
    watch = changes.Watch(ctx, member, "default")
    assert [e["valid"] for e in told(watch)] == [2]
    with ctx.store.begin() as tx:
        for cell in tx.evaluations.cells(evaluation.id):
            tx.evaluations.change_cell(cell.id, state=CellState.INVALID)
    assert len(files) == 2
    assert told(watch) == []
    monkeypatch.setattr(watch, "_count_at", 0.0)
    assert [e["invalid"] for e in told(watch)] == [2]
