"""Price histories: what they say at any moment, what a bid says about them, and how they are read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import UsageError
from headway.rules import prices
from headway.rules.prices import History, parse
from headway.rules.records import Spec
from headway.rules.states import Billing

from .conftest import run as a_run

NOW = 1_767_225_600.0
SPEC = Spec(name="gpu", cpus=4, memory_bytes=1, accelerators=1, accelerator_kind=None, price_hour=1_000_000)
HISTORY = History.of([("gpu", 100.0, 10), ("gpu", 200.0, 20), ("gpu", 300.0, 5), ("cpu", 50.0, 1)])


@pytest.mark.parametrize(
    ("when", "price"), [(0.0, 10), (100.0, 10), (199.9, 10), (200.0, 20), (299.0, 20), (300.0, 5), (1e12, 5)]
)
def test_a_price_holds_until_the_next(when: float, price: int) -> None:
    assert HISTORY.at("gpu", when) == price


def test_of_a_spec_that_no_source_knows_there_is_no_price() -> None:
    assert HISTORY.at("tpu", 100.0) is None
    assert HISTORY.between("tpu", 0.0, 1.0) is None
    assert HISTORY.since("gpu", 99.0) is None
    assert HISTORY.since("gpu", 250.0) == 200.0
    assert prices.spot(HISTORY, replace(SPEC, name="tpu"), NOW) == SPEC.price_hour


_entries = st.lists(st.tuples(st.just("gpu"), st.integers(0, 50).map(float), st.integers(0, 9)), min_size=1)


@given(_entries, st.integers(0, 60), st.integers(0, 60))
def test_pieces_of_a_span_have_no_gap_and_the_price_of_each_moment(
    entries: list[tuple[str, float, int]], begin: int, length: int
) -> None:
    history = History.of(entries)
    pieces = history.between("gpu", float(begin), float(begin + length))
    assert pieces is not None
    at = float(begin)
    for start, end, price in pieces:
        assert start == at < end
        assert {history.at("gpu", moment) for moment in (start, (start + end) / 2)} == {price}
        at = end
    assert at == begin + length or not length


@given(_entries, _entries)
def test_of_two_histories_the_newer_one_holds_where_both_know(
    old: list[tuple[str, float, int]], new: list[tuple[str, float, int]]
) -> None:
    both = History.of(old).with_(History.of(new))
    assert all(both.at("gpu", at) == History.of(new).at("gpu", at) for _, at, _ in new)


@pytest.mark.parametrize(
    ("bid", "price", "out"),
    [
        ({"bid": "market"}, 9_000_000, False),
        ({"bid": "market", "max_price": 1}, 9_000_000, False),
        ({"bid": "cap", "max_price": 400_000}, 400_000, False),
        ({"bid": "cap", "max_price": 400_000}, 400_001, True),
        ({"bid": "cap", "max_discount": 0.6}, 400_000, False),
        ({"bid": "cap", "max_discount": 0.6}, 450_000, True),
        ({"bid": "cap", "max_price": 900_000, "max_discount": 0.6}, 450_000, True),
    ],
)
def test_a_bid_and_a_price(bid: dict[str, object], price: int, out: bool) -> None:
    run = replace(a_run(), billing=Billing.SPOT, spot=bid, spec="gpu")
    sentence = prices.outbid(run, SPEC, History.of([("gpu", 0.0, price)]), NOW)
    assert bool(sentence) is out
    assert not out or ("gpu" in sentence and f"{price / 1e6:g}" in sentence)
    assert prices.outbid(replace(run, billing=Billing.ON_DEMAND), SPEC, History(), NOW) == ""


@pytest.mark.parametrize(
    "text",
    [
        "time,spec,price\n2026-01-01T00:00:00Z,gpu,0.5\n2026-01-01T01:00:00+00:00, gpu, 0.75\n",
        "\ufeffspec,price,time\ngpu,0.5,1767225600\ngpu,0.75,1767229200\n",
        '[{"time": "2026-01-01T00:00:00", "spec": "gpu", "price": 0.5}, '
        '{"time": 1767229200, "spec": "gpu", "price": "0.75"}]',
        '{"gpu": [{"time": 1767225600, "price": 0.5}, [1767229200, 0.75]]}',
        '{"prices": {"gpu": [[1767225600, 0.5], [1767229200, 0.75]]}}',
    ],
)
def test_every_way_to_write_prices(text: str) -> None:
    assert parse(text, "prices", NOW).prices == {"gpu": ((NOW, 500_000), (NOW + 3600, 750_000))}


def test_a_price_without_a_time_is_that_of_now() -> None:
    assert parse('{"gpu": 0.5}', "feed", NOW).prices == {"gpu": ((NOW, 500_000),)}
    assert parse('[{"spec": "gpu", "price": 1}]', "feed", NOW).at("gpu", NOW) == 1_000_000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("time,spec,price\n1,gpu,cheap\n", "prices.csv, row 1: 'cheap' is no price."),
        ("time,spec,price\n1,gpu,-1\n", "row 1: '-1' is no price."),
        ("time,spec,price\nnoon,gpu,1\n", "row 1: 'noon' is no time."),
        ("a,b\n1,2\n", "prices.csv holds no prices."),
        ("[1, 2]", "prices.csv holds no prices."),
        ("{", "prices.csv holds no prices:"),
        ('[{"spec": "gpu", "price": NaN}]', "nan is no price."),
        ('[{"spec": "gpu", "price": true}]', "True is no price."),
    ],
)
def test_what_is_no_price_list_is_said(text: str, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse(text, "prices.csv", NOW)
    assert words in raised.value.message
    assert raised.value.remedy
