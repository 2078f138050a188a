"""Models: checked, registered sets of weights with their predictor."""

from __future__ import annotations

import re
from typing import Any

from headway.errors import NotFoundError, RefusedError, UsageError
from headway.rules import checkpoints as checkpoint_rules
from headway.rules.access import Action, Caller
from headway.rules.nearest import advice, nearest
from headway.rules.records import Checkpoint, Model, ModelVersion, Project, Run, Snapshot
from headway.rules.states import VersionState
from headway.services import access, evaluations, jobs, requests
from headway.services.context import Services, moment
from headway.store.base import ConflictError, Transaction
from headway.wire.people import NAME
from headway.wire.products import ModelRequest, ModelVersionView

BEST = "best"


def register(ctx: Services, caller: Caller, project: str, name: str, request: ModelRequest) -> ModelVersionView:
    """A new version in state checking; the controller checks and publishes its weights.

    With a key that was used before, the first version. Raises UsageError, NotFoundError (job, checkpoint, evaluation,
    case, snapshot), RefusedError (checkpoint not valid), ForbiddenError.
    """
    if not re.match(NAME, name):
        raise UsageError(f"{name!r} is no name of a model.", "Use lower-case letters, digits, and . _ - inside.")
    requests.entry(request.predictor, "predictor")
    for last in (False, True):
        try:
            with ctx.store.begin() as tx:
                home = access.project(tx, caller, project, Action.WORK)
                if found := _first(tx, home, name, request):
                    return _view(ctx, found, name)
                made = _view(ctx, _insert(ctx, tx, caller, home, name, request), name)
            break
        except ConflictError:
            # somebody else registered at the same moment: the same with this key, or another one that took the number
            if last:
                raise
    ctx.hint("model", f"{name}@{made.version}")
    return made


def _first(tx: Transaction, home: Project, name: str, request: ModelRequest) -> ModelVersion | None:
    model = tx.products.model(home.id, name)
    return tx.products.model_version_by_key(model.id, request.key) if model and request.key else None


def _insert(
    ctx: Services, tx: Transaction, caller: Caller, home: Project, name: str, request: ModelRequest
) -> ModelVersion:
    job = jobs.find(tx, home, request.job)
    checkpoint, chosen_by = _checkpoint(tx, home, job, request)
    if checkpoint.files > 1:
        raise RefusedError(
            f"Checkpoint {checkpoint.name} is a folder of {checkpoint.files} files; a model version has one.",
            "Save the weights as one .safetensors or .pt file too, and register that.",
        )
    code = requests.snapshot(tx, home, request.snapshot)
    now = ctx.clock()
    model = tx.products.model(home.id, name) or tx.products.add_model(project_id=home.id, name=name, now=now)
    versions = tx.products.model_versions(model.id)
    number = versions[-1].version + 1 if versions else 1
    return tx.products.add_model_version(
        model_id=model.id,
        version=number,
        state=VersionState.CHECKING,
        reason="",
        source=_source(job, checkpoint, code, chosen_by),
        path=f"projects/{home.name}/models/{name}/{number}",
        weights=checkpoint.name,
        format=checkpoint.format,
        bytes=checkpoint.bytes,
        sha256=checkpoint.sha256,
        predictor={"entry": request.predictor},
        snapshot_id=code.id,
        key=request.key,
        created_by=caller.user_id,
        created_at=now,
    )


def _source(job: Run, checkpoint: Checkpoint, code: Snapshot, chosen_by: dict[str, Any]) -> dict[str, Any]:
    return {
        "job": job.id,
        "checkpoint": checkpoint.name,
        "checkpoint_id": checkpoint.id,
        "path": checkpoint.path,
        "step": checkpoint.step,
        "epoch": checkpoint.epoch,
        "snapshot": code.digest,
        "commit": code.commit,
        "datasets": [f"{d['dataset']}@{d['version']}" for d in job.datasets],
        **chosen_by,
    }


def _checkpoint(tx: Transaction, home: Project, job: Run, request: ModelRequest) -> tuple[Checkpoint, dict[str, Any]]:
    """The checkpoint that is meant, and what chose it."""
    found = tx.products.checkpoints(job.id)
    by_name = {c.name: c for c in found}
    if request.checkpoint != BEST:
        chosen = by_name.get(request.checkpoint)
        if chosen is None:
            raise NotFoundError(
                f"Job {job.id} has no checkpoint {request.checkpoint!r}.", advice(request.checkpoint, by_name)
            )
        if not checkpoint_rules.usable(chosen):
            what = "is not valid" if not chosen.valid else "is not there any more"
            raise RefusedError(f"Checkpoint {chosen.name} {what}: {chosen.reason}", "Choose another.")
        return chosen, {}
    if request.evaluation is None:
        raise UsageError(
            'checkpoint: "best" needs to know by what.',
            "Give `evaluation`, and `case` where one alone decides; or name a checkpoint.",
        )
    evaluation = evaluations.find(tx, home, request.evaluation)
    if job.id not in evaluation.jobs:
        of = ", ".join(map(str, evaluation.jobs))
        raise UsageError(f"Evaluation {evaluation.id} is of job {of}, not {job.id}.", "Give one of the same job.")
    cases = [c["id"] for c in evaluation.plan["cases"]]
    if request.case is not None and request.case not in cases:
        near = nearest(request.case, cases)
        raise NotFoundError(
            f"Evaluation {evaluation.id} has no case {request.case!r}.", f"Did you mean {near}?" if near else ""
        )
    better = str(evaluation.plan.get("better", "higher"))
    best = checkpoint_rules.best(found, tx.evaluations.cells(evaluation.id), request.case, better)
    if best is None:
        where = f"in case {request.case} of" if request.case is not None else "in"
        raise RefusedError(f"No checkpoint has a score {where} evaluation {evaluation.id}.", "Wait until one has.")
    chosen_by = {"evaluation": evaluation.id, "score": best[1]}
    return best[0], chosen_by if request.case is None else {**chosen_by, "case": request.case}


def find(tx: Transaction, home: Project, name: str) -> Model:
    """Raises NotFoundError when the project has no such model."""
    found = tx.products.model(home.id, name)
    if found is None:
        known = [m.name for m in tx.products.models(home.id)]
        raise NotFoundError(f"Project {home.name} has no model {name!r}.", advice(name, known))
    return found


def listing(ctx: Services, caller: Caller, project: str) -> list[ModelVersionView]:
    """The newest version of each model, by name."""
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.VIEW)
        newest = [(m.name, tx.products.model_versions(m.id)) for m in tx.products.models(home.id)]
    return [_view(ctx, found[-1], name) for name, found in newest if found]


def versions(ctx: Services, caller: Caller, project: str, name: str) -> list[ModelVersionView]:
    """Oldest first."""
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.VIEW)
        found = tx.products.model_versions(find(tx, home, name).id)
    return [_view(ctx, v, name) for v in found]


def _view(ctx: Services, version: ModelVersion, name: str) -> ModelVersionView:
    return ModelVersionView(
        id=version.id,
        name=name,
        version=version.version,
        state=version.state.value,
        reason=version.reason,
        source=version.source,
        path=str(ctx.root / version.path),
        format=version.format,
        bytes=version.bytes,
        sha256=version.sha256,
        predictor=version.predictor,
        created_at=moment(version.created_at),
    )
