from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headway.errors import ForbiddenError, HeadwayError, NotFoundError, RefusedError, UsageError
from headway.protocol import hints
from headway.rules.access import Caller
from headway.rules.states import CellState, EndpointState, VersionState
from headway.services import access, endpoints, jobs, models
from headway.services.context import Services
from headway.testing.services import CODE, Clock, add_checkpoint, add_snapshot, evaluate, start_attempt
from headway.testing.stores import run_values
from headway.wire.people import TokenRequest
from headway.wire.products import EndpointRequest, ModelRequest, ModelVersionView
from headway.wire.runs import JobRequest


@pytest.fixture
def job(ctx: Services, member: Caller) -> int:
    """A job with two valid checkpoints and one that is not."""
    add_snapshot(ctx)
    run = jobs.submit(ctx, member, "default", JobRequest(command=["true"])).id
    add_checkpoint(ctx, run, "epoch-01.pt", epoch=1)
    add_checkpoint(ctx, run, "epoch-02.pt", epoch=2)
    add_checkpoint(ctx, run, "epoch-03.pt", epoch=3, valid=False, reason="cut off")
    return run


def set_cells(ctx: Services, evaluation: int, scores: dict[tuple[str, str], float]) -> None:
    with ctx.store.begin() as tx:
        names = {c.id: c.name for c in tx.evaluations.checkpoints(evaluation).values()}
        for cell in tx.evaluations.cells(evaluation):
            score = scores.get((names[cell.checkpoint_id], cell.case_id))
            if score is not None:
                tx.evaluations.change_cell(cell.id, state=CellState.VALID, score=score, ran=1)


def register(ctx: Services, who: Caller, job: int, name: str = "digits", **values: Any) -> ModelVersionView:
    usual: dict[str, Any] = {"job": job, "predictor": "predictor.py:Digits", "snapshot": CODE}
    return models.register(ctx, who, "default", name, ModelRequest(**{**usual, **values}))


def test_the_best_checkpoint_becomes_a_version(ctx: Services, member: Caller, job: int, tmp_path: Path) -> None:
    evaluation = evaluate(ctx, member, job).id
    with pytest.raises(RefusedError, match="score"):
        register(ctx, member, job, evaluation=evaluation, case="clean")
    set_cells(ctx, evaluation, {("epoch-01.pt", "clean"): 0.9, ("epoch-02.pt", "clean"): 0.8})
    listener = hints.Listener(tmp_path / "hints", "test")
    view = register(ctx, member, job, evaluation=evaluation, case="clean", key="k")
    assert ("model", "digits@1") in listener.receive()
    listener.close()
    assert (view.version, view.state, view.format) == (1, "checking", "torch")
    assert view.source["checkpoint"] == "epoch-01.pt"
    assert (view.source["score"], view.source["evaluation"]) == (0.9, evaluation)
    assert register(ctx, member, job, evaluation=evaluation, case="clean", key="k") == view
    set_cells(ctx, evaluation, {("epoch-01.pt", "noise"): 0.1, ("epoch-02.pt", "noise"): 0.7})
    mean = register(ctx, member, job, name="mean", evaluation=evaluation)
    assert (mean.source["checkpoint"], mean.source["score"]) == ("epoch-02.pt", pytest.approx(0.75))
    assert "case" not in mean.source
    lower = evaluate(ctx, member, job, better="lower").id
    low = register(ctx, member, job, name="low", evaluation=lower, case="clean")
    assert (low.source["checkpoint"], low.source["score"]) == ("epoch-02.pt", 0.8)
    second = register(ctx, member, job, checkpoint="epoch-02.pt")
    assert (second.version, second.source["checkpoint"]) == (2, "epoch-02.pt")
    assert models.listing(ctx, member, "default") == [second, low, mean]
    assert models.versions(ctx, member, "default", "digits") == [view, second]


@pytest.mark.parametrize(
    ("values", "kind", "words"),
    [
        ({}, UsageError, "evaluation"),
        ({"checkpoint": "epoch-1.pt"}, NotFoundError, "epoch-01.pt"),
        ({"checkpoint": "epoch-03.pt"}, RefusedError, "cut off"),
        ({"checkpoint": "epoch-01.pt", "predictor": "Digits"}, UsageError, "Digits"),
        ({"checkpoint": "epoch-01.pt", "name": "Up/../down"}, UsageError, "down"),
        ({"evaluation": 99, "case": "clean"}, NotFoundError, "99"),
    ],
)
def test_a_wrong_model_is_refused(
    ctx: Services, member: Caller, job: int, values: dict[str, Any], kind: type[HeadwayError], words: str
) -> None:
    with pytest.raises(kind) as raised:
        register(ctx, member, job, **values)
    assert words in str(raised.value)
    assert models.listing(ctx, member, "default") == []


@pytest.fixture
def model(ctx: Services, member: Caller, job: int) -> int:
    view = register(ctx, member, job, checkpoint="epoch-01.pt")
    with ctx.store.begin() as tx:
        tx.products.change_model_version(view.id, state=VersionState.READY)
    return view.id


