"""Users, their tokens, projects, members, quota."""

from __future__ import annotations

from headway.errors import ForbiddenError, NotFoundError, RefusedError, UsageError
from headway.rules.access import Action, Caller, Role
from headway.rules.nearest import advice
from headway.rules.records import EndpointToken, Project, Token, User
from headway.services import access, quota
from headway.services.context import Services, moment, moment_or_none
from headway.store.base import Transaction
from headway.wire.people import (
    Me,
    MemberRequest,
    MemberView,
    NewToken,
    ProjectRequest,
    ProjectView,
    QuotaRequest,
    TokenRequest,
    TokenView,
    UserRequest,
    UserView,
)


def me(ctx: Services, caller: Caller) -> Me:
    """The caller, with its role in each project; an admin's is that of an owner everywhere."""
    with ctx.store.read() as tx:
        roles = {name: role.value for name, role in tx.people.roles(caller.user_id).items()}
        if caller.is_admin:
            roles = {p.name: Role.OWNER.value for p in tx.people.projects()}
    return Me(name=caller.name, is_admin=caller.is_admin, projects=roles)


# users and tokens


def users(ctx: Services, caller: Caller) -> list[UserView]:
    """Admins only. headway's own users are left out."""
    access.require_admin(caller)
    with ctx.store.read() as tx:
        return [_user_view(u) for u in tx.people.users() if not u.is_service]


def add_user(ctx: Services, caller: Caller, request: UserRequest) -> UserView:
    """Admins only. A user that is there with the same rights is returned; raises RefusedError for other rights."""
    access.require_admin(caller)
    with ctx.store.begin() as tx:
        found = tx.people.user(request.name)
        if found is None:
            found = tx.people.add_user(name=request.name, is_admin=request.is_admin, now=ctx.clock())
        elif found.is_admin != request.is_admin or found.is_service:
            raise RefusedError(f"There is a user {request.name} already.", "Choose another name.", code="exists")
    return _user_view(found)


def _user_view(user: User) -> UserView:
    return UserView(name=user.name, is_admin=user.is_admin, created_at=moment(user.created_at))


def _user(tx: Transaction, caller: Caller, name: str) -> User:
    """The user whose tokens the caller may see and make: itself, or for an admin anybody."""
    if caller.is_service or (caller.name != name and not caller.is_admin):
        raise ForbiddenError(f"{caller.name} may not see the tokens of {name}.", "Ask an admin.")
    found = tx.people.user(name)
    if found is None:
        raise NotFoundError(f"There is no user {name!r}.", advice(name, [u.name for u in tx.people.users()]))
    return found


def tokens(ctx: Services, caller: Caller, name: str) -> list[TokenView]:
    with ctx.store.read() as tx:
        return [token_view(t) for t in tx.people.tokens(_user(tx, caller, name).id)]


def add_token(ctx: Services, caller: Caller, name: str, request: TokenRequest) -> NewToken:
    """The answer holds the secret; it is kept nowhere."""
    secret, hashed = access.new_secret()
    now = ctx.clock()
    expires_at = None if request.lifetime is None else now + request.lifetime
    with ctx.store.begin() as tx:
        user = _user(tx, caller, name)
        token = tx.people.add_token(user_id=user.id, name=request.name, hash=hashed, now=now, expires_at=expires_at)
    return NewToken(**dict(token_view(token)), token=secret)


def revoke_token(ctx: Services, caller: Caller, name: str, token_id: int) -> None:
    """One that is revoked already stays so. Raises NotFoundError."""
    with ctx.store.begin() as tx:
        user = _user(tx, caller, name)
        if token_id not in {t.id for t in tx.people.tokens(user.id)}:
            raise NotFoundError(f"{name} has no token {token_id}.", f"`headway token ls {name}` lists them.")
        tx.people.revoke_token(token_id, ctx.clock())


