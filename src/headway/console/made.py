"""What a job makes, beside its logs: a chart for each metric, its checkpoints, its attempts.
Looked at anew while the run lives."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from nicegui import ui

from headway.client.aio import AsyncClient
from headway.console import show
from headway.console.frame import text
from headway.console.texts import Texts
from headway.errors import HeadwayError
from headway.wire.metrics import MetricPoint, MetricSeries
from headway.wire.runs import AttemptView, CheckpointView, RunView

R = TypeVar("R", CheckpointView, AttemptView)

#: heads of columns with numbers
_NUMBERS = ("step", "epoch", "size", "duration", "cost")
#: seconds between two looks while the run lives
AGAIN = 2.0
#: charts of one run
MOST = 24
#: told apart on light and on dark ground
_COLOURS = ["#2f8f76", "#3f7fc4", "#c9822b", "#b4557a", "#7d6bc9", "#6f8f3a", "#c2574a", "#4d9aa8"]


def chart(series: MetricSeries, t: Texts) -> dict[str, Any]:
    """ECharts' options: value over step, one line a rank that reported it; colours of the page's theme."""
    ranks = sorted({p.rank for p in series.points})
    ink = {"color": "var(--quiet)", "fontSize": 11}
    line = {"lineStyle": {"color": "var(--line)"}}
    return {
        "animation": False,
        "grid": {"left": 6, "right": 14, "top": 10, "bottom": 4, "containLabel": True},
        "tooltip": {"trigger": "axis", "confine": True, "textStyle": {"fontSize": 12}},
        "xAxis": {
            "type": "value",
            "min": "dataMin",
            "max": "dataMax",
            "splitNumber": 4,
            "minInterval": 1,
            "splitLine": {"show": False},
            "axisLabel": {**ink, "hideOverlap": True},
            "axisLine": line,
        },
        "yAxis": {"type": "value", "scale": True, "splitNumber": 3, "axisLabel": ink, "splitLine": line},
        "series": [
            {
                "type": "line",
                "name": f"{t('log_rank')} {rank}" if len(ranks) > 1 else series.name,
                "showSymbol": len(series.points) < 30,
                "symbolSize": 4,
                "lineStyle": {"width": 1.5},
                "sampling": "lttb",
                "data": _line(series.points, rank),
            }
            for rank in ranks
        ],
        "color": _COLOURS,
    }


def _is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def latest(series: MetricSeries) -> str:
    """The value of the last step, in a few digits."""
    last = series.points[-1].value
    return f"{last:.4g}" if _is_number(last) else "NaN"


def describe(series: MetricSeries) -> str:
    """The chart in words, for those who do not see it."""
    values = [p.value for p in series.points if _is_number(p.value)]
    return f"{series.name}: {values[0]:g} … {values[-1]:g}, {min(values):g}–{max(values):g}" if values else series.name


def _line(points: Sequence[MetricPoint], rank: int) -> list[list[float | None]]:
    """What is no number leaves a gap: JSON has no NaN."""
    return [[p.step, p.value if _is_number(p.value) else None] for p in points if p.rank == rank]


class Made:
    """`choose` one of KINDS and a run; nothing is asked while none is chosen."""

    KINDS = ("metrics", "checkpoints", "attempts")

    def __init__(self, client: AsyncClient, t: Texts) -> None:
        self._client, self._t = client, t
        #: of costs
        self.currency = "USD"
        self._watcher: asyncio.Task[None] | None = None
        self._plots: dict[str, _Plot] = {}
        self._shown: object = None
        self._page = ui.context.client
        self._box = ui.element("div").classes("hw-made").props('role="tabpanel"')
        self._box.set_visibility(False)

    def choose(self, kind: str | None, run: RunView | None) -> None:
        """kind: one of KINDS; None: hidden. The same as before goes on as it is."""
        if self._watcher is not None:
            self._watcher.cancel()
        self._box.set_visibility(kind is not None)
        self._plots, self._shown = {}, None
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
                    self._show_metrics(await self._client.metrics(run))
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
            self._shown, self._plots = words, {}
            self._box.clear()
            with self._box:
                text("p", words, "hw-quiet")

    def _show_metrics(self, found: list[MetricSeries]) -> None:
        every = [s for s in found if s.points]
        found = every[:MOST]
        if not found:
            self._say(self._t("no_metrics"))
            return
        looks = [(s.name, len(s.points), s.points[-1].time) for s in found]
        if self._shown == looks:
            return
        self._shown = looks
        if [s.name for s in found] != list(self._plots):
            self._box.clear()
            with self._box:
                with ui.element("div").classes("hw-charts"):
                    self._plots = {s.name: _Plot(s, self._t) for s in found}
                if len(every) > len(found):
                    text("p", self._t("cut_metrics", n=len(found), all=len(every)), "hw-quiet")
        else:
            for series in found:
                self._plots[series.name].show(series)

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


class _Plot:
    """One metric: its name, its last value, its line."""

    def __init__(self, series: MetricSeries, t: Texts) -> None:
        self._t = t
        with ui.element("figure").classes("hw-plot") as self._figure:
            self._figure.props["data-metric"] = series.name
            self._figure.props["role"] = "img"
            with ui.element("figcaption"):
                text("span", series.name, "hw-plot-name").props["title"] = series.name
                self._last = text("span", latest(series), "num")
            self._chart = ui.echart(chart(series, t), renderer="svg").classes("hw-chart")
        self._figure.props["aria-label"] = describe(series)

    def show(self, series: MetricSeries) -> None:
        self._chart.options.update(chart(series, self._t))
        self._chart.update()
        self._last._text = latest(series)
        self._last.update()
        self._figure.props["aria-label"] = describe(series)
        self._figure.update()
