"""What a job makes, beside its logs: charts of its metrics and of what it used, its checkpoints, its attempts.
Looked at anew while the run lives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from nicegui import ui

from headway.client.aio import AsyncClient
from headway.console import plots, show
from headway.console.frame import text
from headway.console.texts import Texts
from headway.errors import HeadwayError
from headway.wire.metrics import MetricSeries, UsageSeries
from headway.wire.runs import AttemptView, CheckpointView, RunView

R = TypeVar("R", CheckpointView, AttemptView)

#: heads of columns with numbers
_NUMBERS = ("step", "epoch", "size", "duration", "cost")
#: seconds between two looks while the run lives
AGAIN = 2.0
#: charts of one run
MOST = 24


class Made:
    """`choose` one of KINDS and a run; nothing is asked while none is chosen."""

    KINDS = ("metrics", "checkpoints", "attempts")

    def __init__(self, client: AsyncClient, t: Texts) -> None:
        self._client, self._t = client, t
        #: of costs
        self.currency = "USD"
        self._watcher: asyncio.Task[None] | None = None
        self._drawn: list[plots.Plot] = []
        self._shown: object = None
        self._page = ui.context.client
        self._box = ui.element("div").classes("hw-made").props('role="tabpanel"')
        self._box.set_visibility(False)

    def choose(self, kind: str | None, run: RunView | None) -> None:
        """kind: one of KINDS; None: hidden. The same as before goes on as it is."""
        if self._watcher is not None:
            self._watcher.cancel()
        self._box.set_visibility(kind is not None)
        self._drawn, self._shown = [], None
        self._box.clear()
        if kind is not None and run is not None:
            self._watcher = asyncio.create_task(self._watch(kind, run.id))

    async def stop(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)

    async def _watch(self, kind: str, run: int) -> None:
        while not self._page.is_deleted:
            try:
                # the state first: what is asked after the end is all that there will be
                state = (await self._client.run(run)).state
                if kind == "metrics":
                    self._show_metrics(*await asyncio.gather(self._client.metrics(run), self._client.usage(run)))
                elif kind == "checkpoints":
                    self._show_checkpoints(await self._client.checkpoints(run))
                else:
                    self._show_attempts(await self._client.attempts(run))
            except HeadwayError as error:
                self._say(self._t("made_failed", why=error.message))
                state = ""
            if state in show.ENDED:
                return
            await asyncio.sleep(AGAIN)

    def _say(self, words: str) -> None:
        if self._shown != words:
            self._shown, self._drawn = words, []
            self._box.clear()
            with self._box:
                text("p", words, "hw-quiet")

    def _show_metrics(self, found: list[MetricSeries], used: list[UsageSeries]) -> None:
        every = [series for series in found if series.points]
        metrics = [plots.of_metric(series, self._t) for series in every[:MOST]]
        usage = plots.of_usage(used, self._t)
        if not metrics and not usage:
            self._say(self._t("no_metrics"))
            return
        names = [curves.name for curves in (*metrics, *usage)]
        if self._shown != (names, len(every)):
            self._shown = (names, len(every))
            self._box.clear()
            with self._box:
                self._drawn = self._draw(metrics, "" if metrics else "no_metrics")
                if len(every) > len(metrics):
                    text("p", self._t("cut_metrics", n=len(metrics), all=len(every)), "hw-quiet")
                if usage:
                    text("h3", self._t("used"), "hw-part")
                    self._drawn += self._draw(usage, "")
        for plot, curves in zip(self._drawn, (*metrics, *usage), strict=True):
            plot.show(curves)

    def _draw(self, curves: list[plots.Curves], empty: str) -> list[plots.Plot]:
        if empty:
            text("p", self._t(empty), "hw-quiet")
            return []
        with ui.element("div").classes("hw-charts"):
            return [plots.Plot(one) for one in curves]

    def _show_checkpoints(self, found: list[CheckpointView]) -> None:
        heads = ("checkpoint", "step", "epoch", "size", "state", "metrics")
        self._table(found, heads, "no_checkpoints", self._checkpoint)

    def _checkpoint(self, one: CheckpointView) -> None:
        state = "removed" if one.removed_at is not None else "valid" if one.valid else "invalid"
        text("td", one.name, "code")
        text("td", "" if one.step is None else str(one.step), "num")
        text("td", "" if one.epoch is None else str(one.epoch), "num")
        text("td", show.size(one.bytes), "num")
        with ui.element("td"):
            text("span", self._t(f"checkpoint_{state}"), f"hw-mark-{state}")
            if not one.valid and one.reason:
                text("div", one.reason, "hw-quiet hw-why-not")
        text("td", "  ".join(f"{k} {v:.4g}" for k, v in one.metrics.items() if isinstance(v, int | float)))

    def _show_attempts(self, found: list[AttemptView]) -> None:
        self._table(found, ("attempts", "place", "duration", "ended_how", "cost"), "no_attempts", self._attempt)

    def _attempt(self, one: AttemptView) -> None:
        t = self._t
        text("td", one.id, "code")
        text("td", ", ".join(one.nodes))
        began, ended = one.started_at, one.ended_at
        text("td", show.span(round((ended - began).total_seconds(), 1), t) if began and ended else "", "num")
        with ui.element("td").classes("hw-end"):
            text("span", t.known("ended", one.cause) if one.cause else t("attempt_live"), f"hw-end-{one.cause}")
            if one.message and one.cause != "done":
                text("div", one.message, "hw-quiet hw-why-not")
            if one.reclaim_reason and one.reclaim_reason not in one.message:
                text("div", t("reclaim_asked", why=one.reclaim_reason), "hw-quiet hw-why-not")
        text("td", show.money(one.cost, self.currency), "num")

    def _table(self, found: Sequence[R], heads: tuple[str, ...], empty: str, cells: Callable[[R], None]) -> None:
        """Newest first."""
        if not found:
            self._say(self._t(empty))
            return
        looks = [one.model_dump_json() for one in found]
        if self._shown == looks:
            return
        self._shown = looks
        self._box.clear()
        with self._box, ui.element("table").classes("hw-list"):
            with ui.element("thead"), ui.element("tr"):
                for head in heads:
                    text("th", self._t(head), "num" if head in _NUMBERS else "", props='scope="col"')
            with ui.element("tbody"):
                for one in reversed(found):
                    with ui.element("tr"):
                        cells(one)