def token_view(token: Token | EndpointToken) -> TokenView:
    return TokenView(
        id=token.id,
        name=token.name,
        created_at=moment(token.created_at),
        expires_at=moment_or_none(token.expires_at),
        revoked_at=moment_or_none(token.revoked_at),
    )


# projects


def projects(ctx: Services, caller: Caller) -> list[ProjectView]:
    """Those that the caller has a role in; for an admin all."""
    with ctx.store.read() as tx:
        visible = tx.people.roles(caller.user_id)
        found = [p for p in tx.people.projects() if p.name in visible or caller.is_admin]
    return [_project_view(ctx, p) for p in found]


def project(ctx: Services, caller: Caller, name: str) -> ProjectView:
    with ctx.store.read() as tx:
        found = access.project(tx, caller, name, Action.VIEW)
    return _project_view(ctx, found)


def add_project(ctx: Services, caller: Caller, request: ProjectRequest) -> ProjectView:
    """Admins only; who makes it owns it. One that is there is returned as it is."""
    access.require_admin(caller)
    with ctx.store.begin() as tx:
        found = tx.people.project(request.name)
        if found is None:
            found = tx.people.add_project(name=request.name, now=ctx.clock())
            tx.people.set_role(found.id, caller.user_id, Role.OWNER)
    return _project_view(ctx, found)


def set_quota(ctx: Services, caller: Caller, name: str, request: QuotaRequest) -> ProjectView:
    """Sets the values that were given; publishers and paused evaluations learn of it at once."""
    changes = {field: getattr(request, field) for field in request.model_fields_set}
    with ctx.store.begin() as tx:
        found = access.project(tx, caller, name, Action.MANAGE)
        if changes:
            tx.people.change_project(found.id, **changes)
        found = tx.people.project_by_id(found.id)
        # before the commit, so that an answer means both; a crash in between is mended at the next start
        quota.write(ctx, found)
    quota.write_data(ctx, found)
    ctx.hint("quota", name)
    return _project_view(ctx, found)


def _project_view(ctx: Services, found: Project) -> ProjectView:
    with ctx.store.read() as tx:
        data = quota.data_usage(tx, found)
    return ProjectView(
        name=found.name,
        quota_bytes=found.quota_bytes,
        quota_files=found.quota_files,
        used=quota.usage(ctx, found.name),
        data=data,
        created_at=moment(found.created_at),
    )


# members


def members(ctx: Services, caller: Caller, name: str) -> list[MemberView]:
    with ctx.store.read() as tx:
        found = tx.people.members(access.project(tx, caller, name, Action.VIEW).id)
        names = tx.people.names({m.user_id for m in found})
    return sorted((MemberView(user=names[m.user_id], role=m.role.value) for m in found), key=lambda m: m.user)


def set_member(ctx: Services, caller: Caller, name: str, user: str, request: MemberRequest) -> MemberView:
    """Raises UsageError for an unknown role, NotFoundError for an unknown user."""
    with ctx.store.begin() as tx:
        home = access.project(tx, caller, name, Action.MANAGE)
        try:
            role = Role(request.role)
        except ValueError:
            known = [r.value for r in Role]
            raise UsageError(f"{request.role!r} is no role.", advice(request.role, known)) from None
        tx.people.set_role(home.id, _member(tx, user).id, role)
    return MemberView(user=user, role=role.value)


def remove_member(ctx: Services, caller: Caller, name: str, user: str) -> None:
    """One that is no member stays none."""
    with ctx.store.begin() as tx:
        home = access.project(tx, caller, name, Action.MANAGE)
        tx.people.set_role(home.id, _member(tx, user).id, None)


def _member(tx: Transaction, name: str) -> User:
    found = tx.people.user(name)
    if found is None or found.is_service:
        known = [u.name for u in tx.people.users() if not u.is_service]
        raise NotFoundError(f"There is no user {name!r}.", advice(name, known))
    return found
