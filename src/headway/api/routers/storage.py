"""Connections to object stores, and where projects keep their data."""

from __future__ import annotations

from fastapi import APIRouter

from headway.api.dependencies import Ctx, Who
from headway.services import connections, storage
from headway.wire.storage import (
    ConnectionName,
    ConnectionRequest,
    ConnectionView,
    StorageCheckRequest,
    StorageCheckView,
    StorageRequest,
    StorageView,
)

router = APIRouter(tags=["storage"])


@router.get("/connections")
def list_connections(ctx: Ctx, who: Who) -> list[ConnectionView]:
    """All connections, without their secrets. Admins only."""
    return connections.listing(ctx, who)


@router.put("/connections/{name}")
def save_connection(ctx: Ctx, who: Who, name: ConnectionName, request: ConnectionRequest) -> ConnectionView:
    """Makes or changes a connection. Without a secret the one that is there stays. Admins only."""
    return connections.put(ctx, who, name, request)


@router.delete("/connections/{name}")
def remove_connection(ctx: Ctx, who: Who, name: str) -> None:
    """Removes a connection behind which no project keeps data. Admins only."""
    connections.remove(ctx, who, name)


@router.get("/projects/{project}/storage")
def project_storage(ctx: Ctx, who: Who, project: str) -> StorageView:
    """Where the project's data lies, and where it may."""
    return storage.show(ctx, who, project)


@router.put("/projects/{project}/storage")
def change_storage(ctx: Ctx, who: Who, project: str, request: StorageRequest) -> StorageView:
    """Changes the store, which is refused while the project has versions, or the regions. Admins only."""
    return storage.use(ctx, who, project, request)


@router.post("/projects/{project}/storage/check")
def check_storage(ctx: Ctx, who: Who, project: str, request: StorageCheckRequest) -> StorageCheckView:
    """Tries what headway does with a store, on one small object that it removes."""
    return storage.check(ctx, who, project, request)
