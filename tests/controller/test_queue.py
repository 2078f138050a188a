"""The scheduler's loop over the record: gangs, turns, sentences, places taken back, waiting limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headway.controller.nodes import Nodes
from headway.controller.reclaims import Reclaims
from headway.controller.schedule import FIRST, Schedule
from headway.protocol.exits import Cause
from headway.rules.records import Node, Run
from headway.rules.states import AttemptState, Billing, NodeState, RunState
from headway.store.base import LeaseLostError
from headway.testing.stores import attempt_values

from .conftest import House

GIB = 1 << 30


def node(name: str, cpus: float = 4.0, kinds: tuple[str, ...] = (), **changes: Any) -> Node:
    devices = [{"index": i, "kind": kind, "memory_bytes": 1, "uuid": f"{name}-{i}"} for i, kind in enumerate(kinds)]
    return Node(
        name=name, engine="local", address="127.0.0.1", cpus=cpus, memory_bytes=64 * GIB, accelerators=devices,
        declared=True, seen_at=1.0, **changes,
    )  # fmt: skip


def put_nodes(house: House, *found: Node) -> None:
    with house.ctx.store.begin() as tx:
        tx.runs.put_nodes("local", found)


def live(house: House, node: str, *, started: float | None = None, **changes: Any) -> Run:
    """A run that lives on the node since `started`."""
    run = house.add_run(state=RunState.RUNNING, attempts=1, **changes)
    place = {"node": node, "address": "", "accelerators": [], "cpus": run.cpus, "memory_bytes": run.memory_bytes}
    started = house.clock() if started is None else started
    with house.ctx.store.begin() as tx:
        tx.runs.add_attempt(
            **attempt_values(
                run, 1, placement=[place], state=AttemptState.RUNNING, started_at=started, launched_at=started
            )
        )
    return run


def test_a_gang_is_placed_whole_with_what_it_has_on_each_node(house: House) -> None:
    put_nodes(house, node("n1", kinds=("A10", "A10")), node("n2", kinds=("A10", "A10")))
    run = house.add_run(nodes=2, cpus=2.0, accelerators=2, accelerator_kind="A10", least={"accelerators": 1})
    Schedule(house.desk).step()
    attempt = house.attempt(f"{run.id}-1")
    assert [(p["node"], p["cpus"], p["memory_bytes"], p["accelerators"]) for p in attempt.placement] == [
        ("n1", 2.0, GIB, [0, 1]),
        ("n2", 2.0, GIB, [0, 1]),
    ]
    assert attempt.cursors == [0, 0]
    assert house.engine.calls == [("start", attempt.id)]


def test_a_gang_that_does_not_fit_whole_takes_nothing(house: House) -> None:
    put_nodes(house, node("n1"), node("n2", cpus=1.0))
    run = house.add_run(nodes=2, cpus=2.0)
    Schedule(house.desk).step()
    assert house.run(run.id).state is RunState.QUEUED
    assert house.engine.calls == []


def test_many_of_one_kind_are_placed_in_one_step(house: House) -> None:
    put_nodes(house, node("n1", cpus=100.0))
    runs = [house.add_run(cpus=1.0) for _ in range(3 * FIRST[0])]
    Schedule(house.desk).step()
    assert {house.run(r.id).state for r in runs} == {RunState.STARTING}


def test_a_blocked_or_drained_place_is_left_alone(house: House) -> None:
    put_nodes(house, node("n1", state=NodeState.DRAINED, reason="disk"))
    free = house.add_run()
    blocked = house.add_run(blocked=True, after=[free.id])
    schedule = Schedule(house.desk)
    schedule.step()
    assert house.engine.calls == []
    assert "drained" in house.run(free.id).reason
    put_nodes(house, node("n2"))
    schedule.step()
    assert house.engine.calls == [("start", f"{free.id}-1")]
    assert house.run(blocked.id).state is RunState.QUEUED


def test_a_sentence_goes_when_another_run_is_put_before_it(house: House) -> None:
    put_nodes(house, node("n1", cpus=1.0))
    live(house, "n1")
    first, second = house.add_run(), house.add_run()
    schedule = Schedule(house.desk)
    schedule.step()
    assert "1 CPU" in house.run(first.id).reason
    with house.ctx.store.begin() as tx:
        tx.runs.change(second.id, position=tx.runs.position_before(house.run(first.id)))
    schedule.step()
    assert house.run(first.id).reason == ""
    assert "1 CPU" in house.run(second.id).reason
    # also when a controller wrote it that is not there any more
    with house.ctx.store.begin() as tx:
        tx.runs.change(first.id, position=tx.runs.position_before(house.run(second.id)))
    desk = house.new_desk("second")
    put_nodes(house, node("n1", cpus=1.0))
    Schedule(desk).step()
    assert house.run(second.id).reason == ""
    assert "1 CPU" in house.run(first.id).reason


def test_how_its_last_attempt_ended_stays_in_the_sentence(house: House) -> None:
    put_nodes(house, node("n1", cpus=1.0))
    live(house, "n1")
    run = house.add_run(reason="The node was lost. It is placed again (1 of 3).", losses=1)
    schedule = Schedule(house.desk)
    schedule.step()
    assert house.run(run.id).reason.startswith("The node was lost. It is placed again (1 of 3). It waits for 1 CPU")
    before = house.record()
    schedule.step()
    desk = house.new_desk("second")
    put_nodes(house, node("n1", cpus=1.0))
    Schedule(desk).step()
    assert house.record() == before


# -- places taken back


def spot(house: House, **changes: Any) -> Run:
    started = house.clock() - 7200
    return live(house, "n1", started=started, **{"billing": Billing.SPOT, "spot": {"bid": "market"}, **changes})


def test_a_spot_run_leaves_for_one_on_demand(house: House) -> None:
    put_nodes(house, node("n1", cpus=1.0))
    victim = spot(house, spot={"bid": "market", "grace": 7.0})
    run = house.add_run()
    topics = Schedule(house.desk).step()
    assert "reclaim" in topics
    attempt = house.attempt(f"{victim.id}-1")
    assert attempt.reclaim_at == house.clock()
    assert f"job {run.id}" in attempt.reclaim_reason
    assert f"job {run.id}" in house.run(victim.id).reason
    teller = Reclaims(house.desk)
    teller.step()
    assert (house.engine.calls, house.engine.graces, house.engine.causes) == (
        [("stop", attempt.id)],
        [7.0],
        ["reclaimed"],
    )
    # it is neither asked again nor is anybody else
    Schedule(house.desk).step()
    assert "which is leaving" in house.run(run.id).reason
    teller.step()
    assert len(house.engine.calls) == 1
    # another controller cannot know whether it was told
    Reclaims(house.new_desk("second")).step()
    assert house.engine.calls == [("stop", attempt.id)] * 2


def test_a_protected_spot_run_stays_and_one_on_demand_too(house: House) -> None:
    put_nodes(house, node("n1", cpus=2.0))
    live(house, "n1", billing=Billing.SPOT, spot={"bid": "market"}, started=house.clock() - 3599)
    live(house, "n1", started=house.clock() - 7200)
    house.add_run()
    assert "reclaim" not in Schedule(house.desk).step()


def test_who_lost_the_lead_tells_nobody(house: House) -> None:
    victim = spot(house)
    with house.ctx.store.begin() as tx:
        tx.runs.change_attempt(f"{victim.id}-1", reclaim_at=1.0, reclaim_reason="x")
    stale = Reclaims(house.desk)
    house.new_desk("second")
    with pytest.raises(LeaseLostError):
        stale.step()
    assert house.engine.calls == []


def test_a_drill_gives_its_own_grace(house: House) -> None:
    victim = spot(house)
    with house.ctx.store.begin() as tx:
        tx.runs.change_attempt(f"{victim.id}-1", reclaim_at=1.0, reclaim_reason="x", reclaim_grace=3.0)
    Reclaims(house.desk).step()
    assert house.engine.graces == [3.0]


def test_a_fault_of_one_does_not_keep_the_others_from_hearing(house: House) -> None:
    victims = [spot(house), spot(house)]
    with house.ctx.store.begin() as tx:
        for victim in victims:
            tx.runs.change_attempt(f"{victim.id}-1", reclaim_at=1.0, reclaim_reason="x")
    stop, refused = house.engine.stop, [True]

    def faulty(attempt: str, **values: Any) -> None:
        if attempt == f"{victims[0].id}-1" and refused.pop():
            raise OSError("no space")
        stop(attempt, **values)

    house.engine.stop = faulty  # type: ignore[method-assign]
    teller = Reclaims(house.desk)
    teller.step()
    assert house.engine.calls == [("stop", f"{victims[1].id}-1")]
    refused.append(False)
    teller.step()
    assert house.engine.calls[1:] == [("stop", f"{victims[0].id}-1")]


# -- max_wait


def test_a_run_that_waited_too_long_fails_with_a_sentence(house: House) -> None:
    put_nodes(house)
    now = house.clock()
    late = house.add_run(max_wait=60.0, created_at=now - 61)
    patient = house.add_run(max_wait=62.0, created_at=now - 61)
    held = house.add_run(max_wait=60.0, created_at=now - 61, state=RunState.HELD)
    again = house.add_run(max_wait=60.0, created_at=now - 999, asked_at=now)
    Schedule(house.desk).step()
    run = house.run(late.id)
    assert (run.state, run.cause, run.ended_at) == (RunState.FAILED, Cause.WAIT_LIMIT, now)
    assert "max_wait of 1m" in run.reason
    assert [house.run(r.id).state for r in (patient, held, again)] == [RunState.QUEUED, RunState.HELD, RunState.QUEUED]


def test_a_run_that_waited_and_ran_too_long_is_asked_to_end(house: House) -> None:
    now = house.clock()
    late = live(house, "n1", max_wait=60.0, created_at=now - 61, grace=9.0)
    live(house, "n1", max_wait=62.0, created_at=now - 61)
    Reclaims(house.desk).step()
    assert house.engine.calls == [("stop", f"{late.id}-1")]
    assert (house.engine.graces, house.engine.causes) == ([9.0], ["wait_limit"])


# -- nodes


def test_a_node_that_is_gone_is_lost_and_a_drained_one_stays_drained(house: House) -> None:
    Nodes(house.desk).step()
    assert Nodes(house.desk).step() == set()
    with house.ctx.store.begin() as tx:
        tx.runs.put_nodes("local", [*tx.runs.nodes(), node("gone", state=NodeState.UP)])
        tx.runs.change_node("fake", state=NodeState.DRAINED, reason="disk")
    put = house.clock()
    assert "run" in Nodes(house.desk).step()
    with house.ctx.store.read() as tx:
        found = {n.name: (n.state, n.reason, n.seen_at) for n in tx.runs.nodes()}
    assert found["fake"] == (NodeState.DRAINED, "disk", put)
    # it was last seen at 1.0, which is long ago, so that it is forgotten
    assert set(found) == {"fake"}
    live(house, "gone")
    with house.ctx.store.begin() as tx:
        tx.runs.put_nodes("local", [*tx.runs.nodes(), node("gone")])
    Nodes(house.desk).step()
    with house.ctx.store.read() as tx:
        lost = tx.runs.node("gone")
    assert lost is not None
    assert lost.state is NodeState.LOST
    assert Path(house.ctx.root).exists()
