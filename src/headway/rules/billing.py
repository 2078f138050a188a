"""What an attempt costs: every second of it, on each of its nodes, at its spec's price.

On demand at the list price; on spot at the market's price of each moment, kept as segments in the ledger entry; on a
subscription nothing, with the list price shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headway.rules.prices import History
from headway.rules.records import LedgerEntry
from headway.rules.states import Billing

_HOUR = 3600.0


def amount(seconds: float, price_hour: int) -> int:
    """Micros for `seconds` at `price_hour` micros an hour, rounded to the nearest micro; never below zero.

    What ran at a price costs one micro at least: a short run is on the bill too.
    """
    return _whole([(seconds, price_hour)])


def _whole(parts: Sequence[tuple[float, int]]) -> int:
    least = 1 if any(seconds > 0 and price > 0 for seconds, price in parts) else 0
    return max(least, round(sum(seconds * price for seconds, price in parts) / _HOUR))


def seconds(started: float, ended: float) -> float:
    """Billed seconds between two moments; none when a clock went back."""
    return max(0.0, ended - started)


def details(billing: Billing, nodes: int) -> dict[str, Any]:
    """What an entry needs to know of its run, besides its columns."""
    return {} if billing is Billing.ON_DEMAND and nodes == 1 else {"billing": billing.value, "nodes": nodes}


def billing_of(entry: LedgerEntry) -> Billing:
    return Billing(entry.details.get("billing", Billing.ON_DEMAND.value))


def upto(entry: LedgerEntry, until: float, history: Callable[[], History]) -> dict[str, Any]:
    """The columns of an entry whose attempt ran, or runs, until then: "seconds", "amount", "details", "price_hour".

    What a spot attempt was billed before stays as it was; only the time since is billed, at the prices that history
    knows by now. history: asked only where it matters.
    """
    billing, span = billing_of(entry), seconds(entry.started_at, until)
    if billing is Billing.SUBSCRIPTION:
        return {"seconds": span, "amount": 0}
    if billing is Billing.ON_DEMAND:
        return {"seconds": span, "amount": amount(span, entry.price_hour)}
    found = _segments(entry, until, history())
    changes = {
        "seconds": span,
        "amount": _whole([(end - begin, price) for begin, end, price in found]),
        "details": {**entry.details, "segments": found},
    }
    return {**changes, "price_hour": found[-1][2]} if found else changes


def _segments(entry: LedgerEntry, until: float, history: History) -> list[list[Any]]:
    """[from, to, micros an hour of all nodes] over the whole time."""
    nodes = max(1, int(entry.details.get("nodes", 1)))
    found = [list(s) for s in entry.details.get("segments", []) if s[0] < until]
    if found:
        # an end may be told that lies before the last look
        found[-1][1] = min(found[-1][1], until)
    begin = found[-1][1] if found else entry.started_at
    more = history.between(entry.spec, begin, until)
    if more is None:
        more = [(begin, until, -(-entry.price_hour // nodes))] if until > begin else []
    for at, end, price in more:
        if found and found[-1][2] == price * nodes:
            found[-1][1] = end
        else:
            found.append([at, end, price * nodes])
    return found
