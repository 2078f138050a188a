"""Prices and machines' notices: who is asked to leave, and what it costs until then."""

from __future__ import annotations

import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from headway.controller.bill import Bill
from headway.controller.loop import Desk
from headway.controller.market import NOTICE, Market
from headway.controller.reap import Reap
from headway.controller.schedule import Schedule
from headway.rules.prices import History
from headway.rules.states import Billing, NodeState, RunState
from headway.storage.prices import Prices

from .conftest import House
from .test_queue import live, node, put_nodes

CAP = {"bid": "cap", "max_price": 20_000}


class Told(Prices):
    """Prices that the test says."""

    def __init__(self) -> None:
        self.known = History()

    def history(self) -> History:
        return self.known

    def say(self, at: float, price: int, spec: str = "small") -> None:
        self.known = self.known.with_(History.of([(spec, at, price)]))


@pytest.fixture
def prices(house: House) -> Told:
    told = Told()
    house.ctx = replace(house.ctx, prices=told)
    house.desk = house.new_desk("with prices")
    return told


def asked(house: House, run: int) -> str:
    return house.attempt(f"{run}-1").reclaim_reason


def test_a_price_above_the_bid_takes_the_place_also_within_protection(house: House, prices: Told) -> None:
    capped = live(house, "n1", billing=Billing.SPOT, spot={**CAP, "protection": 3600})
    following = live(house, "n1", billing=Billing.SPOT, spot={"bid": "market"})
    demanding = live(house, "n1", spot={})
    prices.say(0.0, 20_000)
    market = Market(house.desk)
    assert market.step() == set()
    prices.say(house.clock(), 25_000)
    assert "reclaim" in market.step()
    assert asked(house, capped.id) == "the spot price of small is 0.025 an hour, above its bid of 0.02"
    assert [asked(house, r.id) for r in (following, demanding)] == ["", ""]
    before = house.record()
    assert market.step() == set()
    assert house.record() == before


def test_a_capped_run_waits_while_the_price_is_above_its_bid(house: House, prices: Told) -> None:
    prices.say(0.0, 25_000)
    run = house.add_run(billing=Billing.SPOT, spot=CAP)
    schedule = Schedule(house.desk)
    schedule.step()
    assert house.run(run.id).reason == "waits for a spot price of at most 0.02 an hour: it is 0.025"
    prices.say(house.clock(), 15_000)
    schedule.step()
    assert house.run(run.id).state is RunState.STARTING


def test_the_machines_notice_moves_everybody_and_keeps_others_away(house: House, tmp_path: Path) -> None:
    notice = tmp_path / "going"
    put_nodes(house, node("n1", notice=str(notice)), node("n2", notice=str(tmp_path / "never")))
    there, elsewhere = live(house, "n1"), live(house, "n2")
    spot = live(house, "n1", billing=Billing.SPOT, spot={"bid": "market"})
    market = Market(house.desk)
    assert market.step() == set()
    notice.touch()
    assert "reclaim" in market.step()
    assert asked(house, spot.id) == asked(house, there.id) == "the machine of n1 will be taken away"
    assert asked(house, elsewhere.id) == ""
    states = lambda: [(n.state, n.reason) for n in _nodes(house)]  # noqa: E731
    assert states() == [(NodeState.DRAINED, NOTICE), (NodeState.UP, "")]
    assert market.step() == set()
    notice.unlink()
    assert "run" in market.step()
    assert states() == [(NodeState.UP, "")] * 2


def test_a_node_that_people_drained_stays_drained_without_a_notice(house: House, tmp_path: Path) -> None:
    put_nodes(house, node("n1", notice=str(tmp_path / "never"), state=NodeState.DRAINED, reason="disk"))
    assert Market(house.desk).step() == set()
    assert [n.state for n in _nodes(house)] == [NodeState.DRAINED]


@pytest.mark.parametrize(("status", "leaves"), [(200, True), (404, False), (500, False)])
def test_a_notice_by_address(house: House, status: int, leaves: bool) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *values: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        put_nodes(house, node("n1", notice=f"http://127.0.0.1:{server.server_port}/spot"))
        run = live(house, "n1")
        Market(house.desk).step()
        server.shutdown()
    assert bool(asked(house, run.id)) is leaves


def test_an_address_that_does_not_answer_gives_no_notice(house: House) -> None:
    put_nodes(house, node("n1", notice="http://127.0.0.1:1/spot"), node("n2", notice="http://[bad/"))
    live(house, "n1")
    assert Market(house.desk).step() == set()


def _nodes(house: House) -> list[object]:
    with house.ctx.store.read() as tx:
        return list(tx.runs.nodes())


# -- the bill


def _bill(house: House, attempt: str) -> tuple[int, int, object]:
    with house.ctx.store.read() as tx:
        entry = tx.ledger.of_attempt(attempt)
    assert entry is not None
    return entry.amount, entry.price_hour, entry.details.get("segments")


def test_a_spot_run_is_billed_by_the_price_of_each_moment(house: House, prices: Told) -> None:
    prices.say(0.0, 10_000)
    run = house.add_run(billing=Billing.SPOT, spot={"bid": "market"})
    Schedule(house.desk).step()
    begin = house.clock()
    house.report(f"{run.id}-1", {"event": "started"}, {"event": "launched"})
    Reap(house.desk).step()
    house.clock.now += 1800
    prices.say(house.clock(), 30_000)
    house.clock.now += 900
    Bill(house.desk).step()
    assert _bill(house, f"{run.id}-1")[:2] == (5_000 + 7_500, 30_000)
    house.clock.now += 900
    house.end(f"{run.id}-1")
    Reap(house.desk).step()
    assert _bill(house, f"{run.id}-1") == (
        20_000,
        30_000,
        [[begin, begin + 1800, 10_000], [begin + 1800, begin + 3600, 30_000]],
    )


def test_a_subscription_costs_nothing_more_and_shows_its_price(house: House) -> None:
    run = house.add_run(billing=Billing.SUBSCRIPTION)
    Schedule(house.desk).step()
    house.report(f"{run.id}-1", {"event": "started"})
    Reap(house.desk).step()
    house.clock.now += 3600
    Bill(house.desk).step()
    assert _bill(house, f"{run.id}-1")[:2] == (0, 40_000)


def test_a_gang_costs_as_much_as_its_nodes(house: House) -> None:
    put_nodes(house, node("n1"), node("n2"))
    run = house.add_run(nodes=2)
    Schedule(house.desk).step()
    house.report(f"{run.id}-1", {"event": "started"})
    Reap(house.desk).step()
    house.clock.now += 3600
    Bill(house.desk).step()
    assert _bill(house, f"{run.id}-1")[:2] == (80_000, 80_000)


def test_a_desk_has_prices(house: House, prices: Told) -> None:
    assert isinstance(house.desk, Desk)
    assert house.desk.services.prices is prices
