"""Who may do what: the admin everything; in a project the owner, the member and the viewer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from headway.errors import ForbiddenError


class Role(str, Enum):
    #: may change quota, members, and everything below
    OWNER = "owner"
    #: may submit, stop and publish
    MEMBER = "member"
    #: may look
    VIEWER = "viewer"


class Action(str, Enum):
    """What a route needs. The first three are asked of a project, the last of the whole."""

    VIEW = "view"
    WORK = "work"
    MANAGE = "manage"
    ADMINISTER = "administer"


_MAY: dict[Role, frozenset[Action]] = {
    Role.VIEWER: frozenset({Action.VIEW}),
    Role.MEMBER: frozenset({Action.VIEW, Action.WORK}),
    Role.OWNER: frozenset({Action.VIEW, Action.WORK, Action.MANAGE}),
}


@dataclass(frozen=True)
class Caller:
    """Who asks, as authentication found it."""

    user_id: int
    name: str
    is_admin: bool
    #: headway's own gateway: may read routes and nothing else
    is_service: bool = False


def allows(caller: Caller, role: Role | None, action: Action) -> bool:
    """Whether `caller`, whose role in the project is `role` (None: no member), may do `action`."""
    if caller.is_service:
        return False
    if caller.is_admin:
        return True
    return role is not None and action in _MAY[role]


def require(caller: Caller, role: Role | None, action: Action, project: str) -> None:
    """Raises ForbiddenError unless `allows`."""
    if not allows(caller, role, action):
        held = f"the role {role.value}" if role else "no role"
        raise ForbiddenError(
            f"{caller.name} has {held} in project {project}, which does not allow to {action.value}.",
            "Ask an owner of the project for a role that does.",
        )
