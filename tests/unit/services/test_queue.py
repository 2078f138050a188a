"""The queue's order by hand, nodes drained and reclaimed, what projects may occupy, prices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headway.errors import ForbiddenError, NotFoundError, RefusedError, UsageError
from headway.protocol import hints
from headway.rules.access import Caller
from headway.rules.prices import History
from headway.rules.states import NodeState
from headway.services import limits, nodes, platform, queue, runs
from headway.services.context import Services
from headway.storage.prices import Prices
from headway.testing.services import Clock, caller, end_run, start_attempt
from headway.wire.people import ProjectRequest
from headway.wire.platform import DrainRequest, LimitsRequest, MoveRequest, ReclaimRequest
from headway.wire.runs import StopRequest

from .test_runs import GIB, put_node, submit


@pytest.fixture
def admin(ctx: Services) -> Caller:
    return replace(caller(ctx, "admin"), is_admin=True)


def order(ctx: Services, who: Caller) -> list[int]:
    return [e.run for e in queue.listing(ctx, who, "default").entries]


# -- the queue


def test_the_queue_is_by_priority_and_turn_and_says_why(ctx: Services, member: Caller, clock: Clock) -> None:
    first = submit(ctx, member, name="first").id
    clock.now += 1
    urgent = submit(ctx, member, priority=8).id
    second = submit(ctx, member).id
    after = submit(ctx, member, after=[first]).id
    submit(ctx, member, held=True)
    with ctx.store.begin() as tx:
        tx.runs.change(first, reason="waits for 1 CPU on one node")
    found = queue.listing(ctx, member, "default")
    assert found.total == 4
    assert [(e.place, e.run) for e in found.entries] == [(1, urgent), (2, first), (3, second), (None, after)]
    waits = {e.run: e.waits for e in found.entries}
    assert waits[first] == "waits for 1 CPU on one node"
    assert waits[second] == f"waits behind job {first}"
    assert f"job {first}" in waits[after]
    assert [e.run for e in queue.listing(ctx, member, "default", limit=1).entries] == [urgent]


def test_waiting_long_gains_priority(ctx: Services, member: Caller, clock: Clock) -> None:
    old = submit(ctx, member, priority=3).id
    clock.now += 13 * 3600
    new = submit(ctx, member, priority=4).id
    found = queue.listing(ctx, member, "default").entries
    assert [(e.run, e.priority, e.effective_priority) for e in found] == [(old, 3, 5), (new, 4, 4)]


def test_a_run_is_moved_by_hand(ctx: Services, member: Caller, tmp_path: Any) -> None:
    ids = [submit(ctx, member).id for _ in range(4)]
    listener = hints.Listener(tmp_path / "hints", "test")
    queue.move(ctx, member, ids[3], MoveRequest(first=True))
    assert ("run", str(ids[3])) in listener.receive()
    listener.close()
    assert order(ctx, member) == [ids[3], ids[0], ids[1], ids[2]]
    queue.move(ctx, member, ids[3], MoveRequest(last=True))
    assert order(ctx, member) == ids
    queue.move(ctx, member, ids[2], MoveRequest(before=ids[1]))
    assert order(ctx, member) == [ids[0], ids[2], ids[1], ids[3]]
    queue.move(ctx, member, ids[2], MoveRequest(before=ids[2]))
    assert order(ctx, member) == [ids[0], ids[2], ids[1], ids[3]]


@pytest.mark.parametrize("asked", [{}, {"first": True, "last": True}, {"before": 1, "first": True}])
def test_where_to_must_be_clear(asked: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        MoveRequest(**asked)


def test_moves_that_make_no_sense_are_refused(ctx: Services, member: Caller, admin: Caller, viewer: Caller) -> None:
    from headway.services import people

    run, urgent = submit(ctx, member).id, submit(ctx, member, priority=7).id
    held = submit(ctx, member, held=True).id
    people.add_project(ctx, admin, ProjectRequest(name="other"))
    from headway.services import jobs
    from headway.wire.runs import JobRequest

    foreign = jobs.submit(ctx, admin, "other", JobRequest(command=["true"])).id
    with pytest.raises(RefusedError, match=r"priority 5 and run .* has 7") as raised:
        queue.move(ctx, member, run, MoveRequest(before=urgent))
    assert f"headway job change {run} --priority 7" in raised.value.remedy
    with pytest.raises(RefusedError, match="is held and has no place"):
        queue.move(ctx, member, held, MoveRequest(first=True))
    with pytest.raises(RefusedError, match="is held and has no place"):
        queue.move(ctx, member, run, MoveRequest(before=held))
    with pytest.raises(NotFoundError):
        queue.move(ctx, member, run, MoveRequest(before=foreign))
    with pytest.raises(RefusedError, match="not of project default"):
        queue.move(ctx, admin, run, MoveRequest(before=foreign))
    with pytest.raises(ForbiddenError):
        queue.move(ctx, viewer, run, MoveRequest(first=True))


def test_a_retry_by_hand_begins_to_wait_anew(ctx: Services, member: Caller, clock: Clock) -> None:
    run = submit(ctx, member, max_wait=600).id
    runs.stop(ctx, member, run, StopRequest())
    clock.now += 1000
    runs.retry(ctx, member, run)
    with ctx.store.read() as tx:
        assert tx.runs.overdue(clock.now + 599, live=False) == []
        assert [r.id for r in tx.runs.overdue(clock.now + 601, live=False)] == [run]


# -- nodes


def test_a_node_says_what_runs_there_and_until_when(ctx: Services, member: Caller, clock: Clock) -> None:
    put_node(ctx, accelerators=2)
    run = submit(ctx, member, cpus=3, memory_bytes=GIB, accelerators=1, max_duration=60, billing="spot").id
    place = {"node": "n1", "address": "", "accelerators": [1], "cpus": 2.0, "memory_bytes": GIB}
    start_attempt(ctx, run, placement=[place], launched_at=clock.now)
    (node,) = nodes.listing(ctx, member)
    (there,) = node.runs
    assert (there.run, there.billing, there.accelerators, there.leaving) == (run, "spot", [1], False)
    assert there.until is not None
    assert there.until.timestamp() >= clock.now + 60
    # what it was given, which may be less than the most that it asked for
    assert (node.free_cpus, node.free_accelerators, node.state) == (6.0, [0], "up")


def test_drain_and_undrain(ctx: Services, admin: Caller, member: Caller, tmp_path: Any) -> None:
    put_node(ctx)
    with pytest.raises(ForbiddenError):
        nodes.drain(ctx, member, "n1", DrainRequest())
    listener = hints.Listener(tmp_path / "hints", "test")
    view = nodes.drain(ctx, admin, "n1", DrainRequest(reason="disk"))
    assert "run" in {topic for topic, _ in listener.receive()}
    listener.close()
    assert (view.state, view.reason) == ("drained", "disk")
    assert nodes.drain(ctx, admin, "n1", DrainRequest()).reason == "admin drained it."
    assert (nodes.undrain(ctx, admin, "n1").state, nodes.listing(ctx, member)[0].reason) == ("up", "")
    with pytest.raises(NotFoundError) as raised:
        nodes.drain(ctx, admin, "n2", DrainRequest())
    assert "n1" in raised.value.remedy
    with ctx.store.begin() as tx:
        tx.runs.change_node("n1", state=NodeState.LOST, reason="The engine does not have it any more.")
    with pytest.raises(RefusedError, match="is lost"):
        nodes.undrain(ctx, admin, "n1")


def test_a_drill_asks_the_spot_runs_of_a_node_once(ctx: Services, admin: Caller, member: Caller, clock: Clock) -> None:
    put_node(ctx)
    spots = [submit(ctx, member, billing="spot").id for _ in range(2)]
    other = submit(ctx, member).id
    for run in (*spots, other):
        start_attempt(ctx, run, placement=[{"node": "n1", "address": "", "accelerators": []}])
    with pytest.raises(ForbiddenError):
        nodes.reclaim(ctx, member, "n1", ReclaimRequest())
    one = nodes.reclaim(ctx, admin, "n1", ReclaimRequest(run=spots[0], grace=5, reason="a drill."))
    assert (one.asked, one.already) == ([spots[0]], [])
    with ctx.store.read() as tx:
        found = tx.runs.attempt(f"{spots[0]}-1")
    assert found is not None
    assert (found.reclaim_at, found.reclaim_reason, found.reclaim_grace) == (clock.now, "a drill", 5.0)
    clock.now += 1
    both = nodes.reclaim(ctx, admin, "n1", ReclaimRequest())
    assert (both.asked, both.already, both.stay) == ([spots[1]], [spots[0]], [other])
    with pytest.raises(RefusedError, match=f"Run {other} is on_demand") as raised:
        nodes.reclaim(ctx, admin, "n1", ReclaimRequest(run=other))
    assert f"headway job pause {other}" in raised.value.remedy
    with pytest.raises(RefusedError, match="Run 999 is not on node n1"):
        nodes.reclaim(ctx, admin, "n1", ReclaimRequest(run=999))
    for run in spots:
        end_run(ctx, run)
    with pytest.raises(RefusedError, match=f"has no spot run: runs {other} are not on spot"):
        nodes.reclaim(ctx, admin, "n1", ReclaimRequest())


# -- limits and prices


def test_a_projects_limits_and_what_it_occupies(ctx: Services, admin: Caller, owner: Caller, viewer: Caller) -> None:
    put_node(ctx, accelerators=2)
    run = submit(ctx, owner, cpus=3, accelerators=1).id
    start_attempt(
        ctx, run, placement=[{"node": "n1", "address": "", "accelerators": [1], "cpus": 3, "memory_bytes": GIB}]
    )
    submit(ctx, owner)
    with pytest.raises(ForbiddenError):
        limits.change(ctx, owner, "default", LimitsRequest(runs=1))
    limits.change(ctx, admin, "default", LimitsRequest(accelerators=8, runs=4, weight=2))
    view = limits.change(ctx, admin, "default", LimitsRequest(runs=None))
    assert view == limits.get(ctx, viewer, "default")
    assert (view.limits, view.weight, view.waiting) == ({"accelerators": 8}, 2.0, 1)
    assert view.used == {"cpus": 3, "memory_bytes": GIB, "accelerators": 1, "nodes": 1, "runs": 1}
    with ctx.store.read() as tx:
        project = tx.people.project("default")
        assert project is not None
        assert (project.limits, project.weight) == ({"accelerators": 8}, 2.0)


class Told(Prices):
    def __init__(self, known: History) -> None:
        self.known = known

    def history(self) -> History:
        return self.known


def test_prices_now_and_within_the_day(ctx: Services, member: Caller, clock: Clock) -> None:
    now = clock.now
    known = History.of([("small", now - 7200, 30_000), ("small", now - 60, 10_000), ("small", now + 60, 90_000)])
    found = {p.spec: p for p in platform.prices(replace(ctx, prices=Told(known)), member)}
    small = found["small"]
    assert (small.on_demand, small.spot, small.low, small.high, small.known) == (0.04, 0.01, 0.01, 0.03, True)
    assert small.since is not None
    assert small.since.timestamp() == now - 60
    other = found["medium"]
    assert (other.spot, other.known, other.since) == (other.on_demand, False, None)
