"""What specs cost on the spot market over time, and what a bid says about it. Prices are micros an hour."""

from __future__ import annotations

import csv
import io
import json
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from headway.errors import UsageError
from headway.rules.records import Run, Spec
from headway.rules.scheduling.decide import cap_of
from headway.rules.states import Billing

_MICROS = 1_000_000
_FORMS = (
    'Write CSV with the header time,spec,price, or JSON: [{"time": ..., "spec": ..., "price": ...}] or {"SPEC": PRICE}.'
)


@dataclass(frozen=True)
class History:
    """The prices of each spec: (time, price) by time. A price holds from its time until the next one."""

    prices: Mapping[str, tuple[tuple[float, int], ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Iterable[tuple[str, float, int]]) -> History:
        """entries: (spec, time, price) in any order; of two with the same time the last one holds."""
        found: dict[str, dict[float, int]] = {}
        for spec, at, price in entries:
            found.setdefault(spec, {})[at] = price
        return cls({spec: tuple(sorted(moments.items())) for spec, moments in found.items()})

    def entries(self) -> Iterator[tuple[str, float, int]]:
        for spec, moments in self.prices.items():
            for at, price in moments:
                yield spec, at, price

    def with_(self, other: History) -> History:
        """Both; where both have a price of one moment, that of `other`."""
        return History.of([*self.entries(), *other.entries()])

    def at(self, spec: str, when: float) -> int | None:
        """The price of `spec` at that moment; before the first one known, the first. None: nothing is known of it."""
        moments = self.prices.get(spec)
        if not moments:
            return None
        return moments[max(bisect_right(moments, when, key=lambda m: m[0]) - 1, 0)][1]

    def since(self, spec: str, when: float) -> float | None:
        """Since when the price of that moment holds; None where nothing is known by then."""
        moments = self.prices.get(spec) or ()
        index = bisect_right(moments, when, key=lambda m: m[0]) - 1
        return moments[index][0] if index >= 0 else None

    def between(self, spec: str, begin: float, end: float) -> list[tuple[float, float, int]] | None:
        """(from, to, price) over [begin, end], in order and without gaps; None: nothing is known of the spec."""
        moments = self.prices.get(spec)
        if not moments:
            return None
        if end <= begin:
            return []
        inner = [(at, price) for at, price in moments if begin < at < end]
        first = self.at(spec, begin)
        assert first is not None
        starts = [(begin, first), *inner]
        ends = [at for at, _ in inner] + [end]
        return [(at, until, price) for (at, price), until in zip(starts, ends, strict=True)]


def spot(history: History, spec: Spec, now: float) -> int:
    """What the spec costs on the spot market: its price by the history, else that on demand."""
    known = history.at(spec.name, now)
    return spec.price_hour if known is None else known


def of_runs(
    specs: Iterable[Spec], history: History, now: float
) -> tuple[Callable[[Run], int | None], Callable[[Run], int | None]]:
    """What the spec of a run costs on the spot market, and on demand; None for a spec that is not there any more."""
    known = {spec.name: spec for spec in specs}

    def price(run: Run) -> int | None:
        spec = known.get(run.spec)
        return None if spec is None else spot(history, spec, now)

    def on_demand(run: Run) -> int | None:
        spec = known.get(run.spec)
        return None if spec is None else spec.price_hour

    return price, on_demand


def outbid(run: Run, spec: Spec | None, history: History, now: float) -> str:
    """Why a spot run may not keep its place at the present price: one sentence; empty when it may."""
    if run.billing is not Billing.SPOT or spec is None:
        return ""
    cap, price = cap_of(run, spec.price_hour), spot(history, spec, now)
    if cap is None or price <= cap:
        return ""
    return f"the spot price of {spec.name} is {price / _MICROS:g} an hour, above its bid of {cap / _MICROS:g}"


# -- what files and feeds say


def parse(text: str, where: str, now: float) -> History:
    """The history that a file or an answer of a feed holds, CSV or JSON. now: the time of prices without one.

    Times are ISO 8601 (UTC where they have no zone) or seconds since the epoch; prices are units of currency an hour.
    Raises UsageError naming `where`, the row and the value.
    """
    try:
        is_json = text.lstrip().startswith(("[", "{"))
        rows = list(_json_rows(json.loads(text), now)) if is_json else _csv_rows(text)
    except (json.JSONDecodeError, csv.Error) as error:
        raise UsageError(f"{where} holds no prices: {error}.", _FORMS) from None
    except (KeyError, TypeError, AttributeError):
        raise UsageError(f"{where} holds no prices.", _FORMS) from None
    return History.of(_entry(number, row, where) for number, row in enumerate(rows, 1))


def _csv_rows(text: str) -> list[tuple[Any, Any, Any]]:
    reader = csv.DictReader(io.StringIO(text.lstrip("\ufeff")), skipinitialspace=True)
    return [(row["spec"], row["time"], row["price"]) for row in reader]


def _json_rows(raw: Any, now: float) -> Iterator[tuple[Any, Any, Any]]:
    if isinstance(raw, dict) and isinstance(raw.get("prices"), (list, dict)):
        raw = raw["prices"]
    if isinstance(raw, list):
        for row in raw:
            yield row["spec"], row.get("time", now), row["price"]
        return
    for spec, value in raw.items():
        for row in value if isinstance(value, list) else [value]:
            if isinstance(row, dict):
                yield spec, row.get("time", now), row["price"]
            elif isinstance(row, list):
                yield spec, row[0], row[1]
            else:
                yield spec, now, row


def _entry(number: int, row: tuple[Any, Any, Any], where: str) -> tuple[str, float, int]:
    spec, at, price = row
    return str(spec), _time(at, f"{where}, row {number}"), _price(price, f"{where}, row {number}")


def _price(value: Any, where: str) -> int:
    try:
        price = float(value)
    except (TypeError, ValueError):
        price = -1.0
    if not math.isfinite(price) or price < 0 or isinstance(value, bool):
        raise UsageError(f"{where}: {value!r} is no price.", "Write units of currency an hour, such as 0.75.")
    return round(price * _MICROS)


def _time(value: Any, where: str) -> float:
    try:
        when = float(value)
        if math.isfinite(when):
            return when
    except (TypeError, ValueError):
        pass
    try:
        # before Python 3.11 `Z` is not understood
        moment = datetime.fromisoformat(str(value).strip().replace("Z", "+00:00"))
    except ValueError:
        raise UsageError(f"{where}: {value!r} is no time.", "Write it like 2026-01-31T00:00:00Z.") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
