"""Removing dataset versions: only those that nothing refers to. Their bytes stay until garbage is collected."""

from __future__ import annotations

from headway.errors import RefusedError
from headway.protocol import names
from headway.rules.access import Action, Caller
from headway.rules.records import DatasetVersion
from headway.rules.states import ENDED_RUNS
from headway.services import access, requests
from headway.services.context import Services
from headway.store.base import Transaction
from headway.wire.datasets import RemovedView

#: of what refers to a version, how much a refusal names
_NAMED = 5


def remove(ctx: Services, caller: Caller, project: str, name: str, version: int) -> RemovedView:
    """The version is gone at once; its number is given to none again.

    Raises NotFoundError, and RefusedError (in_use) naming what refers to it: runs and evaluations, ended ones too, for
    what they made came from it, and models.
    """
    with ctx.store.begin() as tx:
        home = access.project(tx, caller, project, Action.WORK)
        dataset, _ = requests.dataset(tx, home, f"{name}@{version}")
        # whoever submits holds it too: one of both comes later, and sees what the other did
        tx.datasets.lock(dataset.id)
        dataset, found = requests.dataset(tx, home, f"{name}@{version}")
        _require_unused(tx, home.id, f"{name}@{version}", found)
        tx.datasets.remove_version(found.id)
    return RemovedView(name=name, version=version)


def _require_unused(tx: Transaction, project_id: int, reference: str, found: DatasetVersion) -> None:
    jobs = [number for number in tx.datasets.jobs_with(project_id, found.id) if not _warmed(tx, number)]
    users = [
        *(f"job {number}" for number in jobs),
        *(f"evaluation {number}" for number in tx.datasets.evaluations_with(project_id, found.id)),
        *(f"model {name}" for name in tx.datasets.models_from(project_id, reference)),
    ]
    if not users:
        return
    more = f" and {len(users) - _NAMED} more" if len(users) > _NAMED else ""
    raise RefusedError(
        f"Dataset {reference} cannot be removed, for {', '.join(users[:_NAMED])}{more} used it.",
        "It stays as long as they do: what they made is traced to its data by it.",
        code="in_use",
    )


def _warmed(tx: Transaction, number: int) -> bool:
    """Whether it only brought the version to a node, and has ended."""
    run = tx.runs.get(number)
    return run is not None and run.state in ENDED_RUNS and names.WARM in run.environment
