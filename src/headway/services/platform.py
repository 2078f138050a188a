"""The platform itself: health, specs, nodes and what is free on them, the bill."""

from __future__ import annotations

from datetime import datetime, timezone

from headway.errors import UsageError
from headway.rules.access import Action, Caller
from headway.rules.records import Attempt, Node, Run
from headway.services import access
from headway.services.context import Services, moment, moment_or_none, money
from headway.wire.people import Health
from headway.wire.runs import Bill, BillEntry, NodeView, SpecView

#: the controller's lease
LEASE = "controller"


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


def nodes(ctx: Services, caller: Caller) -> list[NodeView]:
    """Each node with what live attempts leave free."""
    with ctx.store.read() as tx:
        access.require_part(tx, caller)
        found = tx.runs.nodes()
        attempts = tx.runs.live_attempts()
        runs = {r.id: r for r in tx.runs.many({a.run_id for a in attempts})}
    return [_node_view(node, attempts, runs) for node in found]


def _node_view(node: Node, attempts: list[Attempt], runs: dict[int, Run]) -> NodeView:
    cpus, memory = node.cpus, node.memory_bytes
    taken: set[int] = set()
    for attempt in attempts:
        for place in attempt.placement:
            if place["node"] == node.name:
                cpus -= runs[attempt.run_id].cpus
                memory -= runs[attempt.run_id].memory_bytes
                taken.update(place["accelerators"])
    return NodeView(
        name=node.name,
        engine=node.engine,
        cpus=node.cpus,
        memory_bytes=node.memory_bytes,
        accelerators=node.accelerators,
        free_cpus=max(0.0, cpus),
        free_memory_bytes=max(0, memory),
        free_accelerators=[a["index"] for a in node.accelerators if a["index"] not in taken],
        declared=node.declared,
        seen_at=moment(node.seen_at),
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
        )
        for e in found
    ]
    return Bill(currency=ctx.currency, total=money(sum(e.amount for e in found)), entries=entries)
