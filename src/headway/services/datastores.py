"""Where a project's data lies: its store, and what a node needs to reach it.

A project without a storage URL of its own keeps its data in the platform's objects.
"""

from __future__ import annotations

import threading
from typing import Any
from urllib.parse import urlsplit

from headway.rules import regions
from headway.rules.records import Connection, Project
from headway.services.context import Services
from headway.storage.objects import ObjectStore, open_access
from headway.store.base import Transaction

#: opened stores by URL and connection: an open one holds connections to its server
_opened: dict[tuple[str, int | None, float], ObjectStore] = {}
_lock = threading.Lock()


def of(ctx: Services, tx: Transaction, project: Project) -> ObjectStore:
    """The project's store.

    Raises RefusedError (code region) when the project's data may not lie there, UsageError when it cannot be opened.
    """
    check_region(ctx, tx, project)
    if project.storage is None:
        return ctx.objects
    connection = _connection(tx, project)
    known = (None, 0.0) if connection is None else (connection.id, connection.changed_at)
    key = (project.storage, *known)
    with _lock:
        if key not in _opened:
            # of a connection that was changed nobody asks for the older one again
            for old in [k for k in _opened if k[:2] == key[:2]]:
                del _opened[old]
            _opened[key] = open_access(_access(project.storage, connection), ctx.secret_key)
        return _opened[key]


def access(ctx: Services, tx: Transaction, project: Project) -> dict[str, Any]:
    """What a launch plan carries so that a node opens the same store; see `storage.objects.open_access`.

    Raises RefusedError as `of` does. The secret is sealed.
    """
    check_region(ctx, tx, project)
    if project.storage is None:
        return _access(ctx.objects_url, None)
    return _access(project.storage, _connection(tx, project))


def region(ctx: Services, tx: Transaction, project: Project) -> str:
    """Of the project's store: its connection's, or for a folder the platform's; "" is not known."""
    connection = _connection(tx, project)
    return connection.region if connection is not None else ctx.region


def check_region(ctx: Services, tx: Transaction, project: Project) -> None:
    """Raises RefusedError (code region) when the project's data may not lie in its store."""
    place = f"the store {project.storage or ctx.objects_url}"
    regions.require(project.name, project.regions, region(ctx, tx, project), place)


def is_folder(url: str) -> bool:
    return urlsplit(url).scheme in ("", "file")


def _connection(tx: Transaction, project: Project) -> Connection | None:
    return None if project.connection_id is None else tx.connections.get(project.connection_id)


def _access(url: str, connection: Connection | None) -> dict[str, Any]:
    if connection is None:
        return {"url": url, "connection": None, "secret": None}
    return {"url": url, "connection": facts(connection), "secret": connection.secret or None}


def facts(connection: Connection) -> dict[str, Any]:
    """What of a connection is no secret, as an access has it."""
    return {
        "kind": connection.kind,
        "endpoint": connection.endpoint,
        "region": connection.region,
        "options": connection.options,
    }
