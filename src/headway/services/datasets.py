"""Datasets: named, immutable, content-addressed file sets."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, BinaryIO

from headway.errors import NotFoundError, UsageError
from headway.rules.access import Action, Caller
from headway.rules.nearest import advice
from headway.rules.records import Project
from headway.services import access, damage, data, requests
from headway.services.context import Services
from headway.services.dataset_views import version_views
from headway.storage import datasets as storage
from headway.storage.checking import Checked, check_version
from headway.storage.manifests import open_manifest
from headway.storage.verify import InvalidError
from headway.store.base import ConflictError, Transaction
from headway.wire.datasets import DatasetVersionView, VerifyView
from headway.wire.people import NAME
from headway.wire.products import FileEntry, KnownAnswer, KnownRequest, PackView, VersionRequest

#: bytes of one pack; a file that is larger cannot be pushed
LIMIT = 64 << 30


def check(ctx: Services, caller: Caller, project: str) -> None:
    """Raises unless the caller may push there: asked before a body is taken in."""
    with ctx.store.read() as tx:
        access.project(tx, caller, project, Action.WORK)


def put_pack(ctx: Services, caller: Caller, project: str, sha256: str, body: BinaryIO) -> PackView:
    """Takes a pack in; one that is there stays as it is. Raises UsageError when its content is not `sha256`'s."""
    check(ctx, caller, project)
    return PackView(sha256=sha256, bytes=storage.receive_pack(ctx.objects, project, body, sha256))


def known(ctx: Services, caller: Caller, project: str, request: KnownRequest) -> KnownAnswer:
    """Places of those contents that some version in the project holds."""
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.WORK)
        found = [v for d in tx.products.datasets(home.id) for v in tx.products.dataset_versions(d.id)]
    wanted, places = set(request.sha256), dict[str, FileEntry]()
    for digest in dict.fromkeys(v.digest for v in sorted(found, key=lambda v: -v.id)):
        if len(places) == len(wanted):
            break
        for entry in _files(ctx, project, digest):
            if entry["sha256"] in wanted and entry["sha256"] not in places:
                places[entry["sha256"]] = FileEntry(**entry)
    return KnownAnswer(known=places)


def _files(ctx: Services, project: str, digest: str) -> list[dict[str, Any]]:
    rows = open_manifest(ctx.objects, project, digest).rows()
    return [{k: getattr(r, k) for k in ("path", "bytes", "sha256", "pack", "offset")} for r in rows if r.pack]


def publish(ctx: Services, caller: Caller, project: str, name: str, request: VersionRequest) -> DatasetVersionView:
    """A new version, or the newest one when it holds the same files.

    Raises UsageError for a path that stands twice or leads outside, or a place that is in no pack.
    """
    if not re.match(NAME, name):
        raise UsageError(f"{name!r} is no name of a dataset.", "Use lower-case letters, digits, and . _ - inside.")
    check(ctx, caller, project)
    digest = storage.publish_manifest(
        ctx.objects, project, [f.model_dump() for f in request.files], source=request.source, created=ctx.clock()
    )
    for last in (False, True):
        try:
            with ctx.store.begin() as tx:
                home = access.project(tx, caller, project, Action.WORK)
                return _insert(ctx, tx, caller, home, name, request, digest)
        except ConflictError:
            # somebody else published at the same moment and took the number
            if last:
                raise
    raise AssertionError("unreachable")


def _insert(
    ctx: Services, tx: Transaction, caller: Caller, home: Project, name: str, request: VersionRequest, digest: str
) -> DatasetVersionView:
    dataset = tx.products.dataset(home.id, name) or tx.products.add_dataset(
        project_id=home.id, name=name, now=ctx.clock()
    )
    found = tx.products.dataset_versions(dataset.id)
    if found and found[-1].digest == digest:
        return version_views(tx, dataset.name, found[-1:])[0]
    version = tx.products.add_dataset_version(
        dataset_id=dataset.id,
        version=found[-1].version + 1 if found else 1,
        digest=digest,
        files=len(request.files),
        bytes=sum(f.bytes for f in request.files),
        statistics=request.statistics,
        source=request.source,
        created_by=caller.user_id,
        created_at=ctx.clock(),
    )
    return version_views(tx, dataset.name, [version])[0]


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
        manifest = data.manifest(found)
    except (NotFoundError, InvalidError) as error:
        return Checked(faults={"": str(error)}, faulty=1)
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
