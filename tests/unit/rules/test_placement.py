from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headway.rules import placement

from .conftest import node, run


def test_runs_are_placed_in_order_until_nothing_fits() -> None:
    decision = placement.decide([run(i) for i in range(1, 4)], placement.rooms([node(cpus=2)], []))
    assert [p.run.id for p in decision.placements] == [1, 2]
    assert list(decision.waits) == [3]
    assert "1 CPU" in decision.waits[3]


def test_what_lives_is_not_given_away_again() -> None:
    place = {"node": "n", "address": "", "accelerators": [0]}
    free = placement.rooms([node(kinds=("a", "a"))], [(run(1, accelerators=1), place)])
    decision = placement.decide([run(2, accelerators=1), run(3, accelerators=1)], free)
    assert [(p.run.id, p.accelerators) for p in decision.placements] == [(2, [1])]
    assert list(decision.waits) == [3]


def test_an_accelerator_must_be_of_the_kind_that_is_asked() -> None:
    free = placement.rooms([node(kinds=("a", "b"))], [])
    decision = placement.decide([run(1, accelerators=1, accelerator_kind="b")], free)
    assert decision.placements[0].accelerators == [1]


def test_a_run_that_asks_for_no_accelerator_leaves_the_node_that_has_some() -> None:
    decision = placement.decide([run(1)], placement.rooms([node("gpu", kinds=("a",)), node("plain")], []))
    assert decision.placements[0].node.name == "plain"


def test_smaller_runs_do_not_starve_one_that_waits_before_them() -> None:
    place = {"node": "n", "accelerators": []}
    free = placement.rooms([node(cpus=2)], [(run(9), place)])
    decision = placement.decide([run(1, cpus=2.0), run(2)], free)
    assert decision.placements == []


def test_what_the_waiting_run_does_not_ask_for_stays_free() -> None:
    place = {"node": "n", "accelerators": [0]}
    free = placement.rooms([node(cpus=4, kinds=("a",))], [(run(9, accelerators=1), place)])
    decision = placement.decide([run(1, accelerators=1), run(2)], free)
    assert [p.run.id for p in decision.placements] == [2]


RUNS = st.lists(
    st.tuples(st.sampled_from([0.5, 1.0, 2.0, 3.0]), st.integers(1, 8), st.integers(0, 3)), max_size=12
).map(lambda asked: [run(i, cpus=c, memory_bytes=m << 30, accelerators=a) for i, (c, m, a) in enumerate(asked, 1)])
NODES = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 8), st.integers(0, 3)), max_size=3).map(
    lambda has: [node(f"n{i}", float(c), m << 30, ("a",) * a) for i, (c, m, a) in enumerate(has)]
)


@given(RUNS, NODES)
def test_no_node_is_ever_given_more_than_it_has_and_no_run_is_forgotten(runs: list, nodes: list) -> None:
    decision = placement.decide(runs, placement.rooms(nodes, []))
    placed = {p.run.id for p in decision.placements}
    assert placed | set(decision.waits) == {r.id for r in runs}
    assert not placed & set(decision.waits)
    for one in nodes:
        here = [p for p in decision.placements if p.node.name == one.name]
        assert sum(p.run.cpus for p in here) <= one.cpus + 1e-6
        assert sum(p.run.memory_bytes for p in here) <= one.memory_bytes
        given_away = [i for p in here for i in p.accelerators]
        assert len(given_away) == len(set(given_away)) <= len(one.accelerators)
        assert all(len(p.accelerators) == p.run.accelerators for p in here)
