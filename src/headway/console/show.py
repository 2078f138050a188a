"""How values are shown: pure functions from the wire models."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from headway.console.texts import Texts
from headway.wire.runs import LogLineView, RunView

LIVE = frozenset({"starting", "running", "stopping"})
WAITING = frozenset({"queued", "held"})
ENDED = frozenset({"succeeded", "failed", "stopped"})

_SIGNS = {"USD": "$", "EUR": "€", "GBP": "£", "CNY": "¥", "RMB": "¥", "JPY": "¥"}


def money(amount: float, currency: str) -> str:
    """Small amounts keep the digits that say something: $0.0178, $1.20, $1,204.50."""
    sign = _SIGNS.get(currency, f"{currency} ")
    if amount == 0:
        return f"{sign}0"
    if amount < 0.0001:
        return f"< {sign}0.0001"
    return f"{sign}{amount:.4f}" if amount < 1 else f"{sign}{amount:,.2f}"


def size(count: int) -> str:
    """Bytes for people: 9.0 MiB."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{int(value)} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def span(seconds: float, texts: Texts) -> str:
    """A duration for people, in at most two units: 90 s, 1 h 30 min, 2 d."""
    if seconds < 120:
        return f"{seconds:g} {texts('seconds')}"
    minutes = round(seconds / 60)
    parts = [(minutes // 1440, "days"), (minutes // 60 % 24, "hours"), (minutes % 60, "minutes")]
    return " ".join(f"{count} {texts(unit)}" for count, unit in parts if count)


def number(value: float) -> str:
    return f"{value:g}"


def milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp() * 1000)


def node(run: RunView) -> str:
    """Names of the nodes of the newest attempt, with accelerators as indices: `box [0,1]`."""
    shown = []
    for place in run.placement:
        name = str(place.get("name") or place.get("node") or "")
        devices = place.get("accelerators") or []
        shown.append(f"{name} [{','.join(str(d) for d in devices)}]" if devices else name)
    return ", ".join(s for s in shown if s)


def row(run: RunView, texts: Texts, currency: str) -> dict[str, Any]:
    """One run as the table takes it; times in milliseconds since the epoch."""
    return {
        "id": run.id,
        "name": run.name,
        "kind": texts.known("kind", run.owner),
        "state": run.state,
        "state_text": texts.known("state", run.state),
        "reason": run.reason,
        "spec": run.spec,
        "node": node(run),
        "started": milliseconds(run.started_at),
        "ended": milliseconds(run.ended_at),
        "cost": money(run.cost, currency) if run.cost or run.started_at else "–",
        "by": run.submitted_by,
    }


def line(view: LogLineView) -> tuple[float, int, str, str]:
    return view.time * 1000, view.rank, view.stream, view.text


def when(moment: datetime) -> str:
    """A time as the server has it, to the minute: 2026-03-01 12:30 UTC."""
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
