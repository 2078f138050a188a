"""A controller that lost its lease changes nothing, in any loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from headway.controller.bill import Bill
from headway.controller.evaluate import Evaluate
from headway.controller.loop import Loop
from headway.controller.market import Market
from headway.controller.nodes import Nodes
from headway.controller.reap import Reap
from headway.controller.register import Register
from headway.controller.schedule import Schedule
from headway.controller.serve import Serve
from headway.protocol.exits import Cause
from headway.rules.states import EndpointState, EvaluationState, RunState, VersionState
from headway.store.base import LeaseLostError

from .conftest import House


def _queued(house: House) -> None:
    house.add_run()


def _late(house: House) -> None:
    house.add_run(max_wait=1.0)


def _noticed(house: House) -> None:
    house.add_run()
    Schedule(house.desk).step()
    with house.ctx.store.begin() as tx:
        tx.runs.put_nodes("local", [replace(n, notice=str(house.ctx.root)) for n in tx.runs.nodes()])


def _ended(house: House) -> None:
    run = house.add_run()
    Schedule(house.desk).step()
    house.report(f"{run.id}-1", {"event": "started"})
    house.end(f"{run.id}-1", Cause.DONE)


def _billed(house: House) -> None:
    run = house.add_run()
    Schedule(house.desk).step()
    house.report(f"{run.id}-1", {"event": "started"})
    Reap(house.desk).step()
    house.clock.now += 60


def _evaluation(house: House) -> None:
    job = house.add_run(state=RunState.SUCCEEDED)
    with house.ctx.store.begin() as tx:
        tx.evaluations.add(
            project_id=job.project_id, name="e", state=EvaluationState.RUNNING, reason="", remedy="", cause=None,
            job_id=job.id, plan={}, pauses=0, rounds=0, key=None, path="projects/default/evaluations/1",
            submitted_by=job.submitted_by, created_at=1.0, ended_at=None,
        )  # fmt: skip


def _version(house: House) -> None:
    job = house.add_run(state=RunState.SUCCEEDED)
    with house.ctx.store.begin() as tx:
        model = tx.products.add_model(project_id=job.project_id, name="m", now=1.0)
        tx.products.add_model_version(
            model_id=model.id, version=1, state=VersionState.CHECKING, reason="", source={"path": "nowhere.pt"},
            path="projects/default/models/m/1", weights="nowhere.pt", format="torch", bytes=1, sha256="0" * 64,
            predictor={"entry": "p.py:P"}, snapshot_id=None, key=None, created_by=job.submitted_by, created_at=1.0,
        )  # fmt: skip


def _endpoint(house: House) -> None:
    _version(house)
    with house.ctx.store.begin() as tx:
        version = tx.products.checking()[0]
        project = tx.people.project("default")
        assert project is not None
        endpoint = tx.endpoints.add(
            project_id=project.id, name="e", state=EndpointState.STARTING, reason="", revision=1, created_at=1.0,
            stopped_at=None,
        )  # fmt: skip
        tx.endpoints.add_revision(
            endpoint_id=endpoint.id, number=1, model_version_id=version.id, replicas=1, spec="small",
            max_duration=None, created_by=version.created_by, created_at=1.0,
        )  # fmt: skip


CASES: list[tuple[type[Loop], Callable[[House], None]]] = [
    (Nodes, lambda house: None),
    (Schedule, _queued),
    (Schedule, _late),
    (Market, _noticed),
    (Reap, _ended),
    (Bill, _billed),
    (Evaluate, _evaluation),
    (Register, _version),
    (Serve, _endpoint),
]


@pytest.mark.parametrize(("loop", "given"), CASES, ids=[loop.name for loop, _ in CASES])
def test_a_stale_lease_changes_nothing_and_the_new_holder_goes_on(
    house: House, loop: type[Loop], given: Callable[[House], None]
) -> None:
    given(house)
    if loop is Nodes:
        with house.ctx.store.begin() as tx:
            tx.runs.put_nodes("local", [])
    stale = house.desk
    with house.ctx.store.begin() as tx:
        assert stale.lease is not None
        tx.leases.release(stale.lease)
        lease = tx.leases.acquire("controller", "second", now=house.clock(), seconds=15.0)
    before, calls = house.record(), list(house.engine.calls)
    with pytest.raises(LeaseLostError):
        loop(stale).step()
    assert house.record() == before
    assert house.engine.calls == calls
    stale.lease = lease
    loop(stale).step()
    assert house.record() != before
