"""What a job makes, beside its logs: a chart for each metric, and the checkpoints. Looked at anew while the run lives."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from nicegui import ui

from headway.client.aio import AsyncClient
from headway.console import show
from headway.console.frame import text
from headway.console.texts import Texts
from headway.errors import HeadwayError
from headway.wire.runs import CheckpointView, MetricPoint, MetricSeries, RunView

#: seconds between two looks while the run lives
AGAIN = 2.0
#: charts of one run
MOST = 24


def chart(series: MetricSeries, language: str) -> dict[str, Any]:
    """ECharts' options: value over step, one line a rank that reported it."""
    ranks = sorted({p.rank for p in series.points})
    return {
        "animation": False,
        "title": {"text": series.name, "textStyle": {"fontSize": 13, "fontWeight": 500}, "top": 2, "left": 4},
        "grid": {"left": 52, "right": 12, "top": 30, "bottom": 24},
        "tooltip": {"trigger": "axis", "confine": True},
        "xAxis": {"type": "value", "min": "dataMin", "max": "dataMax", "splitLine": {"show": False}},
        "yAxis": {"type": "value", "scale": True, "splitNumber": 3},
        "series": [
            {
                "type": "line",
                "name": f"rank {rank}" if len(ranks) > 1 else series.name,
                "showSymbol": len(series.points) < 30,
                "symbolSize": 4,
                "data": _line(series.points, rank),
            }
            for rank in ranks
        ],
        "aria": {"enabled": True, "label": {"description": describe(series)}},
        "lang": language,
    }


def describe(series: MetricSeries) -> str:
    """The chart in words, for those who do not see it."""
    values = [p.value for p in series.points]
    return f"{series.name}: {values[0]:g} … {values[-1]:g}, {min(values):g}–{max(values):g}" if values else series.name


def _line(points: Sequence[MetricPoint], rank: int) -> list[list[float | None]]:
    """What is no number leaves a gap: JSON has no NaN."""
    return [
        [p.step, p.value if p.value == p.value and abs(p.value) != float("inf") else None]
        for p in points
        if p.rank == rank
    ]


class Made:
    """`choose` one of KINDS and a run; nothing is asked while none is chosen."""

    KINDS = ("metrics", "checkpoints")

    def __init__(self, client: AsyncClient, t: Texts) -> None:
        self._client, self._t = client, t
        self._watcher: asyncio.Task[None] | None = None
        self._charts: dict[str, ui.echart] = {}
        self._shown: object = None
        self._page = ui.context.client
        self._box = ui.element("div").classes("hw-made").props('role="tabpanel"')
        self._box.set_visibility(False)

    def choose(self, kind: str | None, run: RunView | None) -> None:
        """kind: one of KINDS; None: hidden. The same as before goes on as it is."""
        if self._watcher is not None:
            self._watcher.cancel()
        self._box.set_visibility(kind is not None)
        self._charts, self._shown = {}, None
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
                else:
                    self._show_checkpoints(await self._client.checkpoints(run))
            except HeadwayError as error:
                self._say(self._t("made_failed", why=error.message))
                state = ""
            if state in show.ENDED:
                return
            await asyncio.sleep(AGAIN)

    def _say(self, words: str) -> None:
        if self._shown != words:
            self._shown, self._charts = words, {}
            self._box.clear()
            with self._box:
                text("p", words, "hw-quiet")

    def _show_metrics(self, found: list[MetricSeries]) -> None:
        found = [s for s in found if s.points][:MOST]
        if not found:
            self._say(self._t("no_metrics"))
            return
        looks = [(s.name, len(s.points), s.points[-1].time) for s in found]
        if self._shown == looks:
            return
        if [s.name for s in found] != list(self._charts):
            self._box.clear()
            with self._box, ui.element("div").classes("hw-charts"):
                self._charts = {s.name: ui.echart(chart(s, self._t.tag)).classes("hw-chart") for s in found}
        else:
            for series in found:
                self._charts[series.name].options.update(chart(series, self._t.tag))
                self._charts[series.name].update()
        self._shown = looks

    def _show_checkpoints(self, found: list[CheckpointView]) -> None:
        if not found:
            self._say(self._t("no_checkpoints"))
            return
        looks = [c.model_dump_json() for c in found]
        if self._shown == looks:
            return
        self._shown, t = looks, self._t
        self._box.clear()
        with self._box, ui.element("table").classes("hw-table"):
            with ui.element("thead"), ui.element("tr"):
                for head in ("checkpoint", "step", "epoch", "size", "state", "metrics"):
                    text("th", t(head))
            with ui.element("tbody"):
                for one in reversed(found):
                    with ui.element("tr"):
                        self._row(one)

    def _row(self, one: CheckpointView) -> None:
        removed = getattr(one, "removed_at", None) is not None
        state = "removed" if removed else "valid" if one.valid else "invalid"
        text("td", one.name, "code")
        text("td", "" if one.step is None else str(one.step), "num")
        text("td", "" if one.epoch is None else str(one.epoch), "num")
        text("td", show.size(one.bytes), "num")
        text("td", self._t(f"checkpoint_{state}")).props["title"] = one.reason
        text("td", "  ".join(f"{k} {v:.4g}" for k, v in one.metrics.items() if isinstance(v, int | float)), "num")
