"""Dry runs: what a submit would make, find in its environment, and wait for. Nothing is kept."""

from __future__ import annotations

import os
import sys

from headway.rules import compat, launching, prices
from headway.rules.access import Action, Caller
from headway.rules.records import Run, Spec
from headway.rules.scheduling import Group, Held, decide
from headway.rules.states import Billing
from headway.services import access, jobs, submissions, views
from headway.services.context import Services, money
from headway.store.base import Transaction
from headway.wire.runs import CloneRequest, DryRunView, JobRequest

#: waiting runs that are looked at: of each kind, and about so many in all
_PER_GROUP, _ROWS = 8, 2000
#: stands for numbers that are given out at a submit
_RUN, _ATTEMPT = "{run}", "{attempt}"


def submit(ctx: Services, caller: Caller, project: str, request: JobRequest) -> DryRunView:
    """What `jobs.submit` would do, or would raise."""
    submissions.check(ctx, caller, project, request)
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.WORK)
        values, _ = submissions.values(ctx, tx, caller, home, request)
        run = Run(id=2**62, **values)
        would, sentence, nodes = _verdict(ctx, tx, run)
        exact = submissions.request_of(tx, run).model_dump(mode="json")
        spec = tx.runs.spec(run.spec)
    price = _price(ctx, run, spec) if spec is not None else None
    amounts = ("cpus", "memory_bytes", "accelerators", "accelerator_kind")
    exact.update({name: getattr(run, name) for name in amounts}, held=request.held, key=request.key)
    exact["limits"]["hang"] = run.limits["hang"]
    folders = _folders(ctx, project, run)
    facts = launching.facts(run, folders, nodes=nodes, accelerators=run.accelerators)
    platform = run.work.get("compat")
    environment = launching.environment(
        run, project, folders, base=launching.inherited(os.environ, sys.executable), accelerators=()
    )
    if run.accelerators:
        environment["CUDA_VISIBLE_DEVICES"] = "{accelerators}"
    return DryRunView(
        request=exact,
        would=would,
        sentence=sentence,
        nodes=nodes,
        command=compat.command(platform, run.command, facts),
        environment={**compat.variables(platform, facts), **environment},
        view=launching.view(run),
        price_hour=price,
    )


def _price(ctx: Services, run: Run, spec: Spec) -> float:
    """Currency units an hour of all its nodes, at the present price."""
    if run.billing is Billing.SUBSCRIPTION:
        return 0.0
    spot = run.billing is Billing.SPOT
    return money(prices.spot(ctx.prices.history(), spec, ctx.clock()) if spot else spec.price_hour) * run.nodes


def clone(ctx: Services, caller: Caller, run_id: int, request: CloneRequest) -> DryRunView:
    """What `jobs.clone` would do, or would raise."""
    return submit(ctx, caller, *jobs.cloned(ctx, caller, run_id, request))


def _folders(ctx: Services, project: str, run: Run) -> launching.Folders:
    attempt = ctx.root / "attempts" / _ATTEMPT
    return launching.Folders(
        code=str(attempt / "code"),
        data=str(attempt / "data"),
        output=str(ctx.project_folder(project) / "jobs" / _RUN / "output"),
        checkpoints=str(attempt / "checkpoints") if run.work.get("checkpoints") else "",
    )


def _verdict(ctx: Services, tx: Transaction, run: Run) -> tuple[str, str, list[str]]:
    """(would, one sentence, nodes where it would start now)."""
    if run.state.value == "held":
        return "held", "It would be held until it is released.", []
    if run.blocked:
        return "blocked", f"It {views.waiting(tx, [run])[run.id]}.".replace("It waits", "It would wait"), []
    nodes = tx.runs.nodes()
    if not nodes:
        return "waits", "It would wait: no node is known yet.", []
    own = {a.run_id: a for a in tx.runs.live_attempts()}
    groups: dict[tuple[int, int, str], Group] = {}
    for heads, waiting in tx.runs.queue_heads(_PER_GROUP, rows=_ROWS):
        waits = [r for r in heads if r.id not in own]
        if waits:
            groups[_group(waits[0])] = Group(waits, waiting)
    alike = groups.get(_group(run), Group([], 0))
    if len(alike.heads) < _PER_GROUP:
        groups[_group(run)] = Group([*alike.heads, run], alike.waiting + 1)
    specs, history, now = {s.name: s for s in tx.runs.specs()}, ctx.prices.history(), ctx.clock()
    decision = decide(
        groups.values(),
        nodes=nodes,
        held=[Held(r, own[r.id]) for r in tx.runs.live() if r.id in own],
        projects={p.id: p for p in tx.people.projects()},
        now=now,
        price=lambda r: prices.spot(history, specs[r.spec], now) if r.spec in specs else None,
        on_demand=lambda r: specs[r.spec].price_hour if r.spec in specs else None,
    )
    for placement in decision.placements:
        if placement.run.id == run.id:
            names = [p.node.name for p in placement.places]
            return "starts", f"It would start now on {', '.join(names)}.", names
    reason = decision.waits.get(run.id)
    if reason is None:
        reason = f"waits behind job {alike.heads[0].id}" if alike.heads else "waits for those ahead of it"
    return "waits", f"It would {reason.replace('waits', 'wait', 1)}.", []


def _group(run: Run) -> tuple[int, int, str]:
    """Runs that are alike in it are interchangeable."""
    return run.project_id, run.priority, run.shape
