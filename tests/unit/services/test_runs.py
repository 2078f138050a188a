from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from headway.errors import ForbiddenError, NotFoundError, RefusedError, UsageError
from headway.protocol import hints
from headway.rules.access import Caller
from headway.rules.records import Node
from headway.rules.scheduling import shape_of
from headway.rules.states import RunState
from headway.services import jobs, nodes, platform, runs, submissions
from headway.services.context import Services
from headway.testing.services import CODE, Clock, add_checkpoint, add_snapshot, end_run, start_attempt
from headway.wire.runs import JobRequest, RunView, StopRequest

GIB = 1 << 30


def submit(ctx: Services, who: Caller, **values: Any) -> RunView:
    return jobs.submit(ctx, who, "default", JobRequest(**{"command": ["true"], **values}))


def put_node(ctx: Services, cpus: float = 8, memory: int = 32 * GIB, accelerators: int = 0) -> None:
    found = [{"index": n, "kind": "H200", "memory_bytes": 1, "uuid": ""} for n in range(accelerators)]
    node = Node(
        name="n1", engine="local", address="", cpus=cpus, memory_bytes=memory, accelerators=found, declared=True,
        seen_at=1.0,
    )  # fmt: skip
    with ctx.store.begin() as tx:
        tx.runs.put_nodes("local", [node])


def test_a_submitted_run_is_in_the_record_and_a_hint_was_sent(ctx: Services, member: Caller, tmp_path: Path) -> None:
    listener = hints.Listener(tmp_path / "hints", "test")
    view = submit(ctx, member, name="first", parameters={"lr": 0.1}, spec="medium", datasets=[])
    assert ("run", str(view.id)) in listener.receive()
    listener.close()
    assert (view.state, view.submitted_by, view.cpus, view.memory_bytes) == ("queued", "mia", 2.0, 4 * GIB)
    assert view == runs.get(ctx, member, view.id)
    with ctx.store.read() as tx:
        run = tx.runs.get(view.id)
        assert run is not None
        assert run.work == {
            "checkpoints": ["*.pt", "*.pth", "*.safetensors", "*/"], "metric_patterns": [], "retention": {},
            "compat": None, "view": None,
        }  # fmt: skip
        assert run.shape == shape_of(run)
        assert (run.queued_at, run.position, run.blocked, run.limits) == (
            run.created_at,
            run.created_at,
            False,
            {"hang": 1800},
        )


def test_a_key_that_was_used_returns_the_first_run(ctx: Services, member: Caller) -> None:
    first = submit(ctx, member, key="k", name="one")
    assert submit(ctx, member, key="k", name="two") == first
    assert len(runs.listing(ctx, member, "default")) == 1


def test_many_with_one_key_at_once_get_one_run(ctx: Services, member: Caller) -> None:
    gate, found = threading.Barrier(5), []

    def act() -> None:
        gate.wait()
        found.append(submit(ctx, member, key="race").id)

    threads = [threading.Thread(target=act) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 5
    assert len(set(found)) == 1


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"spec": "gpu", "accelerators": 8}, "asked 8 GPUs; the largest node has 0"),
        ({"cpus": 9}, "asked 9 CPUs; the largest node has 8"),
        ({"memory_bytes": 64 * GIB}, "the largest node has 32.0 GiB"),
    ],
)
def test_more_than_any_node_has_is_refused(ctx: Services, member: Caller, values: dict[str, Any], words: str) -> None:
    put_node(ctx)
    with pytest.raises(RefusedError) as refused:
        submit(ctx, member, **values)
    assert words in refused.value.message
    assert refused.value.code == "too_large"
    assert runs.listing(ctx, member, "default") == []


