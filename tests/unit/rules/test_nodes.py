"""What becomes of known nodes when the engine tells what it has."""

from __future__ import annotations

from dataclasses import replace

from headway.rules.nodes import FORGET_SECONDS, GONE, merge
from headway.rules.states import NodeState

from .conftest import node

UP = node("a")
DRAINED = replace(node("b"), state=NodeState.DRAINED, reason="disk")
NOW = UP.seen_at + 10


def test_a_drained_node_stays_drained_whatever_the_engine_says() -> None:
    assert merge([DRAINED], [node("b", cpus=9)], (), NOW) == [
        replace(node("b", cpus=9), state=DRAINED.state, reason="disk")
    ]
    assert merge([DRAINED], [], (), NOW + 10 * FORGET_SECONDS) == [DRAINED]


def test_a_node_that_is_gone_is_lost_and_up_when_it_comes_back() -> None:
    (lost,) = merge([UP], [], (), NOW)
    assert (lost.state, lost.reason, lost.seen_at) == (NodeState.LOST, GONE, UP.seen_at)
    assert merge([lost], [UP], (), NOW) == [UP]


def test_a_lost_node_is_forgotten_once_nothing_lives_there() -> None:
    late = UP.seen_at + FORGET_SECONDS
    assert [n.state for n in merge([UP], [], {"a"}, late)] == [NodeState.LOST]
    assert merge([UP], [], {"other"}, late) == []


def test_a_new_node_is_up() -> None:
    assert merge([], [node("z"), node("a")], (), NOW) == [node("a"), node("z")]
