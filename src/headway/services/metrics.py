"""Metrics: points that runners wrote, over all attempts of a run."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection
from pathlib import Path

from headway.errors import UsageError
from headway.protocol.files import AttemptFolder, read_records
from headway.protocol.layout import METRICS
from headway.rules.access import Action, Caller
from headway.services import access
from headway.services.context import Services
from headway.services.metric_index import Column, Indexes, cache_of, overlay, sample, window
from headway.wire.metrics import MetricPoint, MetricSeries

#: bytes at the end of a file in which the last value of each metric is looked for
_TAIL = 64 << 10


#: points of a metric in one answer: most, and least that say anything
MOST, LEAST = 10_000, 4
BY = ("step", "time")


def series(
    ctx: Services,
    caller: Caller,
    run_id: int,
    *,
    names: Collection[str] = (),
    first: float | None = None,
    last: float | None = None,
    points: int = MOST,
    by: str = "step",
) -> list[MetricSeries]:
    """Every metric's points by step, or those of `names`. A step that a later attempt went through again has its value.

    first, last: only points from there to there, both included, by step or by time (seconds since the epoch). points:
    most of each metric; of more the lowest and the highest of each stretch are given, so that no peak is lost. Raises
    UsageError, NotFoundError, ForbiddenError.
    """
    if by not in BY:
        raise UsageError(f"by: {by!r} is no axis.", "Known: step, time.")
    with ctx.store.read() as tx:
        run, _ = access.run(tx, caller, run_id, Action.VIEW)
    columns: dict[str, dict[int, list[Column]]] = {}
    for path, cache in _files(ctx, run.id, run.attempts):
        index = _indexes.of(path, cache)
        with index.lock:
            index.refresh()
            for column in index.columns.values():
                if not names or column.name in names:
                    columns.setdefault(column.name, {}).setdefault(column.rank, []).append(column)
    most = max(LEAST, min(points, MOST))
    return [_series(name, ranks, first, last, most, by) for name, ranks in sorted(columns.items())]


def _series(
    name: str, ranks: dict[int, list[Column]], first: float | None, last: float | None, most: int, by: str
) -> MetricSeries:
    found: list[tuple[int, int, MetricPoint]] = []
    total = 0
    for rank, columns in sorted(ranks.items()):
        spans = window(overlay(columns), first, last, by)
        total += sum(len(span) for span in spans)
        for column, at in sample(spans, max(LEAST, most // len(ranks))):
            step = column.steps[at]
            point = MetricPoint(time=column.times[at], step=step, value=column.values[at], rank=rank)
            found.append((step, rank, point))
    if len(ranks) > 1:
        found.sort(key=lambda one: one[:2])
    return MetricSeries(name=name, points=[point for *_, point in found], total=total)


def last_values(ctx: Services, run_id: int, attempts: int) -> dict[str, float]:
    """The last value of each metric of the newest attempt that has any."""
    for path, _ in reversed(_files(ctx, run_id, attempts)):
        if values := _last.of(path):
            return values
    return {}


def _files(ctx: Services, run_id: int, attempts: int) -> list[tuple[Path, Path]]:
    """Of each attempt, all nodes' metrics.jsonl, and where the columns of each are kept."""
    found = []
    for attempt in (f"{run_id}-{n}" for n in range(1, attempts + 1)):
        folder = AttemptFolder.of(ctx.root, attempt)
        # node 0 is last: of two nodes' last values its own count
        for node in sorted(folder.path.glob("node-*"), reverse=True):
            found.append((node / METRICS, cache_of(ctx.root, attempt, node.name)))
    return found


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
_indexes = Indexes()