@pytest.mark.parametrize(
    ("values", "kind", "words"),
    [
        ({"spec": "smal"}, UsageError, "small"),
        ({"snapshot": "d" * 64}, NotFoundError, "dddddd"),
        ({"datasets": ["digits@1"]}, NotFoundError, "digits"),
        ({"command": [""]}, UsageError, "empty"),
        ({"command": ["a\0b"]}, UsageError, "zero byte"),
        ({"environment": {"A=B": "c"}}, UsageError, "A=B"),
        ({"metric_patterns": [{"Name": "loss", "Regex": "loss=("}]}, UsageError, "loss=("),
        ({"metric_patterns": [{"Name": "loss", "Regex": "loss"}]}, UsageError, "0 groups"),
        ({"metric_patterns": [{"Nam": "loss", "Regex": "(x)"}]}, UsageError, "Nam"),
    ],
)
def test_a_wrong_value_is_named(
    ctx: Services, member: Caller, values: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind) as raised:
        submit(ctx, member, **values)
    assert words in str(raised.value)
    assert runs.listing(ctx, member, "default") == []


def test_metric_patterns_in_either_spelling(ctx: Services, member: Caller) -> None:
    pattern = [{"Name": "a", "Regex": "a=(.*)"}, {"name": "b", "regex": "b=(.*)"}]
    assert submissions.metric_patterns(pattern) == [{"name": "a", "regex": "a=(.*)"}, {"name": "b", "regex": "b=(.*)"}]


def test_a_run_names_its_code(ctx: Services, member: Caller) -> None:
    add_snapshot(ctx)
    view = submit(ctx, member, snapshot=CODE)
    assert (view.snapshot, view.commit, view.dirty) == (CODE, "abc", True)
    assert runs.get(ctx, member, view.id).commit == "abc"


def test_a_run_that_waits_is_stopped_at_once(ctx: Services, member: Caller, clock: Clock) -> None:
    for held in (False, True):
        view = submit(ctx, member, held=held)
        stopped = runs.stop(ctx, member, view.id, StopRequest(reason="enough"))
        assert (stopped.state, stopped.reason, stopped.cause) == ("stopped", "enough", "stopped")
        assert stopped.ended_at is not None
        assert runs.stop(ctx, member, view.id, StopRequest()) == stopped


def test_a_running_run_is_asked_to_stop(ctx: Services, member: Caller, clock: Clock) -> None:
    view = submit(ctx, member)
    start_attempt(ctx, view.id)
    assert runs.stop(ctx, member, view.id, StopRequest(reason="enough", grace=3)).state == "running"
    clock.now += 10
    runs.stop(ctx, member, view.id, StopRequest(reason="again", grace=1))
    with ctx.store.read() as tx:
        run = tx.runs.get(view.id)
        assert run is not None
        # the first request's time and words stand; the later one may still shorten the grace period
        assert (run.stop_at, run.stop_reason, run.grace) == (clock.now - 10, "enough", 1)
    end_run(ctx, view.id)
    assert runs.stop(ctx, member, view.id, StopRequest()).state == "succeeded"


def test_hold_release_and_retry(ctx: Services, member: Caller) -> None:
    view = submit(ctx, member)
    assert runs.hold(ctx, member, view.id).state == "held"
    assert runs.hold(ctx, member, view.id).state == "held"
    assert runs.release(ctx, member, view.id).state == "queued"
    with pytest.raises(RefusedError, match="succeeded"):
        runs.retry(ctx, member, end_run(ctx, submit(ctx, member).id).id)
    start_attempt(ctx, view.id)
    with pytest.raises(RefusedError, match="only a run that is queued can be held"):
        runs.hold(ctx, member, view.id)
    end_run(ctx, view.id, RunState.FAILED)
    with ctx.store.begin() as tx:
        tx.runs.change(view.id, losses=3, exit_code=1, stop_at=4.0)
    again = runs.retry(ctx, member, view.id)
    assert (again.state, again.exit_code, again.ended_at, again.attempts) == ("queued", None, None, 1)
    with ctx.store.read() as tx:
        run = tx.runs.get(view.id)
        assert run is not None
        assert (run.losses, run.stop_at) == (0, None)


def test_a_worker_is_not_held_by_itself(ctx: Services, member: Caller) -> None:
    view = submit(ctx, member)
    with ctx.store.begin() as tx:
        tx.runs.change(view.id, owner="evaluation", owner_id=7)
    for act in (runs.hold, runs.release, runs.retry):
        with pytest.raises(RefusedError, match="evaluation 7"):
            act(ctx, member, view.id)


