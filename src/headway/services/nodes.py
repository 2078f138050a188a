"""Nodes: what is free on them and what runs there; drained, and reclaimed as a drill."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from headway.errors import NotFoundError, RefusedError
from headway.rules.access import Caller
from headway.rules.nearest import advice
from headway.rules.records import Attempt, Node, Run
from headway.rules.scheduling import Held
from headway.rules.states import Billing, NodeState
from headway.services import access
from headway.services.context import Services, moment
from headway.store.base import Transaction
from headway.wire.platform import DrainRequest, NodeRunView, NodeView, ReclaimRequest, ReclaimView


def listing(ctx: Services, caller: Caller) -> list[NodeView]:
    """Each node with what live attempts have of it and what they leave free."""
    with ctx.store.read() as tx:
        access.require_part(tx, caller)
        return _views(tx, tx.runs.nodes())


def drain(ctx: Services, caller: Caller, name: str, request: DrainRequest) -> NodeView:
    """Places nothing new on the node; what runs there goes on. Admins only; asked twice, the newer reason holds."""
    access.require_admin(caller)
    return _set(ctx, name, NodeState.DRAINED, request.reason or f"{caller.name} drained it.")


def undrain(ctx: Services, caller: Caller, name: str) -> NodeView:
    """Lets the node take runs again. Admins only. Raises RefusedError for one that is lost."""
    access.require_admin(caller)
    return _set(ctx, name, NodeState.UP, "")


def _set(ctx: Services, name: str, state: NodeState, reason: str) -> NodeView:
    with ctx.store.begin() as tx:
        node = _node(tx, name)
        if state is NodeState.UP and node.state is NodeState.LOST:
            raise RefusedError(
                f"Node {name} is lost: {node.reason}", "It is up by itself as soon as its engine has it again."
            )
        tx.runs.change_node(name, state=state, reason=reason)
        view = _views(tx, [_node(tx, name)])[0]
    # what waited for it, or was about to be placed there
    ctx.hint("run")
    return view


def reclaim(ctx: Services, caller: Caller, name: str, request: ReclaimRequest) -> ReclaimView:
    """Asks every spot run on the node (or one) to save and leave, as its machine would. Admins only.

    Raises NotFoundError, and RefusedError when there is no spot run to ask.
    """
    access.require_admin(caller)
    with ctx.store.begin() as tx:
        _node(tx, name)
        here = [a for a in tx.runs.live_attempts() if any(place["node"] == name for place in a.placement)]
        runs = {run.id: run for run in tx.runs.many([a.run_id for a in here])}
        spot = {run.id for run in runs.values() if run.billing is Billing.SPOT}
        chosen = [a for a in here if a.run_id in spot and request.run in (None, a.run_id)]
        view = ReclaimView(
            node=name,
            asked=[a.run_id for a in chosen if a.reclaim_at is None],
            already=[a.run_id for a in chosen if a.reclaim_at is not None],
            stay=sorted(set(runs) - {a.run_id for a in chosen}),
        )
        if not chosen:
            _refuse(name, request, runs)
        reason = request.reason or f"{caller.name} reclaimed node {name}"
        for attempt in chosen:
            if attempt.reclaim_at is None:
                asked = {"reclaim_at": ctx.clock(), "reclaim_reason": reason.rstrip(".")}
                tx.runs.change_attempt(attempt.id, **asked, reclaim_grace=request.grace)
    ctx.hint("reclaim", name)
    return view


def _refuse(name: str, request: ReclaimRequest, runs: Mapping[int, Run]) -> None:
    """Raises RefusedError: nobody there can be asked."""
    if request.run is not None and request.run not in runs:
        raise RefusedError(f"Run {request.run} is not on node {name}.", "`headway node ls` shows what is.")
    if request.run is not None:
        billing = runs[request.run].billing.value
        raise RefusedError(
            f"Run {request.run} is {billing}, and only a spot run is reclaimed.",
            f"`headway job pause {request.run}` has it save and leave.",
        )
    there = f"runs {', '.join(map(str, sorted(runs)))} are not on spot" if runs else "nothing runs there"
    raise RefusedError(
        f"Node {name} has no spot run: {there}.", "Submit one with `headway job submit --billing spot -- COMMAND`."
    )


def _node(tx: Transaction, name: str) -> Node:
    found = tx.runs.node(name)
    if found is None:
        raise NotFoundError(f"There is no node {name!r}.", advice(name, [n.name for n in tx.runs.nodes()]))
    return found


def _views(tx: Transaction, nodes: Collection[Node]) -> list[NodeView]:
    attempts = tx.runs.live_attempts()
    runs = {r.id: r for r in tx.runs.many({a.run_id for a in attempts})}
    return [_view(node, attempts, runs) for node in nodes]


def _view(node: Node, attempts: Collection[Attempt], runs: Mapping[int, Run]) -> NodeView:
    there = [
        _run_view(runs[attempt.run_id], attempt, place)
        for attempt in attempts
        for place in attempt.placement
        if place["node"] == node.name
    ]
    taken = {index for run in there for index in run.accelerators}
    return NodeView(
        name=node.name,
        engine=node.engine,
        cpus=node.cpus,
        memory_bytes=node.memory_bytes,
        accelerators=node.accelerators,
        free_cpus=round(max(0.0, node.cpus - sum(run.cpus for run in there)), 6),
        free_memory_bytes=max(0, node.memory_bytes - sum(run.memory_bytes for run in there)),
        free_accelerators=[a["index"] for a in node.accelerators if a["index"] not in taken],
        declared=node.declared,
        seen_at=moment(node.seen_at),
        state=node.state.value,
        reason=node.reason,
        notice=node.notice,
        runs=there,
    )


def _run_view(run: Run, attempt: Attempt, place: Mapping[str, Any]) -> NodeRunView:
    held = Held(run, attempt)
    return NodeRunView(
        run=run.id,
        attempt=attempt.id,
        owner=run.owner,
        billing=run.billing.value,
        cpus=place.get("cpus", run.cpus),
        memory_bytes=place.get("memory_bytes", run.memory_bytes),
        accelerators=place.get("accelerators") or [],
        until=None if math.isinf(held.ends) else moment(held.ends),
        leaving=held.leaving,
    )
