"""Datasets: named, immutable, content-addressed file sets."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headway.errors import NotFoundError
from headway.rules.access import Action, Caller
from headway.rules.nearest import advice
from headway.services import access, damage, data, requests
from headway.services.context import Services
from headway.services.dataset_views import version_views
from headway.storage.checking import Checked, check_version
from headway.storage.objects import MissingObjectError
from headway.storage.verify import InvalidError
from headway.wire.datasets import DatasetVersionView, VerifyView


def listing(ctx: Services, caller: Caller, project: str) -> list[DatasetVersionView]:
    """The newest version of each dataset, by name."""
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.VIEW)
        newest = [(d, tx.products.dataset_versions(d.id)[-1:]) for d in tx.products.datasets(home.id)]
        return [view for dataset, found in newest for view in version_views(tx, dataset.name, found)]


def versions(ctx: Services, caller: Caller, project: str, name: str) -> list[DatasetVersionView]:
    """Oldest first."""
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.VIEW)
        dataset = tx.products.dataset(home.id, name)
        if dataset is None:
            known = [d.name for d in tx.products.datasets(home.id)]
            raise NotFoundError(f"Project {project} has no dataset {name!r}.", advice(name, known))
        return version_views(tx, dataset.name, tx.products.dataset_versions(dataset.id))


def put_statistics(
    ctx: Services, caller: Caller, project: str, name: str, version: int, statistics: dict[str, Any]
) -> DatasetVersionView:
    """Keeps statistics of a version, in place of those that it has."""
    with ctx.store.begin() as tx:
        home = access.project(tx, caller, project, Action.WORK)
        dataset, found = requests.dataset(tx, home, f"{name}@{version}")
        tx.products.change_dataset_version(found.id, statistics=statistics)
        return version_views(tx, dataset.name, [replace(found, statistics=statistics)])[0]


def _read(found: data.Version, wanted: Callable[[], bool]) -> Checked:
    try:
        manifest = data.opened(found)
    except (MissingObjectError, InvalidError) as error:
        return Checked(faults={"": f"The manifest cannot be read ({error})."}, faulty=1)
    return check_version(found.home.store, found.home.project.name, manifest, wanted)


def verify(
    ctx: Services, caller: Caller, project: str, name: str, version: int, sample: float | None = None
) -> VerifyView:
    """Reads the files of the version: all, or a `sample` of 0 to 1, for those who may look.

    What is found damaged counts as missing from then on, so that the next push of these files mends it.
    """
    found = data.version(ctx, caller, project, name, version)
    wanted = (lambda: True) if sample is None else (lambda: random.random() < sample)
    read = _read(found, wanted)
    damage.tell(ctx, found, read, all_read=sample is None)
    return VerifyView(
        name=name,
        version=version,
        files=found.version.files,
        bytes=found.version.bytes,
        read_files=read.files,
        read_bytes=read.bytes,
        faults=read.faults,
        faulty=read.faulty,
    )