def test_listing_filters_and_pages(ctx: Services, member: Caller) -> None:
    ids = [submit(ctx, member).id for _ in range(4)]
    start_attempt(ctx, ids[1])
    end_run(ctx, ids[0])

    def listed(**values: Any) -> list[int]:
        return [r.id for r in runs.listing(ctx, member, "default", **values)]

    assert listed() == ids[::-1]
    assert listed(state="live") == [ids[1]]
    assert listed(state="ended") == [ids[0]]
    assert listed(state="open") == [ids[3], ids[2], ids[1]]
    assert listed(state="queued", limit=1) == [ids[3]]
    assert listed(before=ids[2]) == [ids[1], ids[0]]
    assert listed(owner="endpoint") == []
    with pytest.raises(UsageError, match="running"):
        listed(state="runing")


def test_viewers_look_and_do_nothing_and_strangers_see_nothing(
    ctx: Services, member: Caller, viewer: Caller, stranger: Caller
) -> None:
    view = submit(ctx, member)
    assert runs.get(ctx, viewer, view.id) == view
    for act in (
        lambda who: submit(ctx, who),
        lambda who: runs.stop(ctx, who, view.id, StopRequest()),
        lambda who: runs.hold(ctx, who, view.id),
    ):
        with pytest.raises(ForbiddenError):
            act(viewer)
        with pytest.raises(NotFoundError):
            act(stranger)
    with pytest.raises(NotFoundError):
        runs.get(ctx, stranger, view.id)
    with pytest.raises(NotFoundError):
        runs.get(ctx, stranger, view.id + 100)


def test_jobs_count_their_valid_checkpoints(ctx: Services, member: Caller) -> None:
    view = submit(ctx, member)
    add_checkpoint(ctx, view.id, "epoch-02.pt", epoch=2)
    add_checkpoint(ctx, view.id, "epoch-01.pt", epoch=1)
    add_checkpoint(ctx, view.id, "bad.pt", epoch=3, valid=False, reason="cut off")
    (job,) = jobs.listing(ctx, member, "default", before=None, limit=10)
    assert job.checkpoints == 2
    found = runs.checkpoints(ctx, member, view.id)
    assert [(c.name, c.valid) for c in found] == [("epoch-01.pt", True), ("epoch-02.pt", True), ("bad.pt", False)]
    assert found[0].path == str(ctx.root / f"projects/default/jobs/{view.id}/checkpoints/epoch-01.pt")


def test_nodes_show_what_live_attempts_leave(ctx: Services, member: Caller) -> None:
    put_node(ctx, accelerators=2)
    view = submit(ctx, member, cpus=3, memory_bytes=GIB, accelerators=1)
    start_attempt(ctx, view.id, placement=[{"node": "n1", "address": "", "accelerators": [1]}])
    (node,) = nodes.listing(ctx, member)
    assert (node.free_cpus, node.free_memory_bytes, node.free_accelerators) == (5, 31 * GIB, [0])
    end_run(ctx, view.id)
    (node,) = nodes.listing(ctx, member)
    assert (node.free_cpus, node.free_accelerators) == (8, [0, 1])


def test_the_bill_adds_up(ctx: Services, member: Caller) -> None:
    view = submit(ctx, member)
    with ctx.store.begin() as tx:
        run = tx.runs.get(view.id)
        assert run is not None
        for number, amount in ((1, 40_000), (2, 1)):
            tx.ledger.open(
                attempt_id=f"{run.id}-{number}", run_id=run.id, project_id=run.project_id, owner="job", spec="small",
                started_at=float(number), ended_at=None, seconds=1.0, price_hour=40_000, amount=amount, details={},
            )  # fmt: skip
    bill = platform.bill(ctx, member, "default", since=None, run=view.id)
    assert (bill.total, bill.currency, len(bill.entries)) == (0.040001, "USD", 2)
    assert runs.get(ctx, member, view.id).cost == 0.040001
    assert platform.bill(ctx, member, "default", since=None, run=view.id + 1).entries == []
