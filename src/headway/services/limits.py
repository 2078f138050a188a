"""What a project may occupy at once, its weight against others, and what it occupies."""

from __future__ import annotations

from headway.rules.access import Action, Caller
from headway.rules.records import Project
from headway.services import access
from headway.services.context import Services
from headway.store.base import Transaction
from headway.wire.platform import LimitsRequest, LimitsView

NAMES = ("cpus", "memory_bytes", "accelerators", "nodes", "runs")


def get(ctx: Services, caller: Caller, project: str) -> LimitsView:
    with ctx.store.read() as tx:
        return _view(tx, access.project(tx, caller, project, Action.VIEW))


def change(ctx: Services, caller: Caller, project: str, request: LimitsRequest) -> LimitsView:
    """Sets what was given, for what is placed from now on. Admins only."""
    access.require_admin(caller)
    with ctx.store.begin() as tx:
        home = access.project(tx, caller, project, Action.ADMINISTER)
        limits = dict(home.limits)
        for name in request.model_fields_set & set(NAMES):
            limits[name] = getattr(request, name)
        limits = {name: value for name, value in limits.items() if value is not None}
        weight = request.weight if "weight" in request.model_fields_set else home.weight
        tx.people.change_project(home.id, limits=limits, weight=weight)
        view = _view(tx, tx.people.project_by_id(home.id))
    ctx.hint("run")
    return view


def _view(tx: Transaction, project: Project) -> LimitsView:
    runs = {run.id: run for run in tx.runs.live() if run.project_id == project.id}
    used = dict.fromkeys(NAMES, 0.0)
    nodes: set[str] = set()
    for attempt in tx.runs.live_attempts():
        if (run := runs.get(attempt.run_id)) is None:
            continue
        used["runs"] += 1
        for place in attempt.placement:
            nodes.add(str(place["node"]))
            used["cpus"] += place.get("cpus", run.cpus)
            used["memory_bytes"] += place.get("memory_bytes", run.memory_bytes)
            used["accelerators"] += len(place.get("accelerators") or [])
    used["nodes"] = len(nodes)
    return LimitsView(
        project=project.name,
        weight=project.weight,
        limits=project.limits,
        used=used,
        waiting=tx.runs.waiting(project.id),
    )
