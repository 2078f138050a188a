"""Metrics: points that runners wrote, over all attempts of a run."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

from headway.protocol.files import AttemptFolder, read_records
from headway.rules.access import Action, Caller
from headway.services import access
from headway.services.context import Services
from headway.wire.runs import MetricPoint, MetricSeries

#: bytes at the end of a file in which the last value of each metric is looked for
_TAIL = 64 << 10


def series(ctx: Services, caller: Caller, run_id: int) -> list[MetricSeries]:
    """Every metric's points by step. A step that a later attempt went through again has the later value."""
    with ctx.store.read() as tx:
        run, _ = access.run(tx, caller, run_id, Action.VIEW)
    found: dict[str, dict[tuple[int, int], MetricPoint]] = {}
    for path in _files(ctx, run.id, run.attempts):
        offset = 0
        while True:
            records, after = read_records(path, offset)
            if after == offset:
                break
            offset = after
            for record in records:
                _take(found, record)
    return [MetricSeries(name=n, points=[p[k] for k in sorted(p)]) for n, p in sorted(found.items())]


def _take(found: dict[str, dict[tuple[int, int], MetricPoint]], record: dict[str, Any]) -> None:
    try:
        point = MetricPoint(time=record["t"], step=record["step"], value=record["value"], rank=record.get("rank", 0))
        found.setdefault(str(record["name"]), {})[(point.step, point.rank)] = point
    except (KeyError, ValueError):
        pass  # a line that is no point


def last_values(ctx: Services, run_id: int, attempts: int) -> dict[str, float]:
    """The last value of each metric of the newest attempt that has any."""
    for path in reversed(_files(ctx, run_id, attempts)):
        if values := _last.of(path):
            return values
    return {}


def _files(ctx: Services, run_id: int, attempts: int) -> list[Path]:
    return [AttemptFolder.of(ctx.root, f"{run_id}-{n}").node().metrics for n in range(1, attempts + 1)]


class _LastValues:
    """Remembers the last values of files that have not changed since."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[Path, tuple[tuple[int, int], dict[str, float]]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, path: Path) -> dict[str, float]:
        try:
            status = path.stat()
        except OSError:
            return {}
        stamp = (status.st_size, status.st_mtime_ns)
        with self._lock:
            kept = self._kept.get(path)
            if kept and kept[0] == stamp:
                self._kept.move_to_end(path)
                return kept[1]
        values: dict[str, float] = {}
        # a first line that was cut is no JSON object, and left out
        for record in read_records(path, max(0, status.st_size - _TAIL))[0]:
            try:
                values[str(record["name"])] = float(record["value"])
            except (KeyError, TypeError, ValueError):
                continue
        with self._lock:
            self._kept[path] = (stamp, values)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)
        return values


_last = _LastValues(512)
