"""The first page's body: totals, runs, the chosen run with its log, the queue, evaluations, endpoints."""

from __future__ import annotations

import asyncio

from nicegui import ui

from headway.client.aio import AsyncClient
from headway.console import show, strips
from headway.console.detail import Detail
from headway.console.feed import Feed, is_sign_out
from headway.console.frame import LiveSign
from headway.console.parts.elements import RunsTable
from headway.console.texts import Texts
from headway.errors import HeadwayError


class Board:
    """One open page. `start` when the browser has connected (again), `stop` when it is gone for good."""

    def __init__(self, client: AsyncClient, t: Texts, seconds: float, live: LiveSign, run: int) -> None:
        """seconds: until the session ends; run: the one to open, 0: the newest that lives."""
        self._client = client
        self._t = t
        self._seconds = seconds
        self._live = live
        self._chosen = run
        self._page = ui.context.client
        self._end: asyncio.TimerHandle | None = None
        self.feed = Feed(client, on_change=self._show, on_end=self._ended)
        with ui.element("main").classes("hw-main"):
            self._totals = strips.Totals(t)
            with ui.element("div").classes("hw-columns"):
                with ui.element("div").classes("hw-left").props('id="runs"'):
                    self._table = RunsTable(t, on_pick=self._pick, on_older=self._older)
                with ui.element("div").classes("hw-right"):
                    self._detail = Detail(client, t, on_end=self._ended, on_made=self._made)
            self._queue = strips.Queue(t, on_pick=self._pick)
            with ui.element("div").classes("hw-strips"):
                self._evaluations = strips.Evaluations(t)
                self._endpoints = strips.Endpoints(t, str(self._page.request.base_url))

    def start(self) -> None:
        self.feed.start()
        if self._end is None:
            # a page left open does not outlive its session
            self._end = asyncio.get_running_loop().call_later(self._seconds, self._leave)

    async def stop(self) -> None:
        if self._end is not None:
            self._end.cancel()
        await self.feed.stop()
        await self._detail.stop()
        await self._client.aclose()

    def _show(self) -> None:
        if self._page.is_deleted:
            return
        feed = self.feed
        self._live.show("live" if feed.connected else "away")
        if not feed.loaded:
            return
        currency = feed.bill.currency if feed.bill else "USD"
        with self._page:
            runs = sorted(feed.runs.values(), key=lambda run: -run.id)
            self._table.show([show.row(run, self._t, currency) for run in runs], more=feed.more)
            self._totals.show(feed)
            self._queue.show(feed.queue)
            self._evaluations.show(list(feed.evaluations.values()), currency)
            self._endpoints.show(feed.endpoints, currency)
            if self._chosen not in feed.runs and runs:
                self._chosen = next((run.id for run in runs if run.state in show.LIVE), runs[0].id)
            if self._chosen in feed.runs:
                self._table.choose(self._chosen)
                self._detail.show(feed.runs[self._chosen], currency)

    def _pick(self, run: int) -> None:
        if run not in self.feed.runs:
            return
        self._chosen = run
        self._table.choose(run)
        self._detail.show(self.feed.runs[run], self.feed.bill.currency if self.feed.bill else "USD")
        ui.run_javascript(
            f"history.replaceState(history.state, '', '/?run={run}');"
            # on a narrow window the log lies below the table
            "if (innerWidth < 1000) document.querySelector('.hw-right').scrollIntoView({behavior: 'smooth'});"
        )

    async def _made(self, run: int) -> None:
        """A run that was made on this page is looked at next."""
        try:
            self.feed.runs[run] = await self._client.run(run)
        except HeadwayError as error:
            self._ended(error)
            return
        self._show()
        with self._page:
            self._pick(run)

    async def _older(self) -> None:
        try:
            await self.feed.older()
        except HeadwayError as error:
            self._ended(error)

    def _ended(self, error: HeadwayError) -> None:
        if is_sign_out(error):
            self._leave()
        else:
            self._live.show("away")

    def _leave(self) -> None:
        """To the sign-in: `/` finds that the session is over, and says so."""
        if not self._page.is_deleted:
            with self._page:
                ui.navigate.to("/")
