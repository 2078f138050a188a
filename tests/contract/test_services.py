"""Several apis at once on one record: what each kind of store must bear."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headway.rules.access import Role
from headway.services import evaluations, first_start, jobs, models, runs
from headway.services.context import Services
from headway.store.base import Store
from headway.testing.services import CODE, add_checkpoint, add_snapshot, caller, open_services
from headway.wire.evaluations import EvaluationRequest
from headway.wire.products import ModelRequest
from headway.wire.runs import JobRequest, StopRequest


@pytest.fixture
def ctx(empty_store: Store, tmp_path: Path) -> Iterator[Services]:
    yield open_services(tmp_path, empty_store)


def at_once(count: int, act: Callable[[], object]) -> list[object]:
    """What `act()` returned or raised in `count` threads that began together."""
    gate, found = threading.Barrier(count), list[object]()

    def body() -> None:
        gate.wait()
        try:
            found.append(act())
        except Exception as error:
            found.append(error)

    threads = [threading.Thread(target=body) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_first_starts_at_once_make_one_record(empty_store: Store, tmp_path: Path) -> None:
    homes = iter([tmp_path / str(n) for n in range(4)])
    for n in range(4):
        (tmp_path / str(n)).mkdir()

    def start() -> None:
        open_services(next(homes), empty_store)

    assert at_once(4, start) == [None] * 4
    with empty_store.read() as tx:
        assert [u.name for u in tx.people.users()] == ["admin", "gateway"]
        assert len(tx.runs.specs()) == len(first_start.SPECS)
        admin = tx.people.user("admin")
        assert admin is not None
        # each home has a token of its own, and none made another's worthless
        assert [t.revoked_at for t in tx.people.tokens(admin.id)] == [None] * 4


def test_one_key_makes_one_of_each(ctx: Services) -> None:
    who = caller(ctx, "mia", Role.MEMBER)
    add_snapshot(ctx)
    made = at_once(4, lambda: jobs.submit(ctx, who, "default", JobRequest(command=["x"], key="k")).id)
    assert len(set(made)) == 1
    job = runs.listing(ctx, who, "default")[0].id
    assert made == [job] * 4
    add_checkpoint(ctx, job, "a.pt")
    evaluation = EvaluationRequest(
        name="e",
        job=job,
        cases=[{"id": "c"}],
        worker="e.py:E",
        outputs=[{"name": "score.json"}],
        snapshot=CODE,
        key="k",
    )
    assert len(set(at_once(4, lambda: evaluations.create(ctx, who, "default", evaluation).id))) == 1
    model = ModelRequest(job=job, checkpoint="a.pt", predictor="p.py:P", snapshot=CODE, key="k")
    assert len(set(at_once(4, lambda: models.register(ctx, who, "default", "m", model).id))) == 1
    with ctx.store.read() as tx:
        project = tx.people.project("default")
        assert project is not None
        assert len(tx.evaluations.listing(project.id)) == 1
        assert [len(tx.evaluations.cells(e.id)) for e in tx.evaluations.listing(project.id)] == [1]


def test_a_stop_and_a_start_at_once_agree(ctx: Services) -> None:
    from headway.rules.states import RunState

    who = caller(ctx, "mia", Role.MEMBER)
    for _ in range(5):
        run = jobs.submit(ctx, who, "default", JobRequest(command=["x"])).id

        def start(run: int = run) -> bool:
            with ctx.store.begin() as tx:
                return tx.runs.change_if(run, [RunState.QUEUED], state=RunState.STARTING)

        acts = iter([start, lambda run=run: runs.stop(ctx, who, run, StopRequest())])
        at_once(2, lambda acts=acts: next(acts)())
        with ctx.store.read() as tx:
            found = tx.runs.get(run)
            assert found is not None
            # it either never started, or it lives and knows that it should stop
            assert found.stop_at is not None
            assert found.state in (RunState.STOPPED, RunState.STARTING)


def test_many_submits_at_once_are_all_recorded_once(ctx: Services) -> None:
    """Each of 16 threads sends its own jobs, and every job a second time, as after a lost answer."""
    who = caller(ctx, "mia", Role.MEMBER)
    numbers = iter(range(16))

    def act() -> list[tuple[str, int]]:
        own = next(numbers)
        keys = [f"{own}-{n}" for n in range(10)] * 2
        return [(k, jobs.submit(ctx, who, "default", JobRequest(command=["true"], key=k)).id) for k in keys]

    found = at_once(16, act)
    assert all(isinstance(f, list) for f in found), found
    pairs = {pair for part in found for pair in part}  # type: ignore[attr-defined]
    assert len(pairs) == len({key for key, _ in pairs}) == len({number for _, number in pairs}) == 160
    with ctx.store.read() as tx:
        assert {r.id for r in tx.runs.listing(limit=1000)} == {number for _, number in pairs}


def test_listings_by_tag_and_name_and_who_is_ahead(ctx: Services) -> None:
    who = caller(ctx, "mia", Role.MEMBER)
    request = {"command": ["true"], "tags": {"team": "vision", "it's odd.": "1"}, "name": "ResNet_50%"}
    first = jobs.submit(ctx, who, "default", JobRequest.model_validate(request)).id
    second = jobs.submit(ctx, who, "default", JobRequest(command=["true"], tags={"team": "text"})).id

    def listed(tags: list[str], name: str | None = None) -> list[int]:
        return [j.id for j in jobs.listing(ctx, who, "default", tags=tags, name=name)]

    assert listed(["team"]) == [second, first]
    assert listed(["team=vision"]) == listed([], "resnet_50%") == listed(["it's odd.=1"]) == [first]
    assert listed(["team=none"]) == listed(["none"]) == listed([], "resnet%50") == []
    assert runs.get(ctx, who, second).waits == f"waits behind job {first}"
    assert runs.get(ctx, who, first).waits == ""
