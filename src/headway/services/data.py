"""A project's data: its store, and the push or version that a request names. The first lines of each use case."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headway.errors import FailedError, NotFoundError
from headway.rules.access import Action, Caller
from headway.rules.records import Dataset, DatasetVersion, Project, Push
from headway.services import access, datastores, requests
from headway.services.context import Services
from headway.storage.manifests import Manifest, open_manifest
from headway.storage.objects import MissingObjectError, ObjectStore
from headway.storage.verify import InvalidError
from headway.store.base import Transaction


@dataclass(frozen=True)
class Home:
    project: Project
    store: ObjectStore


@dataclass(frozen=True)
class Version:
    home: Home
    dataset: Dataset
    version: DatasetVersion

    def __str__(self) -> str:
        return f"{self.dataset.name}@{self.version.version}"


def home(ctx: Services, tx: Transaction, caller: Caller, project: str, action: Action) -> Home:
    """Raises as `access.project` does."""
    found = access.project(tx, caller, project, action)
    return Home(found, datastores.of(ctx, tx, found))


def push(ctx: Services, tx: Transaction, caller: Caller, project: str, push_id: int) -> tuple[Home, Push]:
    """The caller's own push. Raises NotFoundError."""
    found_home = home(ctx, tx, caller, project, Action.WORK)
    found = tx.datasets.push(push_id)
    if found is None or (found.project_id, found.created_by) != (found_home.project.id, caller.user_id):
        raise NotFoundError(f"{caller.name} has no push {push_id} in project {project}.", "Push again.")
    return found_home, found


def version(ctx: Services, caller: Caller, project: str, name: str, number: int | None) -> Version:
    """number: None is the newest. Raises NotFoundError naming what there is."""
    with ctx.store.read() as tx:
        found_home = home(ctx, tx, caller, project, Action.VIEW)
        reference = name if number is None else f"{name}@{number}"
        return Version(found_home, *requests.dataset(tx, found_home.project, reference))


def opened(found: Version) -> Manifest:
    """Raises MissingObjectError, InvalidError, as reading it does."""
    return open_manifest(found.home.store, found.home.project.name, found.version.digest)


@contextmanager
def manifest(found: Version) -> Iterator[Manifest]:
    """The version's manifest, to be read in the block. Raises FailedError (damaged) for one that cannot be read."""
    try:
        yield opened(found)
    except (MissingObjectError, InvalidError) as error:
        raise FailedError(
            f"The manifest of {found} cannot be read ({str(error).rstrip('.')}).",
            f"Run `headway dataset verify {found}`, and push the same files again: that mends it.",
            code="damaged",
        ) from error