def deploy(ctx: Services, who: Caller, **values: Any) -> Any:
    return endpoints.deploy(ctx, who, "default", EndpointRequest(**{"name": "digits", "model": "digits@1", **values}))


def replica(ctx: Services, endpoint: str, **attempt: Any) -> int:
    """A replica run as the controller makes one, with a running attempt."""
    with ctx.store.begin() as tx:
        found = tx.endpoints.by_name(endpoint)
        project, user = tx.people.project("default"), tx.people.user("mia")
        assert found is not None
        assert project is not None
        assert user is not None
        run = tx.runs.add(**run_values(project, user, owner="endpoint", owner_id=found.id))
    start_attempt(ctx, run.id, **{"address": f"127.0.0.1:{9000 + run.id}", "secret": "s", "ready": True, **attempt})
    return run.id


def test_an_endpoint_and_its_revisions(ctx: Services, member: Caller, model: int, viewer: Caller) -> None:
    first = deploy(ctx, member)
    assert (first.state, first.revision, first.path, first.model) == ("starting", 1, "/e/digits", "digits@1")
    # asking for the same again (an answer was lost) changes nothing
    assert deploy(ctx, member, model="digits") == first
    assert deploy(ctx, member, replicas=2).revision == 2
    assert endpoints.get(ctx, viewer, "default", "digits").revision == 2
    with pytest.raises(ForbiddenError):
        deploy(ctx, viewer)
    run = replica(ctx, "digits")
    stopped = endpoints.stop(ctx, member, "default", "digits")
    assert stopped.state == "stopped"
    assert endpoints.stop(ctx, member, "default", "digits") == stopped
    with ctx.store.read() as tx:
        found = tx.runs.get(run)
        assert found is not None
        assert found.stop_at is not None
    again = deploy(ctx, member, replicas=2)
    assert (again.state, again.revision) == ("starting", 3)


@pytest.mark.parametrize(
    ("values", "kind", "words"),
    [
        ({"model": "digit"}, NotFoundError, "digits"),
        ({"model": "digits@7"}, NotFoundError, "7"),
        ({"model": "digits@2"}, RefusedError, "checking"),
        ({"spec": "tiny"}, UsageError, "tiny"),
    ],
)
def test_a_wrong_endpoint_is_refused(
    ctx: Services, member: Caller, job: int, model: int, values: dict[str, Any], kind: type[HeadwayError], words: str
) -> None:
    register(ctx, member, job, checkpoint="epoch-02.pt")
    with pytest.raises(kind) as raised:
        deploy(ctx, member, **values)
    assert words in str(raised.value)
    assert endpoints.listing(ctx, member, "default") == []
    # the newest that is ready is meant where no version is named
    assert deploy(ctx, member, model="digits").model == "digits@1"


def test_a_name_of_another_project_is_taken(ctx: Services, member: Caller, model: int) -> None:
    with ctx.store.begin() as tx:
        other = tx.people.add_project(name="other", now=1.0)
        tx.endpoints.add(
            project_id=other.id, name="digits", state=EndpointState.READY, reason="", revision=1, created_at=1.0,
            stopped_at=None,
        )  # fmt: skip
    with pytest.raises(RefusedError) as refused:
        deploy(ctx, member)
    assert refused.value.code == "name_taken"
    with pytest.raises(NotFoundError):
        endpoints.get(ctx, member, "default", "digits")


def test_the_gateway_learns_of_ready_replicas_and_tokens(
    ctx: Services, member: Caller, model: int, tmp_path: Path, clock: Clock
) -> None:
    deploy(ctx, member)
    token = endpoints.add_token(ctx, member, "default", "digits", TokenRequest(name="app", lifetime=60))
    gone = endpoints.add_token(ctx, member, "default", "digits", TokenRequest(name="old"))
    endpoints.revoke_token(ctx, member, "default", "digits", gone.id)
    ready = replica(ctx, "digits")
    replica(ctx, "digits", ready=False)
    draining = replica(ctx, "digits")
    with ctx.store.begin() as tx:
        tx.runs.change(draining, stop_at=1.0)
    gateway = access.authenticate(ctx, f"Bearer {(tmp_path / 'gateway.token').read_text().strip()}")
    (route,) = endpoints.routes(ctx, gateway).routes
    assert [(r.run, r.address, r.secret) for r in route.replicas] == [(ready, f"127.0.0.1:{9000 + ready}", "s")]
    assert [(t.hash, t.expires_at, t.revoked) for t in route.tokens] == [
        (access.digest(token.token), clock.now + 60, False),
        (access.digest(gone.token), None, True),
    ]
    with pytest.raises(ForbiddenError):
        endpoints.routes(ctx, member)
    view = endpoints.get(ctx, member, "default", "digits")
    assert [(r.run, r.ready) for r in view.replicas] == [(ready, True), (ready + 1, False), (ready + 2, True)]
    assert [t.name for t in endpoints.tokens(ctx, member, "default", "digits")] == ["app", "old"]
    endpoints.stop(ctx, member, "default", "digits")
    (route,) = endpoints.routes(ctx, gateway).routes
    assert (route.state, route.replicas) == ("stopped", [])
