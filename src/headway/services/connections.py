"""Connections to object stores: admins make them, projects use them, and their secrets never come back."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from headway.errors import NotFoundError, RefusedError, UsageError
from headway.rules.access import Caller
from headway.rules.nearest import advice
from headway.rules.records import Connection
from headway.rules.regions import check_region
from headway.services import access
from headway.services.context import Services, moment
from headway.storage import secrets
from headway.store.base import Transaction
from headway.wire.storage import ConnectionRequest, ConnectionView

#: kind -> what its secret must have, and what it may
_KEYS: dict[str, tuple[set[str], set[str]]] = {
    **dict.fromkeys(("s3", "oss", "obs"), ({"access_key_id", "secret_access_key"}, {"session_token"})),
    "gcs": ({"service_account_key"}, set()),
    "azure": ({"account_name"}, {"account_key", "sas_token"}),
}


def listing(ctx: Services, caller: Caller) -> list[ConnectionView]:
    """Admins only. By name."""
    access.require_admin(caller)
    with ctx.store.read() as tx:
        return [_view(tx, c) for c in tx.connections.listing()]


def put(ctx: Services, caller: Caller, name: str, request: ConnectionRequest) -> ConnectionView:
    """Makes or changes it; admins only. Raises UsageError for what cannot be right in it."""
    access.require_admin(caller)
    given = None if request.secret is None else {k: v.get_secret_value() for k, v in request.secret.items()}
    _check(request, given)
    now = ctx.clock()
    values = {"endpoint": request.endpoint, "region": request.region, "options": dict(request.options)}
    with ctx.store.begin() as tx:
        found = tx.connections.named(name)
        if found is not None and found.kind != request.kind:
            raise RefusedError(
                f"The connection {name} is of kind {found.kind}.",
                "Choose another name, or remove it first.",
                code="exists",
            )
        if given is not None:
            values["secret"] = _seal(ctx, given)
        if found is None:
            fresh = {"secret": "", "kind": request.kind, "created_by": caller.user_id, "created_at": now}
            tx.connections.add(name=name, **{**fresh, **values, "changed_at": now})
        else:
            # never the same moment twice: opened stores are known by it
            tx.connections.change(found.id, **values, changed_at=max(now, found.changed_at + 0.001))
        return _view(tx, get(tx, name))


def remove(ctx: Services, caller: Caller, name: str) -> None:
    """Admins only. Raises RefusedError (code in_use) while a project's data lies behind it."""
    access.require_admin(caller)
    with ctx.store.begin() as tx:
        found = get(tx, name)
        if users := tx.connections.used_by(found.id):
            raise RefusedError(
                f"Data of {', '.join(users[:5])} lies behind the connection {name}.",
                "Have these projects use another store first.",
                code="in_use",
            )
        tx.connections.remove(found.id)


def get(tx: Transaction, name: str) -> Connection:
    """Raises NotFoundError."""
    found = tx.connections.named(name)
    if found is None:
        names = [c.name for c in tx.connections.listing()]
        raise NotFoundError(f"There is no connection {name!r}.", advice(name, names))
    return found


def _check(request: ConnectionRequest, secret: Mapping[str, str] | None) -> None:
    if request.region:
        check_region(request.region)
    parts = urlsplit(request.endpoint)
    if request.endpoint and (parts.scheme not in ("http", "https") or not parts.netloc or "@" in parts.netloc):
        raise UsageError("The endpoint is no http(s) URL of a host.", "Write it as in https://minio.example.org:9000.")
    if request.options.get("style", "path") not in ("path", "virtual"):
        raise UsageError(f"style {request.options['style']!r} is not known.", "Give path or virtual.")
    if secret is None:
        return
    needed, possible = _KEYS[request.kind]
    # named by key alone: a value may be the secret
    if missing := needed - {k for k, v in secret.items() if v}:
        raise UsageError(f"The secret of a {request.kind} connection lacks {sorted(missing)[0]}.", "Give it.")
    if more := set(secret) - needed - possible:
        raise UsageError(
            f"The secret of a {request.kind} connection has no {sorted(more)[0]!r}.",
            f"It may have {', '.join(sorted(needed | possible))}.",
        )


def _seal(ctx: Services, secret: Mapping[str, str]) -> str:
    if ctx.secret_key is None:
        raise RefusedError("This headway has no key for secrets.", "Start it with a home.", code="no_secret_key")
    return secrets.seal(secret, ctx.secret_key)


def _view(tx: Transaction, connection: Connection) -> ConnectionView:
    return ConnectionView.model_validate(
        {
            "name": connection.name,
            "kind": connection.kind,
            "endpoint": connection.endpoint,
            "region": connection.region,
            "options": connection.options,
            "secret": bool(connection.secret),
            "projects": tx.connections.used_by(connection.id),
            "created_at": moment(connection.created_at),
            "changed_at": moment(connection.changed_at),
        }
    )
