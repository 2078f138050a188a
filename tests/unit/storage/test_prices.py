"""Sources of spot prices: files that change, feeds that fail."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headway.storage.prices import FeedPrices, FilePrices, NoPrices, open_prices


def test_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_text("time,spec,price\n100,gpu,0.5\n")
    source = open_prices(str(file))
    assert isinstance(source, FilePrices)
    assert source.history().at("gpu", 200.0) == 500_000
    file.write_text("time,spec,price\n100,gpu,0.5\n150,gpu,0.75\n")
    assert source.history().at("gpu", 200.0) == 750_000


def test_a_file_that_is_wrong_or_gone_leaves_the_last_prices_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "prices.csv"
    file.write_text("time,spec,price\n100,gpu,0.5\n")
    source = FilePrices(file)
    source.history()
    file.unlink()
    with caplog.at_level(logging.WARNING):
        assert [source.history().at("gpu", 200.0) for _ in range(3)] == [500_000] * 3
    assert len(caplog.records) == 1
    file.write_text("nonsense\n1\n")
    assert source.history().at("gpu", 200.0) == 500_000


def test_without_a_setting_nothing_is_known() -> None:
    assert isinstance(open_prices(None), NoPrices)
    assert open_prices("").history().prices == {}


class _Feed(ThreadingHTTPServer):
    answer: tuple[int, bytes] = (200, b"{}")
    asked = 0
    changed = threading.Condition()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, _Feed)
        status, body = self.server.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        with self.server.changed:
            self.server.asked += 1
            self.server.changed.notify_all()

    def log_message(self, format: str, *values: object) -> None: ...


@pytest.fixture
def feed() -> Iterator[_Feed]:
    with _Feed(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def _asked_again(feed: _Feed, times: int = 2) -> None:
    """Until the feed was asked so often from now on: the answer before the last has been taken in."""
    with feed.changed:
        wanted = feed.asked + times
        assert feed.changed.wait_for(lambda: feed.asked >= wanted, timeout=20)


def test_a_feed_is_polled_remembers_and_survives_failures(feed: _Feed) -> None:
    now = [100.0]
    feed.answer = (200, b'{"gpu": 0.5}')
    source = FeedPrices(f"http://127.0.0.1:{feed.server_port}/p", lambda: now[0], every=0.02, first=20.0)
    try:
        assert source.history().at("gpu", 100.0) == 500_000
        for answer in ((500, b""), (200, b"<html>"), (200, b"[1]")):
            feed.answer = answer
            _asked_again(feed)
            assert source.history().at("gpu", 100.0) == 500_000
        now[0] = 200.0
        feed.answer = (200, b'{"gpu": 0.25}')
        _asked_again(feed)
        history = source.history()
        # what it said before is still known: the bill needs it
        assert (history.at("gpu", 199.0), history.at("gpu", 1e9)) == (500_000, 250_000)
    finally:
        source.close()


def test_a_feed_that_is_not_there_gives_no_prices() -> None:
    source = FeedPrices("http://127.0.0.1:1/prices", every=60.0, first=20.0)
    try:
        assert source.history().prices == {}
    finally:
        source.close()
