"""Who asks, and whether it may: the first lines of every use case."""

from __future__ import annotations

import hashlib
import secrets

from headway.errors import ForbiddenError, NotFoundError, UnauthorizedError
from headway.rules.access import Action, Caller, require
from headway.rules.nearest import advice
from headway.rules.records import Project, Run
from headway.services.context import Services
from headway.store.base import Transaction

#: what a headway token begins with, so that scanners and people know one
PREFIX = "hw_"
_AGAIN = "Ask an admin for a new one (`headway token create`)."


def new_secret() -> tuple[str, str]:
    """A new token and the hash that the record keeps of it."""
    secret = PREFIX + secrets.token_urlsafe(32)
    return secret, digest(secret)


def digest(secret: str) -> str:
    """SHA-256, hexadecimal. The secret is random and long: nothing slower is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def authenticate(ctx: Services, authorization: str | None) -> Caller:
    """The caller of a request with this Authorization header.

    Raises UnauthorizedError with a code of its own for each of: none, wrong, revoked, expired.
    """
    scheme, _, secret = (authorization or "").strip().partition(" ")
    secret = secret.strip()
    if scheme.lower() != "bearer" or not secret:
        raise UnauthorizedError(
            "The request carries no token.", "Send `Authorization: Bearer TOKEN`.", code="token_missing"
        )
    with ctx.store.read() as tx:
        found = tx.people.by_token(digest(secret))
    if found is None:
        raise UnauthorizedError("The token is not known here.", _AGAIN, code="token_wrong")
    user, token = found
    if token.revoked_at is not None:
        raise UnauthorizedError(f"The token {token.name!r} of {user.name} was revoked.", _AGAIN, code="token_revoked")
    if token.expires_at is not None and token.expires_at <= ctx.clock():
        raise UnauthorizedError(f"The token {token.name!r} of {user.name} has expired.", _AGAIN, code="token_expired")
    return Caller(user.id, user.name, user.is_admin, user.is_service)


def project(tx: Transaction, caller: Caller, name: str, action: Action) -> Project:
    """The project, when `caller` may do `action` in it.

    Raises NotFoundError for one that is missing or that the caller has no part in (so that nobody learns of it), and
    ForbiddenError when the caller's role does not allow it.
    """
    found = tx.people.project(name)
    role = tx.people.role(found.id, caller.user_id) if found else None
    if found is None or not (role or caller.is_admin):
        visible = [p.name for p in tx.people.projects()] if caller.is_admin else tx.people.roles(caller.user_id)
        raise NotFoundError(f"There is no project {name!r} that {caller.name} may see.", advice(name, visible))
    require(caller, role, action, name)
    return found


def run(tx: Transaction, caller: Caller, run_id: int, action: Action) -> tuple[Run, Project]:
    """The run and its project; raises like `project`."""
    found = tx.runs.get(run_id)
    if found is not None:
        home = tx.people.project_by_id(found.project_id)
        role = tx.people.role(home.id, caller.user_id)
        if role or caller.is_admin:
            require(caller, role, action, home.name)
            return found, home
    raise NotFoundError(f"There is no run {run_id} that {caller.name} may see.", "`headway ls` lists runs.")


def require_admin(caller: Caller) -> None:
    """Raises ForbiddenError unless the caller is an admin."""
    if not caller.is_admin or caller.is_service:
        raise ForbiddenError(f"{caller.name} is no admin, which this needs.", "Ask an admin.")


def require_part(tx: Transaction, caller: Caller) -> None:
    """Raises ForbiddenError unless the caller is an admin or has a role in some project."""
    if caller.is_service or not (caller.is_admin or tx.people.roles(caller.user_id)):
        raise ForbiddenError(f"{caller.name} has no role in any project.", "Ask an owner of a project for one.")
