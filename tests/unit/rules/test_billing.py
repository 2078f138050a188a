"""What an attempt costs, on demand, on spot at prices that change, and on a subscription."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.rules import billing
from headway.rules.prices import History
from headway.rules.records import LedgerEntry
from headway.rules.states import Billing

HOUR = 3600.0


def entry(kind: Billing, nodes: int = 1, price: int = 1_000_000) -> LedgerEntry:
    return LedgerEntry(
        id=1, attempt_id="1-1", run_id=1, project_id=1, owner="job", spec="gpu", started_at=0.0, ended_at=None,
        seconds=0.0, price_hour=price * nodes, amount=0, details=billing.details(kind, nodes),
    )  # fmt: skip


def billed(of: LedgerEntry, until: float, history: History) -> LedgerEntry:
    return replace(of, **billing.upto(of, until, lambda: history))


def test_on_demand_and_subscription() -> None:
    assert billed(entry(Billing.ON_DEMAND, nodes=2), HOUR, History()).amount == 2_000_000
    paid = billed(entry(Billing.SUBSCRIPTION), HOUR, History())
    assert (paid.amount, paid.seconds, paid.price_hour) == (0, HOUR, 1_000_000)


def test_spot_costs_what_the_market_does_at_each_moment_on_each_node() -> None:
    history = History.of([("gpu", 0.0, 400_000), ("gpu", 0.5 * HOUR, 200_000)])
    found = billed(entry(Billing.SPOT, nodes=2), HOUR, history)
    assert found.amount == 600_000
    assert found.price_hour == 400_000
    assert found.details["segments"] == [[0.0, 1800.0, 800_000], [1800.0, 3600.0, 400_000]]
    assert billing.billing_of(found) is Billing.SPOT


def test_without_a_known_price_spot_costs_what_was_first_said() -> None:
    found = billed(entry(Billing.SPOT, nodes=3, price=100), HOUR, History())
    assert (found.amount, found.details["segments"]) == (300, [[0.0, HOUR, 300]])


def test_what_was_billed_stays_when_the_source_forgets() -> None:
    found = billed(entry(Billing.SPOT), HOUR, History.of([("gpu", 0.0, 400_000)]))
    # a feed that tells the present price alone was asked anew by another controller
    found = billed(found, 2 * HOUR, History.of([("gpu", 1.5 * HOUR, 800_000)]))
    assert found.amount == 400_000 + 800_000


def test_an_end_before_the_last_look_takes_back_what_was_too_much() -> None:
    history = History.of([("gpu", 0.0, 400_000), ("gpu", HOUR, 800_000)])
    found = billed(entry(Billing.SPOT), 2 * HOUR, history)
    assert found.amount == 1_200_000
    found = billed(found, 0.5 * HOUR, history)
    assert (found.amount, found.seconds) == (200_000, 0.5 * HOUR)


@given(
    st.lists(st.tuples(st.just("gpu"), st.integers(0, 100).map(float), st.integers(0, 10**6)), min_size=1),
    st.lists(st.floats(0, 120, allow_nan=False), min_size=1, max_size=8).map(sorted),
)
def test_looking_often_costs_no_more_than_looking_once(
    prices: list[tuple[str, float, int]], looks: list[float]
) -> None:
    history, often = History.of(prices), entry(Billing.SPOT)
    for at in looks:
        often = billed(often, at, history)
    once = billed(entry(Billing.SPOT), looks[-1], history)
    assert often.amount == once.amount
    assert often.seconds == pytest.approx(once.seconds)
