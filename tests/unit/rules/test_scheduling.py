"""Where runs go, in which turn, and what is kept for those that wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headway.rules.records import Attempt, Node, Project, Run
from headway.rules.scheduling import Cluster, Decision, Group, Held, Policy, Queue, behind, decide, shape_of
from headway.rules.states import AttemptState, Billing, NodeState, RunState

from .conftest import node, run

GIB = 1 << 30
NOW = 1_000_000.0
HOUR = 3600.0


def clock(when: float) -> str:
    """Minutes from now."""
    return f"+{round((when - NOW) / 60)}"


def project(id: int = 1, weight: float = 1.0, **limits: float) -> Project:
    name = "abc"[id - 1] if id <= 3 else str(id)
    return Project(id=id, name=name, quota_bytes=None, quota_files=None, created_at=0.0, weight=weight, limits=limits)


def waiting(id: int, **changes: Any) -> Run:
    one = run(id, **{"position": NOW - 1000 + id, "queued_at": NOW - 60, "grace": 0.0, **changes})
    return replace(one, shape=shape_of(one))


def gpus(name: str, count: int = 4, kind: str = "A10", cpus: float = 32.0) -> Node:
    return node(name, cpus, 256 * GIB, (kind,) * count)


def held(one: Run, *places: tuple[str, list[int]], started: float | None = NOW - HOUR, **changes: Any) -> Held:
    placement = [
        {"node": n, "address": "", "accelerators": d, "cpus": one.cpus, "memory_bytes": one.memory_bytes}
        for n, d in places
    ]
    values: dict[str, Any] = {
        "id": f"{one.id}-1", "run_id": one.id, "number": 1, "state": AttemptState.RUNNING, "engine": "local",
        "placement": placement, "cursors": [0], "address": None, "ready": False, "secret": None,
        "created_at": NOW - HOUR, "started_at": started, "launched_at": None, "ended_at": None, "stopping_at": None,
        "exit_code": None, "signal": None, "cause": None, "message": "",
    }  # fmt: skip
    return Held(replace(one, state=RunState.RUNNING), Attempt(**{**values, **changes}))


def passed(
    runs: list[Run],
    nodes: list[Node],
    live: list[Held] | None = None,
    projects: list[Project] | None = None,
    **more: Any,
) -> Decision:
    known = {p.id: p for p in projects or [project(1), project(2), project(3)]}
    groups = Queue(runs).groups()
    return decide(groups, nodes=nodes, held=live or [], projects=known, now=NOW, clock=clock, **more)


def placed(decision: Decision) -> dict[int, list[tuple[str, list[int]]]]:
    return {p.run.id: [(x.node.name, x.accelerators) for x in p.places] for p in decision.placements}


# -- where


def test_runs_are_placed_in_order_until_nothing_fits() -> None:
    found = passed([waiting(i) for i in (1, 2, 3)], [node(cpus=2)])
    assert list(placed(found)) == [1, 2]
    assert list(found.waits) == [3]


def test_what_lives_is_not_given_away_again_and_an_accelerator_has_one_run() -> None:
    live = [held(waiting(9, accelerators=1), ("n", [0]))]
    found = passed([waiting(1, accelerators=1), waiting(2, accelerators=1)], [gpus("n", 2)], live)
    assert placed(found) == {1: [("n", [1])]}


def test_an_accelerator_must_be_of_the_kind_that_is_asked() -> None:
    found = passed([waiting(1, accelerators=1, accelerator_kind="b")], [node(kinds=("a", "b"))])
    assert placed(found) == {1: [("n", [1])]}


def test_packing_leaves_whole_nodes_free_and_accelerators_to_those_that_ask() -> None:
    live = [held(waiting(9, accelerators=2), ("n2", [0, 1]))]
    nodes = [gpus("n1"), gpus("n2"), node("plain", cpus=8)]
    found = passed([waiting(1, accelerators=2), waiting(2), waiting(3, accelerators=4)], nodes, live)
    assert placed(found) == {1: [("n2", [2, 3])], 2: [("plain", [])], 3: [("n1", [0, 1, 2, 3])]}


def test_a_gang_gets_all_its_nodes_or_none() -> None:
    gang = waiting(1, nodes=2, accelerators=4)
    live = [held(waiting(9, accelerators=1), ("n2", [0]))]
    assert placed(passed([gang], [gpus("n1"), gpus("n2")], live)) == {}
    assert placed(passed([gang], [gpus("n1"), gpus("n2")])) == {1: [("n1", [0, 1, 2, 3]), ("n2", [0, 1, 2, 3])]}


def test_a_gang_prefers_nodes_that_are_equal() -> None:
    nodes = [gpus("a", 2), gpus("b", 4), gpus("c", 4)]
    found = passed([waiting(1, nodes=2, accelerators=2)], nodes)
    assert [name for name, _ in placed(found)[1]] == ["b", "c"]
    found = passed([waiting(1, nodes=3, accelerators=2)], nodes)
    assert sorted(name for name, _ in placed(found)[1]) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("asked", "live", "expected"),
    [
        ({"accelerators": 4, "least": {"accelerators": 1}}, 0, [("n1", 4)]),
        ({"accelerators": 4, "least": {"accelerators": 1}}, 3, [("n2", 4)]),
        ({"accelerators": 8, "least": {"accelerators": 2}}, 0, [("n1", 4)]),
        ({"accelerators": 8, "least": {"accelerators": 5}}, 0, None),
        ({"nodes": 3, "accelerators": 4, "least": {"nodes": 1}}, 0, [("n1", 4), ("n2", 4)]),
        ({"nodes": 3, "accelerators": 4, "least": {"nodes": 1}}, 1, [("n2", 4)]),
        ({"nodes": 2, "accelerators": 4, "least": {"nodes": 1, "accelerators": 1}}, 1, [("n1", 3), ("n2", 3)]),
        ({"nodes": 2, "accelerators": 4, "least": {"nodes": 1, "accelerators": 1}}, 3, [("n2", 4)]),
    ],
)
def test_of_a_range_the_most_that_fits_is_taken(
    asked: dict[str, Any], live: int, expected: list[tuple[str, int]] | None
) -> None:
    others = [held(waiting(9, accelerators=live), ("n1", list(range(live))))] if live else []
    found = placed(passed([waiting(1, **asked)], [gpus("n1"), gpus("n2")], others)).get(1)
    assert (found and sorted((name, len(devices)) for name, devices in found)) == expected


def test_cpus_and_memory_of_a_range_grow_to_what_is_there() -> None:
    asked = waiting(1, cpus=16.0, memory_bytes=64 * GIB, least={"cpus": 2.0, "memory_bytes": 4 * GIB})
    (place,) = passed([asked], [node(cpus=8, memory=32 * GIB)]).placements[0].places
    assert (place.cpus, place.memory_bytes) == (8.0, 32 * GIB)


def test_nodes_that_are_drained_or_lost_take_nothing() -> None:
    nodes = [replace(gpus("n1"), state=NodeState.DRAINED), replace(gpus("n2"), state=NodeState.LOST)]
    found = passed([waiting(1, accelerators=1)], nodes)
    assert placed(found) == {}
    assert found.waits[1] == "waits for 1 x accelerator on one node: n1 and 1 more are not up"


def test_a_node_to_avoid_is_used_only_when_no_other_could_ever_hold_it() -> None:
    avoiding = waiting(1, accelerators=4, avoid=["n1"])
    live = [held(waiting(9, accelerators=1), ("n2", [0]))]
    assert placed(passed([avoiding], [gpus("n1"), gpus("n2")], live)) == {}
    assert list(placed(passed([avoiding], [gpus("n1"), gpus("n2", 2)]))) == [1]


# -- in which turn


def order(runs: list[Run], **more: Any) -> list[int]:
    return [p.run.id for p in passed(runs, [node(cpus=100, memory=100 * GIB)], **more).placements]


def test_priority_then_position_then_id() -> None:
    runs = [waiting(1, position=5.0), waiting(2, position=5.0), waiting(3, position=1.0), waiting(4, priority=6)]
    assert order(runs) == [4, 3, 1, 2]


def test_waiting_counts_as_priority_up_to_the_highest() -> None:
    old = waiting(1, priority=1, queued_at=NOW - 25 * HOUR)
    assert order([old, waiting(2, priority=5, position=0.0)]) == [2, 1]
    old = waiting(1, priority=1, queued_at=NOW - 31 * HOUR)
    assert order([old, waiting(2, priority=5, position=0.0)]) == [1, 2]
    older = waiting(1, priority=1, queued_at=NOW - 300 * HOUR)
    live = [held(waiting(90), ("n", []))]
    assert order([older, waiting(2, priority=9, position=0.0)], live=live) == [2, 1]


def test_among_projects_the_smallest_share_by_weight_goes_first() -> None:
    live = [held(waiting(90, cpus=4.0), ("n", [])), held(waiting(91, project_id=2, cpus=6.0), ("n", []))]
    runs = [waiting(1, project_id=1, position=9.0), waiting(2, project_id=2, position=1.0)]
    assert order(runs, live=live) == [1, 2]
    assert order(runs, live=live, projects=[project(1), project(2, weight=2.0)]) == [2, 1]


def test_what_is_placed_in_the_pass_counts_as_usage() -> None:
    runs = [waiting(i, project_id=1) for i in (1, 2, 3)] + [waiting(i, project_id=2) for i in (4, 5, 6)]
    assert order(runs) == [1, 4, 2, 5, 3, 6]


def test_a_project_that_got_nothing_for_long_goes_first_once() -> None:
    big = held(waiting(90, cpus=50.0), ("n", []), created_at=NOW - 100 * HOUR)
    runs = [waiting(i, queued_at=NOW - 60 * HOUR) for i in (1, 2)]
    runs += [waiting(3, project_id=2, queued_at=NOW - 60 * HOUR)]
    live = [big, held(waiting(91, project_id=2), ("n", []))]
    assert order(runs, live=live) == [1, 3, 2]
    assert order(runs, live=[replace(big, attempt=replace(big.attempt, created_at=NOW - HOUR)), live[1]]) == [3, 1, 2]


def test_jobs_come_before_evaluations_unless_those_have_waited_for_long() -> None:
    runs = [waiting(1, owner="evaluation", position=0.0), waiting(2, project_id=2)]
    live = [held(waiting(90, project_id=2, cpus=4.0), ("n", []))]
    assert order(runs, live=live) == [2, 1]
    long = waiting(1, owner="evaluation", position=0.0, queued_at=NOW - 40 * HOUR)
    assert order([long, waiting(2, priority=9)]) == [1, 2]


def test_more_is_true_when_a_group_runs_out_of_heads() -> None:
    runs = [waiting(i) for i in range(1, 5)]
    known = {1: project()}
    few = decide([Group(runs[:2], 4)], nodes=[node(cpus=8)], projects=known, now=NOW)
    assert len(few.placements) == 2
    assert few.more
    full = decide([Group(runs[:2], 4)], nodes=[node(cpus=1)], projects=known, now=NOW)
    assert not full.more


# -- limits


@pytest.mark.parametrize(
    ("limits", "asked", "sentence"),
    [
        ({"accelerators": 4}, {"accelerators": 1}, "waits: project a may use 4 accelerators and uses 4"),
        ({"runs": 1}, {}, "waits: project a may use 1 runs at once and uses 1"),
        ({"cpus": 2}, {"cpus": 2.0}, "waits: project a may use 2 CPUs and uses 1"),
        ({"memory_bytes": GIB}, {}, "waits: project a may use 1.0 GiB of memory and uses 1.0 GiB"),
        ({"runs": 5, "cpus": 4}, {"cpus": 8.0}, "waits: project a may use 4 CPUs and this run alone asks for 8"),
        ({"nodes": 1}, {"nodes": 2}, "waits: project a may use 1 node and this run alone asks for 2"),
        ({"nodes": 1}, {"accelerators": 1}, "waits: project a may use 1 node and uses 1"),
    ],
)  # fmt: skip
def test_a_projects_limit_holds_and_is_named(limits: dict[str, float], asked: dict[str, Any], sentence: str) -> None:
    live = [held(waiting(9, accelerators=4), ("n1", [0, 1, 2, 3]))]
    found = passed([waiting(1, **asked)], [gpus("n1"), gpus("n2", 8)], live, [project(**limits)])
    assert placed(found) == {}
    assert found.waits == {1: sentence}


def test_a_range_takes_what_the_limit_leaves() -> None:
    one = waiting(1, accelerators=4, least={"accelerators": 1})
    assert placed(passed([one], [gpus("n")], projects=[project(accelerators=3)])) == {1: [("n", [0, 1, 2])]}


def test_a_run_under_a_limit_on_nodes_shares_those_of_its_project() -> None:
    live = [held(waiting(9, accelerators=1), ("n2", [0]))]
    found = passed([waiting(1, accelerators=1)], [gpus("n1", 2), gpus("n2")], live, [project(nodes=1)])
    assert placed(found) == {1: [("n2", [1])]}


def test_smaller_runs_of_a_project_do_not_use_up_the_limit_that_one_ahead_waits_for() -> None:
    live = [held(waiting(9, accelerators=2), ("n1", [0, 1]))]
    runs = [
        waiting(1, accelerators=4),
        waiting(2, accelerators=1),
        waiting(3),
        waiting(4, accelerators=1, project_id=2),
    ]
    found = passed(runs, [gpus("n1"), gpus("n2")], live, [project(accelerators=4), project(2)])
    assert sorted(placed(found)) == [3, 4]
    assert found.waits[2] == "waits behind job 1, for which what project a may still use is kept"


# -- what is kept for those that wait

LONG = {"max_duration": 10 * HOUR}


def test_a_short_run_goes_ahead_when_it_ends_before_the_reserved_start() -> None:
    live = [held(waiting(9, accelerators=2, max_duration=3 * HOUR), ("n", [0, 1]))]
    first = waiting(1, accelerators=4, **LONG)
    short, long = (
        waiting(2, accelerators=1, max_duration=1.9 * HOUR),
        waiting(3, accelerators=1, max_duration=2.1 * HOUR),
    )
    found = passed([first, short, long, waiting(4, accelerators=1)], [gpus("n")], live)
    assert list(placed(found)) == [2]
    assert found.waits == {
        1: "waits for 4 x accelerator on one node: 2 free on n, held by job 9 until about +120",
        3: "waits behind job 1, for which n is kept from about +120",
        4: "waits behind job 1, for which n is kept from about +120",
    }


def test_grace_counts_to_the_time_that_a_run_may_take() -> None:
    live = [held(waiting(9, accelerators=2, max_duration=3 * HOUR), ("n", [0, 1]))]
    runs = [waiting(1, accelerators=4), waiting(2, accelerators=1, max_duration=2 * HOUR, grace=1.0)]
    assert placed(passed(runs, [gpus("n")], live)) == {}


def test_a_run_without_a_limit_goes_ahead_beside_what_is_kept() -> None:
    live = [held(waiting(9, accelerators=3, max_duration=3 * HOUR), ("n", [0, 1, 2]))]
    runs = [waiting(1, accelerators=3), waiting(2, accelerators=1), waiting(3, accelerators=1)]
    assert list(placed(passed(runs, [gpus("n", 5)], live))) == [2, 3]
    assert list(placed(passed(runs, [gpus("n", 4)], live))) == [2]


def test_where_no_limit_tells_the_nearest_node_is_kept() -> None:
    live = [held(waiting(9, accelerators=2), ("n1", [0, 1])), held(waiting(8, accelerators=3), ("n2", [0, 1, 2]))]
    runs = [waiting(1, accelerators=4), waiting(2, accelerators=1, max_duration=1.0), waiting(3, accelerators=1)]
    found = passed(runs, [gpus("n1"), gpus("n2")], live)
    assert placed(found) == {2: [("n2", [3])]}
    assert found.waits[1] == "waits for 4 x accelerator on one node: 2 free on n1, held by job 9"
    assert found.waits[3] == "waits behind job 1, for which n1 is kept"


def test_what_the_waiting_run_does_not_ask_for_stays_free() -> None:
    live = [held(waiting(9, accelerators=1), ("n", [0]))]
    assert list(placed(passed([waiting(1, accelerators=1), waiting(2)], [node(cpus=4, kinds=("a",))], live))) == [2]


def test_several_that_wait_have_room_kept() -> None:
    live = [held(waiting(8, accelerators=4, max_duration=2 * HOUR), ("n1", [0, 1, 2, 3]))]
    live += [held(waiting(9, accelerators=3, max_duration=3 * HOUR), ("n2", [0, 1, 2]))]
    runs = [waiting(1, accelerators=4, **LONG), waiting(2, accelerators=4, **LONG)]
    small = waiting(3, accelerators=1, max_duration=2.5 * HOUR)
    assert placed(passed([*runs, small], [gpus("n1"), gpus("n2")], live)) == {}
    assert list(placed(passed([runs[0], small], [gpus("n1"), gpus("n2")], live))) == [3]


def test_a_gang_that_waits_is_not_delayed() -> None:
    live = [held(waiting(9, accelerators=4, max_duration=2 * HOUR), ("n1", [0, 1, 2, 3]))]
    gang = waiting(1, nodes=2, accelerators=4)
    runs = [gang, waiting(2, accelerators=4, max_duration=0.9 * HOUR), waiting(3, accelerators=1)]
    found = passed(runs, [gpus("n1"), gpus("n2")], live)
    assert placed(found) == {2: [("n2", [0, 1, 2, 3])]}
    assert found.waits[1] == "waits for 2 nodes with 4 x accelerator each: 1 free, n1 held by job 9 until about +60"


def test_a_run_of_higher_priority_does_not_wait_for_what_is_kept_for_another() -> None:
    live = [held(waiting(9, accelerators=2, max_duration=3 * HOUR), ("n", [0, 1]))]
    runs = [waiting(1, accelerators=4), waiting(2, accelerators=2, priority=9)]
    assert list(placed(passed(runs, [gpus("n")], live))) == [2]


def test_what_could_never_be_held_keeps_nothing() -> None:
    found = passed([waiting(1, accelerators=9), waiting(2, accelerators=4)], [gpus("n")])
    assert list(placed(found)) == [2]
    assert found.waits == {1: "waits for 9 x accelerator on one node: no node could hold that much"}


def test_the_cluster_is_left_as_it_was() -> None:
    cluster = Cluster.of([gpus("n")], [held(waiting(9, accelerators=1), ("n", [0]))])
    for _ in range(2):
        found = decide(
            Queue([waiting(1, accelerators=2), waiting(2, accelerators=4)]).groups(),
            cluster=cluster, projects={1: project()}, now=NOW,
        )  # fmt: skip
        assert placed(found) == {1: [("n", [1, 2])]}
    cluster.end("9-1")
    assert cluster.rooms["n"].matching(None) == [0, 1, 2, 3]
    assert cluster.share(1) == 0


# -- sentences


def test_a_sentence_names_what_is_lacking_and_who_has_it() -> None:
    live = [
        held(waiting(17, accelerators=1, max_duration=2 * HOUR), ("n1", [0])),
        held(waiting(18, owner="evaluation", accelerators=1, max_duration=3 * HOUR), ("n1", [1])),
        held(waiting(19, cpus=20.0), ("n1", [])),
    ]
    cases = {
        "waits for 4 x A10 on one node: 2 free on n1, held by job 17 and worker 18 until about +120":
            {"accelerators": 4, "accelerator_kind": "A10"},
        "waits for 3 x A10 on one node: 2 free on n1, held by job 17 until about +60":
            {"accelerators": 3, "accelerator_kind": "A10"},
        "waits for 30 CPUs on one node: 10 free on n1, held by job 19": {"cpus": 30.0, "accelerators": 1},
        "waits for 256.0 GiB of memory on one node: 253.0 GiB free on n1, held by job 17, worker 18 and 1 more":
            {"memory_bytes": 256 * GIB},
    }  # fmt: skip
    for sentence, asked in cases.items():
        assert passed([waiting(1, **asked)], [gpus("n1")], live).waits == {1: sentence}
    assert passed([waiting(1)], []).waits == {1: "waits for 1 CPU, 1.0 GiB on one node: no node is known yet"}


def test_the_first_of_a_group_says_why_they_all_wait() -> None:
    found = passed([waiting(i, accelerators=4, accelerator_kind="B") for i in (1, 2, 3)], [gpus("n")])
    assert list(found.waits) == [1]
    assert behind(waiting(1)) == "waits behind job 1"


def test_a_spot_run_waits_for_a_price_under_its_cap() -> None:
    def one(**spot: Any) -> Run:
        return waiting(1, billing=Billing.SPOT, spot=spot)

    def waits(asked: Run, price: int | None) -> dict[int, str]:
        return passed([asked], [node()], price=lambda r: price, on_demand=lambda r: 2_000_000).waits

    cap = one(bid="cap", max_price=1_200_000)
    assert waits(cap, 1_500_000) == {1: "waits for a spot price of at most 1.2 an hour: it is 1.5"}
    assert waits(cap, 1_200_000) == {}
    assert waits(cap, None) == {}
    assert waits(one(bid="market"), 9_000_000) == {}
    assert waits(one(bid="cap", max_discount=0.5), 1_100_000) == {
        1: "waits for a spot price of at most 1 an hour: it is 1.1"
    }


# -- reclaiming


def spot(id: int, devices: list[int], name: str = "n", **changes: Any) -> Held:
    asked = {k: changes.pop(k) for k in ("priority", "spot") if k in changes}
    return held(waiting(id, accelerators=len(devices), billing=Billing.SPOT, **asked), (name, devices), **changes)


def reclaimed(runs: list[Run], live: list[Held], nodes: list[Node] | None = None) -> list[str]:
    return sorted(r.attempt.id for r in passed(runs, nodes or [gpus("n")], live).reclaims)


OLD = {"started": NOW - 2 * HOUR}


def test_a_run_that_left_for_another_one_does_not_have_its_place_back_at_once() -> None:
    # it is queued again where it was, before the one that needs the place, and with any priority
    left = waiting(1, accelerators=4, priority=9, billing=Billing.SPOT)
    one = waiting(2, accelerators=4, priority=1)
    assert placed(passed([left, one], [gpus("n")])) == {2: [("n", [0, 1, 2, 3])]}
    # nor does a spot run that waits for long starve: it has its place before others, and is protected there
    old = replace(left, priority=5, queued_at=NOW - 31 * HOUR)
    assert placed(passed([old, one], [gpus("n")])) == {1: [("n", [0, 1, 2, 3])]}


def test_an_on_demand_run_has_the_place_of_a_spot_run_that_is_past_its_protection() -> None:
    one = waiting(1, accelerators=4)
    found = passed([one], [gpus("n")], [spot(9, [0], **OLD)])
    (reclaim,) = found.reclaims
    assert (reclaim.attempt.id, reclaim.run.id) == ("9-1", 9)
    assert reclaim.reason == "job 1, which is on demand, needs its place"
    assert reclaimed([one], [spot(9, [0], started=NOW - 0.9 * HOUR)]) == []
    assert reclaimed([one], [spot(9, [0], started=None)]) == []
    assert reclaimed([one], [spot(9, [0], started=NOW - 60, spot={"protection": 30})]) == ["9-1"]
    assert reclaimed([one], [spot(9, [0], spot={"protection": 3 * HOUR}, **OLD)]) == []
    assert reclaimed([waiting(1, accelerators=4, billing=Billing.SPOT)], [spot(9, [0], **OLD)]) == []
    assert reclaimed([waiting(1, accelerators=4, billing=Billing.SUBSCRIPTION)], [spot(9, [0], **OLD)]) == ["9-1"]


def test_as_few_leave_as_do_the_least_important_and_youngest() -> None:
    live = [spot(6, [0], **OLD), spot(7, [1], priority=3, **OLD), spot(8, [2, 3], **OLD)]
    assert reclaimed([waiting(1, accelerators=1)], live) == ["7-1"]
    assert reclaimed([waiting(1, accelerators=2)], live) == ["8-1"]
    assert reclaimed([waiting(1, accelerators=3)], live) == ["7-1", "8-1"]
    assert reclaimed([waiting(1, accelerators=4)], live) == ["6-1", "7-1", "8-1"]
    young = [spot(6, [0, 1], started=NOW - 5 * HOUR), spot(7, [2, 3], **OLD)]
    assert reclaimed([waiting(1, accelerators=1)], young) == ["7-1"]


def test_nothing_is_reclaimed_that_would_not_be_enough_or_breaks_a_limit() -> None:
    live = [spot(7, [0, 1], **OLD), held(waiting(8, accelerators=2), ("n", [2, 3]))]
    assert reclaimed([waiting(1, accelerators=3)], live) == []
    found = passed([waiting(1, accelerators=2)], [gpus("n")], live, [project(accelerators=4)])
    assert found.reclaims == []


def test_what_leaves_already_is_waited_for() -> None:
    one = waiting(1, accelerators=2)
    leaving = spot(7, [0, 1], reclaim_at=NOW - 5, **OLD)
    assert reclaimed([one], [leaving, spot(8, [2, 3], **OLD)]) == []
    stopping = held(waiting(7, accelerators=2), ("n", [0, 1]), state=AttemptState.STOPPING, stopping_at=NOW)
    assert reclaimed([one], [stopping, spot(8, [2, 3], **OLD)]) == []
    # it is enough for the first; whether the second needs more is seen once it has left
    assert reclaimed([one, waiting(2, accelerators=2)], [leaving, spot(8, [2, 3], **OLD)]) == []
    # within one pass each that needs it has its own
    live = [spot(7, [0, 1], **OLD), spot(8, [2, 3], **OLD)]
    assert reclaimed([one, waiting(2, accelerators=2)], live) == ["7-1", "8-1"]
    found = passed([one], [gpus("n")], [leaving, spot(8, [2, 3])])
    assert found.waits[1] == "waits for 2 x accelerator on one node: 0 free on n, held by job 7, which is leaving"


def test_what_was_reclaimed_for_a_run_is_not_given_to_another() -> None:
    leaving = spot(7, [0, 1], reclaim_at=NOW - 5, **OLD)
    runs = [waiting(1, accelerators=4), waiting(2, accelerators=2)]
    assert placed(passed(runs, [gpus("n")], [leaving])) == {}


def test_a_gang_reclaims_on_as_many_nodes_as_it_lacks() -> None:
    live = [spot(7, [0], "n1", **OLD), spot(8, [0], "n2", **OLD)]
    nodes = [gpus("n1"), gpus("n2"), gpus("n3")]
    assert len(reclaimed([waiting(1, nodes=2, accelerators=4)], live, nodes)) == 1
    assert reclaimed([waiting(1, nodes=3, accelerators=4)], live, nodes) == ["7-1", "8-1"]
    assert reclaimed([waiting(1, nodes=4, accelerators=4)], live, nodes) == []


def test_protection_by_default_is_the_policys() -> None:
    live = [spot(9, [0], started=NOW - 50)]
    found = passed([waiting(1, accelerators=4)], [gpus("n")], live, policy=Policy(protection=40))
    assert len(found.reclaims) == 1
