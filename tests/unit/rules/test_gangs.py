"""One end of the ends of a gang's nodes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.protocol.exits import Cause, Exit
from headway.rules import gangs

NODES = ("n1", "n2", "n3")


def end(cause: Cause, at: float = 10.0, **changes: Any) -> Exit:
    values: dict[str, Any] = {
        "code": None, "signal": None, "rank": None, "message": "It ended.", "started": 1.0, "launched": 2.0,
        "ended": at, "usage": {"cpu_seconds": 1.0, "max_rss_bytes": 5.0},
    }  # fmt: skip
    return Exit(cause, **values | changes)


def abort(node: int, cause: Cause, **changes: Any) -> dict[str, Any]:
    return {
        "node": node,
        "cause": cause.value,
        "message": "told.",
        "rank": None,
        "code": None,
        "signal": None,
    } | changes


PEER, DONE, FENCED = Cause.PEER_FAILED, Cause.DONE, Cause.FENCED


@pytest.mark.parametrize(
    ("ends", "told", "cause", "node"),
    [
        ([end(DONE), end(DONE)], None, DONE, 0),
        # the one that failed, not those that followed, however early these were done
        ([end(PEER, 3.0), end(Cause.EXIT, 9.0)], None, Cause.EXIT, 1),
        ([end(DONE, 2.0), end(Cause.OOM_KILL)], None, Cause.OOM_KILL, 1),
        # of two the one that abort.json names; without it the earlier
        ([end(Cause.EXIT, 3.0), end(Cause.KILLED, 4.0)], abort(1, Cause.KILLED), Cause.KILLED, 1),
        ([end(Cause.EXIT, 3.0), end(Cause.KILLED, 4.0)], None, Cause.EXIT, 0),
        # a node that could not say it itself
        ([end(PEER), None], abort(1, Cause.EXIT, rank=3, code=7), Cause.EXIT, 1),
        ([end(PEER), None], abort(1, Cause.RUNNER_LOST), Cause.RUNNER_LOST, 1),
        ([None, end(PEER)], None, Cause.RUNNER_LOST, 0),
        ([end(FENCED), end(Cause.NODE_LOST)], abort(1, Cause.NODE_LOST), Cause.NODE_LOST, 1),
        ([end(FENCED), end(FENCED)], None, FENCED, 0),
        # ranks fail when those of another node vanish, whoever tells it first
        ([end(Cause.EXIT, 9.0), end(Cause.RUNNER_LOST, 8.0)], abort(0, Cause.EXIT, at=9.0), Cause.RUNNER_LOST, 1),
        ([end(Cause.KILLED, 9.0), end(Cause.NODE_LOST, 8.0)], None, Cause.NODE_LOST, 1),
        ([end(Cause.EXIT), None], abort(0, Cause.EXIT), Cause.RUNNER_LOST, 1),
        # but not those that failed while it was still there, or for want of something else
        ([end(Cause.EXIT, 5.0), end(Cause.RUNNER_LOST, 8.0)], abort(0, Cause.EXIT, at=5.0), Cause.EXIT, 0),
        ([end(Cause.OOM_KILL, 9.0), end(Cause.RUNNER_LOST, 8.0)], None, Cause.OOM_KILL, 0),
        # what all were asked for is not changed by a node that was lost meanwhile
        ([end(Cause.RECLAIMED), None], abort(1, Cause.RUNNER_LOST), Cause.RECLAIMED, 0),
        ([end(Cause.TIME_LIMIT, 4.0), end(Cause.RUNNER_LOST, 3.0)], None, Cause.TIME_LIMIT, 0),
        ([end(Cause.PAUSED), end(PEER)], None, Cause.PAUSED, 0),
        # but by one that failed
        ([end(Cause.RECLAIMED, 9.0), end(Cause.EXIT, 8.0)], abort(1, Cause.EXIT), Cause.EXIT, 1),
        # never the cause of the whole
        ([end(PEER, 5.0), end(PEER, 4.0)], None, Cause.RUNNER_LOST, 1),
        ([end(PEER), end(DONE)], abort(7, Cause.EXIT), Cause.RUNNER_LOST, 0),
        ([end(PEER), end(Cause.EXIT)], {"node": "no", "cause": "nonsense"}, Cause.EXIT, 1),
    ],
)
def test_the_first_to_fail(ends: list[Exit | None], told: dict[str, Any] | None, cause: Cause, node: int) -> None:
    assert gangs.combine(ends, nodes=NODES, abort=told).cause is cause
    assert gangs.first(ends, abort=told).node == node


def test_the_sentence_names_the_node_and_the_rank() -> None:
    failed = end(Cause.EXIT, code=7, rank=3, message="rank 3 returned 7: no such file.")
    whole = gangs.combine([end(PEER), failed], nodes=NODES, abort=abort(1, Cause.EXIT, rank=3, code=7))
    assert whole.message == "On n2: rank 3 returned 7: no such file."
    assert (whole.code, whole.rank) == (7, 3)


def test_a_name_is_said_once_and_not_of_what_all_were_asked_for() -> None:
    lost = end(Cause.NODE_LOST, message="n2 is lost: no heartbeat for 30 s.")
    assert gangs.combine([end(PEER), lost], nodes=NODES).message == "node n2 is lost: no heartbeat for 30 s."
    stopped = end(Cause.STOPPED, message="Enough.")
    assert gangs.combine([stopped, stopped], nodes=NODES).message == "Enough."


def test_what_abort_says_of_a_node_that_is_gone() -> None:
    told = abort(1, Cause.KILLED, rank=2, signal=9, code=137, message="rank 2 died of SIGKILL.")
    whole = gangs.combine([end(PEER), None], nodes=NODES, abort=told)
    assert (whole.cause, whole.rank, whole.signal, whole.code) == (Cause.KILLED, 2, 9, 137)
    assert whole.message == "On n2: rank 2 died of SIGKILL."


def test_the_times_and_the_usage_of_all() -> None:
    whole = gangs.combine(
        [end(DONE, 9.0, started=3.0, launched=None), end(DONE, 7.0, started=2.0, launched=4.0)], nodes=NODES
    )
    assert (whole.started, whole.launched, whole.ended) == (2.0, 4.0, 9.0)
    assert whole.usage == {"cpu_seconds": 2.0, "max_rss_bytes": 5.0}


def test_of_one_node_it_is_that_nodes_end() -> None:
    one = end(Cause.EXIT, code=3)
    assert gangs.combine([one], nodes=NODES) == one
    with pytest.raises(ValueError, match="one node"):
        gangs.combine([])


_ends = st.lists(
    st.one_of(st.none(), st.builds(end, st.sampled_from(Cause), st.floats(2, 100))), min_size=2, max_size=4
)
_aborts = st.one_of(
    st.none(),
    st.builds(abort, st.integers(-1, 5), st.sampled_from(Cause)),
    st.dictionaries(
        st.sampled_from(["node", "cause", "rank", "message"]), st.one_of(st.none(), st.text(), st.floats())
    ),
)


@given(_ends, _aborts)
def test_any_ends_make_one_that_has_a_rule(ends: list[Exit | None], told: dict[str, Any] | None) -> None:
    whole = gangs.combine(ends, nodes=NODES, abort=told)
    assert whole.cause is not PEER
    assert (whole.cause is DONE) <= any(e is not None and e.cause is DONE for e in ends)
    assert whole.started <= whole.ended
    # it succeeded only if nothing failed
    if whole.cause is DONE:
        assert all(e is not None and e.cause is DONE for e in ends)


@given(st.permutations([end(DONE), end(PEER), end(Cause.EXIT, 5.0)]))
def test_the_order_of_the_nodes_does_not_matter(ends: list[Exit]) -> None:
    assert gangs.combine(ends, nodes=NODES).cause is Cause.EXIT
