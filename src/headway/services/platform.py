"""The platform itself: health, specs and their prices, the bill."""

from __future__ import annotations

from datetime import datetime, timezone

from headway.errors import UsageError
from headway.rules import billing
from headway.rules import prices as rules
from headway.rules.access import Action, Caller
from headway.rules.records import Spec
from headway.services import access
from headway.services.context import Services, moment, moment_or_none, money
from headway.wire.people import Health
from headway.wire.platform import PriceView
from headway.wire.runs import Bill, BillEntry, BillSegment, SpecView

#: the controller's lease
LEASE = "controller"
_DAY = 86400.0


def health(ctx: Services, version: str) -> Health:
    """Whether the record answers and a controller leads. Needs no caller."""
    with ctx.store.read() as tx:
        lease = tx.leases.current(LEASE)
    leads = lease is not None and lease.expires_at > ctx.clock()
    return Health(status="ok", version=version, parts={"api": True, "controller": leads})


def specs(ctx: Services, caller: Caller) -> list[SpecView]:
    """Cheapest first."""
    with ctx.store.read() as tx:
        access.require_part(tx, caller)
        found = tx.runs.specs()
    return [
        SpecView(
            name=s.name,
            cpus=s.cpus,
            memory_bytes=s.memory_bytes,
            accelerators=s.accelerators,
            accelerator_kind=s.accelerator_kind,
            price_hour=money(s.price_hour),
        )
        for s in found
    ]


def prices(ctx: Services, caller: Caller) -> list[PriceView]:
    """What each spec costs on the spot market now, in the order of the specs."""
    with ctx.store.read() as tx:
        access.require_part(tx, caller)
        found = tx.runs.specs()
    history, now = ctx.prices.history(), ctx.clock()
    return [_price_view(history, spec, now) for spec in found]


def _price_view(history: rules.History, spec: Spec, now: float) -> PriceView:
    spot = rules.spot(history, spec, now)
    day = [price for _, _, price in history.between(spec.name, now - _DAY, now) or []] or [spot]
    return PriceView(
        spec=spec.name,
        on_demand=money(spec.price_hour),
        spot=money(spot),
        known=history.at(spec.name, now) is not None,
        since=moment_or_none(history.since(spec.name, now)),
        low=money(min(day)),
        high=money(max(day)),
    )


def bill(
    ctx: Services, caller: Caller, project: str, *, since: datetime | None, run: int | None, limit: int = 1000
) -> Bill:
    """Newest first; `total` is over the entries given. since: with a zone; raises UsageError without one."""
    if since is not None and since.tzinfo is None:
        raise UsageError(f"since: {since.isoformat()} has no zone.", "Write it like 2026-01-31T00:00:00Z.")
    start = None if since is None else since.astimezone(timezone.utc).timestamp()
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.VIEW)
        found = tx.ledger.listing(home.id, since=start, run_id=run, limit=limit)
    entries = [
        BillEntry(
            attempt=e.attempt_id,
            run=e.run_id,
            owner=e.owner,
            spec=e.spec,
            started_at=moment(e.started_at),
            ended_at=moment_or_none(e.ended_at),
            seconds=e.seconds,
            price_hour=money(e.price_hour),
            amount=money(e.amount),
            billing=billing.billing_of(e).value,
            segments=[
                BillSegment(begin=moment(begin), end=moment(end), price_hour=money(price))
                for begin, end, price in e.details.get("segments", [])
            ],
        )
        for e in found
    ]
    return Bill(currency=ctx.currency, total=money(sum(e.amount for e in found)), entries=entries)
