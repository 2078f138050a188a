"""Dry runs: what a submit would make, find in its environment, and wait for. Nothing is kept."""

from __future__ import annotations

import os
import sys
from typing import Any

from headway.rules import compat, launching
from headway.rules.access import Action, Caller
from headway.rules.records import Run
from headway.rules.scheduling import Group, Held, decide
from headway.rules.states import Billing
from headway.services import access, jobs, submissions, views
from headway.services.context import Services, money
from headway.store.base import Transaction
from headway.wire.runs import CloneRequest, DryRunView, JobRequest

#: waiting runs that are looked at
_AHEAD = 256
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
        price_hour=money(spec.price_hour) * run.nodes if spec and run.billing is Billing.ON_DEMAND else None,
    )


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
    held = [Held(r, own[r.id]) for r in tx.runs.live() if r.id in own]
    queued = [r for r in tx.runs.queued(limit=_AHEAD) if not r.blocked and r.id not in own]
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for other in [*queued, run]:
        groups.setdefault((other.project_id, other.priority, other.shape), []).append(other)
    decision = decide(
        [Group(heads, len(heads)) for heads in groups.values()],
        nodes=nodes,
        held=held,
        projects={p.id: p for p in tx.people.projects()},
        now=ctx.clock(),
    )
    for placement in decision.placements:
        if placement.run.id == run.id:
            names = [p.node.name for p in placement.places]
            return "starts", f"It would start now on {', '.join(names)}.", names
    reason = decision.waits.get(run.id)
    if reason is None:
        first = groups[(run.project_id, run.priority, run.shape)][0]
        reason = f"waits behind job {first.id}" if first.id != run.id else "waits for those ahead of it"
    return "waits", f"It would {reason.replace('waits', 'wait', 1)}.", []
