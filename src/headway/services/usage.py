"""What a run used: the samples that runners wrote, over all its attempts and nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headway.protocol.files import AttemptFolder, read_records
from headway.protocol.layout import USAGE
from headway.rules.access import Action, Caller
from headway.services import access
from headway.services.context import Services
from headway.wire.metrics import UsageDevice, UsageSample, UsageSeries

#: most samples of each node in one answer
MOST = 2000

#: cumulative counters, and what they are called per second
_COUNTERS = {
    "cpu_seconds": "cpus",
    "read_bytes": "read_bytes",
    "write_bytes": "write_bytes",
    "received_bytes": "received_bytes",
    "sent_bytes": "sent_bytes",
}


def series(
    ctx: Services,
    caller: Caller,
    run_id: int,
    *,
    first: float | None = None,
    last: float | None = None,
    points: int = 500,
) -> list[UsageSeries]:
    """Of each attempt and node at most `points` stretches of time, from `first` to `last` (seconds since the epoch).

    Raises NotFoundError, ForbiddenError.
    """
    with ctx.store.read() as tx:
        run, _ = access.run(tx, caller, run_id, Action.VIEW)
    found = []
    for attempt in (f"{run.id}-{n}" for n in range(1, run.attempts + 1)):
        for folder in sorted(AttemptFolder.of(ctx.root, attempt).path.glob("node-*"), key=_number):
            samples = stretches(_read(folder / USAGE), first, last, max(1, min(points, MOST)))
            if samples:
                found.append(UsageSeries(attempt=attempt, node=_number(folder), samples=samples))
    return found


def _number(folder: Path) -> int:
    tail = folder.name.rpartition("-")[2]
    return int(tail) if tail.isdigit() else 0


def _read(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    offset, after = -1, 0
    while after != offset:
        offset = after
        records, after = read_records(path, offset)
        found += [one for one in records if isinstance(one.get("t"), (int, float))]
    return found


def stretches(records: list[dict[str, Any]], first: float | None, last: float | None, most: int) -> list[UsageSample]:
    """Samples of usage.jsonl, in turn, put together where there are more than `most`."""
    inside = [
        n
        for n, one in enumerate(records)
        if (first is None or one["t"] >= first) and (last is None or one["t"] <= last)
    ]
    count = min(most, len(inside))
    found = []
    for n in range(count):
        part = inside[len(inside) * n // count : len(inside) * (n + 1) // count]
        found.append(_stretch(records[part[0] - 1] if part[0] else None, [records[at] for at in part]))
    return found


def _stretch(before: dict[str, Any] | None, part: list[dict[str, Any]]) -> UsageSample:
    """before: the sample at the beginning of the stretch; None: there is none, and counters start at their first."""
    start, end = before or part[0], part[-1]
    seconds = end["t"] - start["t"]
    rates = {
        # a process that ended unseen may have taken its share of the counter along
        name: max(0.0, (_float(end.get(key)) - _float(start.get(key))) / seconds) if seconds > 0 else 0.0
        for key, name in _COUNTERS.items()
    }
    free = end.get("disk_free_bytes")
    return UsageSample(
        time=end["t"],
        processes=int(_float(end.get("processes"))),
        memory_bytes=int(max(_float(one.get("rss_bytes")) for one in part)),
        disk_free_bytes=int(free) if isinstance(free, (int, float)) else None,
        accelerators=_devices(part),
        **rates,
    )


def _devices(part: list[dict[str, Any]]) -> list[UsageDevice]:
    seen: dict[int, list[dict[str, Any]]] = {}
    for one in part:
        for device in one.get("accelerators") or ():
            if isinstance(device, dict) and isinstance(device.get("index"), int):
                seen.setdefault(device["index"], []).append(device)
    return [
        UsageDevice(
            index=index,
            busy_percent=sum(_float(one.get("busy_percent")) for one in some) / len(some),
            memory_bytes=int(max(_float(one.get("memory_bytes")) for one in some)),
        )
        for index, some in sorted(seen.items())
    ]


def _float(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
