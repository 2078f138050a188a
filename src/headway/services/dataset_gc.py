"""Garbage collection: what lies in a project's store and belongs to no version of a dataset.

What belongs to a version is read from the manifests of all versions. An object that none names goes in three steps,
and may be cut off behind each: its row says *removing*, which fails where a push has touched it since it was looked at;
the object is deleted; the row is forgotten. Between the steps no transaction is open: a store may take its time.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from headway.errors import RefusedError
from headway.rules.access import Action, Caller
from headway.rules.records import DatasetVersion, Project, StoredObject
from headway.rules.states import ObjectState
from headway.services import data, dead_pushes, quota
from headway.services.context import Services
from headway.services.data import Home
from headway.storage import layout
from headway.storage.kinds.base import InvalidError
from headway.storage.manifests import open_manifest
from headway.storage.objects import MissingObjectError
from headway.store.datasets import batches
from headway.wire.datasets import GcItem, GcRequest, GcView

UNREFERENCED, UNKNOWN, HALF = "unreferenced", "never registered", "half-sent"
#: objects that are named in the answer
_NAMED = 1000
#: objects that are taken out of use in one transaction, and deleted at once
_BATCH, _AT_ONCE = 200, 8

#: kind and name of an object, see `storage.layout`
Name = tuple[str, str]


@dataclass
class _Garbage:
    kind: str
    name: str
    #: None: the record knows nothing of it
    row: StoredObject | None
    why: str = UNKNOWN
    #: whether the store has any of it, and how much
    stored: bool = False
    bytes: int = 0


def collect(ctx: Services, caller: Caller, project: str, request: GcRequest) -> GcView:
    """What is there that belongs to no version, and was used by no push for `older_than` seconds; removed unless it
    is a dry run.

    Raises RefusedError (unreadable) where a version's manifest cannot be read, as nobody knows then what belongs to it,
    and (busy) while another collection removes.
    """
    action = Action.WORK if request.dry_run else Action.MANAGE
    # before anything is looked at: what is used from here on is never removed
    before = ctx.clock() - request.older_than
    with ctx.store.read() as tx:
        home = data.home(ctx, tx, caller, project, action)
    if request.dry_run:
        return _view(request, home, _objects(ctx, home, before), dead_pushes.found(ctx, home.project, before))
    with _alone(ctx, home.project):
        left = dead_pushes.removed(ctx, home.project, before)
        done = list(_remove(ctx, home, _objects(ctx, home, before)))
        home.store.sweep()
    quota.write_data(ctx, home.project)
    return _view(request, home, done, left)


def _view(request: GcRequest, home: Home, objects: Sequence[_Garbage], left: Sequence[dead_pushes.DeadPush]) -> GcView:
    # a row without an object is forgotten, which is nobody's business
    items = [
        GcItem(key=layout.keys(home.project.name, g.kind, g.name)[0], bytes=g.bytes, why=g.why)
        for g in objects
        if g.stored
    ]
    items += [GcItem(key=f"pushes/{push.id}", bytes=push.bytes, why=HALF) for push in left]
    items.sort(key=lambda item: (-item.bytes, item.key))
    return GcView(
        dry_run=request.dry_run, objects=len(items), bytes=sum(item.bytes for item in items), items=items[:_NAMED]
    )


@contextmanager
def _alone(ctx: Services, project: Project) -> Iterator[None]:
    """One collection of a project at a time: what another left behind can be finished, as nobody is at it."""
    folder = ctx.project_folder(project.name)
    folder.mkdir(parents=True, exist_ok=True)
    fd = os.open(folder / "gc.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RefusedError(
                f"Garbage of project {project.name} is being collected already.", "Try again when that is done.",
                code="busy",
            ) from None  # fmt: skip
        yield
    finally:
        os.close(fd)


# -- what there is


def _objects(ctx: Services, home: Home, before: float) -> list[_Garbage]:
    project = home.project
    with ctx.store.read() as tx:
        rows = {(o.kind, o.name): o for o in tx.datasets.all_objects(project.id)}
        versions = tx.datasets.versions_in(project.id)
    used = _used(home, versions)
    found = {
        name: _Garbage(*name, row, why=HALF if row.state is ObjectState.ARRIVING else UNREFERENCED)
        for name, row in rows.items()
        if name not in used and (row.touched_at <= before or row.state is ObjectState.REMOVING)
    }
    for folder in layout.FOLDERS:
        for stored in home.store.details(f"projects/{project.name}/{folder}"):
            name = layout.named(project.name, stored.key)
            # what is nobody's here is not ours to remove
            if name is None or name in used or (name in rows and name not in found):
                continue
            if name in rows or stored.modified <= before:
                garbage = found.setdefault(name, _Garbage(*name, None))
                garbage.stored = True
                garbage.bytes += stored.bytes
    return list(found.values())


def _used(home: Home, versions: Sequence[tuple[str, DatasetVersion]]) -> set[Name]:
    """Raises RefusedError (unreadable)."""
    used: set[Name] = set()
    for name, version in versions:
        used.add((layout.VERSION, f"{name}/{version.version}"))
        if (layout.MANIFEST, version.digest) in used:
            continue
        used.add((layout.MANIFEST, version.digest))
        try:
            manifest = open_manifest(home.store, home.project.name, version.digest)
        except (MissingObjectError, InvalidError) as error:
            reference = f"{name}@{version.version}"
            raise RefusedError(
                f"Nothing is removed: the manifest of {reference} cannot be read ({error}), so what belongs to it is "
                "not known.",
                f"Push the same files again, which mends it, or remove it: `headway dataset rm {reference}`.",
                code="unreadable",
            ) from error
        used.update((pack.kind, pack.sha256) for pack in manifest.packs)
    return used


# -- removing it


def _remove(ctx: Services, home: Home, found: Sequence[_Garbage]) -> Iterator[_Garbage]:
    """Those that were removed."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="gc") as several:
        for batch in batches(found, _BATCH):
            taken = _condemn(ctx, home.project, batch)
            list(several.map(lambda one: _delete(home, one[0]), taken))
            with ctx.store.begin() as tx:
                for _, row in taken:
                    tx.datasets.forget(row.id)
            yield from (garbage for garbage, _ in taken)


def _condemn(ctx: Services, project: Project, batch: Sequence[_Garbage]) -> list[tuple[_Garbage, StoredObject]]:
    taken = []
    with ctx.store.begin() as tx:
        for one in batch:
            if one.row is None:
                row = tx.datasets.claim(project.id, one.kind, one.name, now=ctx.clock())
            else:
                mine = one.row.state is ObjectState.REMOVING or tx.datasets.condemn(one.row)
                row = one.row if mine else None
            if row is not None:
                taken.append((one, row))
    return taken


def _delete(home: Home, found: _Garbage) -> None:
    for key in layout.keys(home.project.name, found.kind, found.name):
        home.store.delete(key)
