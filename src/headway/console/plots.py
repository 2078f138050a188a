"""Charts: a metric over its steps, and what a run used over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from headway.console.frame import text
from headway.console.texts import Texts
from headway.wire.metrics import MetricSeries, UsageSample, UsageSeries

#: told apart on light and on dark ground
_COLOURS = ["#2f8f76", "#3f7fc4", "#c9822b", "#b4557a", "#7d6bc9", "#6f8f3a", "#c2574a", "#4d9aa8"]
#: nodes whose use is drawn
_NODES = 8

#: (x, y); y is None where there is no number, which leaves a gap: JSON has no NaN
Point = tuple[float, float | None]


@dataclass(frozen=True)
class Curves:
    """One chart."""

    name: str
    #: label -> points
    lines: dict[str, list[Point]]
    #: how a value is said
    said: Callable[[float], str]
    #: whether x is milliseconds since the epoch; else steps
    time: bool = False

    @property
    def latest(self) -> str:
        """The last value of all lines' farthest point."""
        ends = [points[-1] for points in self.lines.values() if points]
        last = max(ends, key=lambda point: point[0])[1] if ends else None
        return "NaN" if last is None else self.said(last)

    @property
    def words(self) -> str:
        """The chart for those who do not see it."""
        values = [y for points in self.lines.values() for _, y in points if y is not None]
        if not values:
            return self.name
        return f"{self.name}: {self.latest}, {self.said(min(values))}–{self.said(max(values))}"

    @property
    def options(self) -> dict[str, Any]:
        """As ECharts takes it; colours of the page's theme."""
        ink = {"color": "var(--quiet)", "fontSize": 11}
        rule = {"lineStyle": {"color": "var(--line)"}}
        few = max((len(points) for points in self.lines.values()), default=0) < 30
        return {
            "animation": False,
            "color": _COLOURS,
            "grid": {"left": 6, "right": 14, "top": 10, "bottom": 4, "containLabel": True},
            "tooltip": {"trigger": "axis", "confine": True, "textStyle": {"fontSize": 12}},
            "xAxis": {
                "type": "time" if self.time else "value",
                "min": "dataMin",
                "max": "dataMax",
                "splitNumber": 4,
                **({} if self.time else {"minInterval": 1}),
                "splitLine": {"show": False},
                "axisLabel": {**ink, "hideOverlap": True},
                "axisLine": rule,
            },
            "yAxis": {"type": "value", "scale": not self.time, "splitNumber": 3, "axisLabel": ink, "splitLine": rule},
            "series": [
                {
                    "type": "line",
                    "name": label,
                    "data": points,
                    "showSymbol": few,
                    "symbolSize": 4,
                    "lineStyle": {"width": 1.5},
                }
                for label, points in self.lines.items()
            ],
        }


def of_metric(series: MetricSeries, t: Texts) -> Curves:
    """One line a rank that reported it."""
    lines: dict[int, list[Point]] = {}
    for p in series.points:
        lines.setdefault(p.rank, []).append((p.step, p.value if math.isfinite(p.value) else None))
    if len(lines) == 1:
        return Curves(series.name, {series.name: next(iter(lines.values()))}, _number)
    return Curves(series.name, {f"{t('log_rank')} {rank}": lines[rank] for rank in sorted(lines)}, _number)


def of_usage(found: Sequence[UsageSeries], t: Texts) -> list[Curves]:
    """Processors, memory, disk, network, accelerators where there are any: one line a node, over all attempts."""
    nodes: dict[int, list[UsageSample]] = {}
    for series in found:
        if series.node < _NODES:
            nodes.setdefault(series.node, []).extend(series.samples)
    if not any(nodes.values()):
        return []

    def curves(key: str, unit: str, said: Callable[[float], str], *values: Callable[[UsageSample], float]) -> Curves:
        lines = {}
        for node, samples in sorted(nodes.items()):
            label = t("node_number", n=node) if len(nodes) > 1 else t(key)
            lines[label] = [_at(s, round(sum(value(s) for value in values), 4)) for s in samples]
        return Curves(f"{t(key)} ({unit})", lines, said, time=True)

    return [
        curves("used_cpus", t("used_cores"), _number, lambda s: s.cpus),
        curves("used_memory", "GiB", _number, lambda s: s.memory_bytes / 2**30),
        curves("used_disk", "MiB/s", _number, lambda s: s.read_bytes / 2**20, lambda s: s.write_bytes / 2**20),
        curves("used_network", "MiB/s", _number, lambda s: s.received_bytes / 2**20, lambda s: s.sent_bytes / 2**20),
        *_accelerators(nodes, t),
    ]


def _accelerators(nodes: dict[int, list[UsageSample]], t: Texts) -> list[Curves]:
    busy: dict[str, list[Point]] = {}
    memory: dict[str, list[Point]] = {}
    for node, samples in sorted(nodes.items()):
        for sample in samples:
            for device in sample.accelerators:
                label = f"GPU {device.index}" + (f" · {t('node_number', n=node)}" if len(nodes) > 1 else "")
                busy.setdefault(label, []).append(_at(sample, device.busy_percent))
                memory.setdefault(label, []).append(_at(sample, round(device.memory_bytes / 2**30, 3)))
    if not busy:
        return []
    return [
        Curves(f"{t('used_gpu')} (%)", busy, _number, time=True),
        Curves(f"{t('used_gpu_memory')} (GiB)", memory, _number, time=True),
    ]


def _at(sample: UsageSample, value: float) -> Point:
    return (int(sample.time * 1000), value)


def _number(value: float) -> str:
    return f"{value:.4g}"


class Plot:
    """One chart on the page: its name, its last value, its lines."""

    def __init__(self, curves: Curves) -> None:
        with ui.element("figure").classes("hw-plot").props('role="img"') as self._figure:
            self._figure.props["data-metric"] = curves.name
            with ui.element("figcaption"):
                text("span", curves.name, "hw-plot-name").props["title"] = curves.name
                self._last = text("span", curves.latest, "num")
            self._chart = ui.echart(curves.options, renderer="svg").classes("hw-chart")
        self._figure.props["aria-label"] = curves.words
        self._shown = curves.options

    def show(self, curves: Curves) -> None:
        if curves.options == self._shown:
            return
        self._shown = curves.options
        self._chart.options.update(curves.options)
        self._chart.update()
        self._last._text = curves.latest
        self._last.update()
        self._figure.props["aria-label"] = curves.words
        self._figure.update()
