"""Where a project's data lies, and whether a store does what headway asks of it."""

from __future__ import annotations

from dataclasses import asdict, replace
from urllib.parse import urlsplit

from headway.errors import RefusedError, UsageError
from headway.rules.access import Action, Caller
from headway.rules.records import Project
from headway.rules.regions import check_region
from headway.services import access, connections, datastores
from headway.services.context import Services
from headway.storage import storecheck
from headway.storage.objects import ObjectStore, open_access
from headway.store.base import Transaction
from headway.wire.storage import StorageCheckRequest, StorageCheckView, StorageLine, StorageRequest, StorageView


def show(ctx: Services, caller: Caller, project: str) -> StorageView:
    with ctx.store.read() as tx:
        return _view(ctx, tx, access.project(tx, caller, project, Action.VIEW))


def use(ctx: Services, caller: Caller, project: str, request: StorageRequest) -> StorageView:
    """Changes store and regions; admins only: the URL may name a folder of the server.

    Raises RefusedError: the project has versions (code in_use), or its data may not lie there (code region).
    """
    access.require_admin(caller)
    for region in request.regions or []:
        check_region(region)
    with ctx.store.begin() as tx:
        found = access.project(tx, caller, project, Action.MANAGE)
        changed = _changed(tx, found, request)
        if (changed.storage, changed.connection_id) != (found.storage, found.connection_id):
            if tx.connections.has_versions(found.id):
                raise RefusedError(
                    f"Project {project} has versions of datasets in the store it has.",
                    "Use another project for the other store.",
                    code="in_use",
                )
            datastores.of(ctx, tx, changed)  # one that cannot be opened is refused here, not at the first push
        tx.connections.set_storage(found.id, changed.storage, changed.connection_id)
        tx.connections.set_regions(found.id, changed.regions)
        return _view(ctx, tx, changed)


def _changed(tx: Transaction, project: Project, request: StorageRequest) -> Project:
    storage = project.storage if request.url is None else request.url or None
    connection_id = project.connection_id
    if request.connection is not None:
        connection_id = connections.get(tx, request.connection).id if request.connection else None
    elif request.url is not None and (storage is None or datastores.is_folder(storage)):
        connection_id = None
    if storage is not None:
        _check_url(storage)
    if connection_id is not None and (storage is None or datastores.is_folder(storage)):
        raise UsageError("A folder needs no connection.", "Leave the connection out, or give the URL of a bucket.")
    regions = project.regions if request.regions is None else sorted(set(request.regions))
    return replace(project, storage=storage, connection_id=connection_id, regions=regions)


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "memory" or "@" in parts.netloc or parts.query or parts.fragment:
        # not repeated: it may hold a key
        raise UsageError("That URL names no lasting store.", "Write file:///FOLDER or s3://BUCKET/PREFIX.")


def check(ctx: Services, caller: Caller, project: str, request: StorageCheckRequest) -> StorageCheckView:
    """Tries the project's store, or for admins any other. Writes, and removes, one small object."""
    with ctx.store.read() as tx:
        found = access.project(tx, caller, project, Action.WORK)
        url, store = _asked(ctx, tx, caller, found, request)
    lines = [StorageLine(**asdict(line)) for line in storecheck.check(store, ctx.clock)]
    return StorageCheckView(url=url, ok=all(line.ok for line in lines), lines=lines)


def _asked(
    ctx: Services, tx: Transaction, caller: Caller, project: Project, request: StorageCheckRequest
) -> tuple[str, ObjectStore]:
    if not request.url and request.connection is None:
        # also one that the regions refuse: a check moves no data
        own = datastores.access(ctx, tx, replace(project, regions=[]))
        return own["url"], open_access(own, ctx.secret_key)
    access.require_admin(caller)
    if not request.url:
        raise UsageError("A connection alone names no bucket.", "Give the URL too, as in s3://BUCKET.")
    _check_url(request.url)
    connection = connections.get(tx, request.connection) if request.connection else None
    wanted = replace(project, regions=[], storage=request.url, connection_id=connection.id if connection else None)
    return request.url, open_access(datastores.access(ctx, tx, wanted), ctx.secret_key)


def _view(ctx: Services, tx: Transaction, project: Project) -> StorageView:
    refused = ""
    try:
        datastores.check_region(ctx, tx, project)
    except RefusedError as error:
        refused = error.message
    connection = None if project.connection_id is None else tx.connections.get(project.connection_id)
    return StorageView(
        project=project.name,
        url=project.storage,
        connection=connection.name if connection else None,
        region=datastores.region(ctx, tx, project),
        regions=project.regions,
        refused=refused,
    )
