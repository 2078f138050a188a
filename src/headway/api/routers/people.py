"""Users, tokens, projects, members, quota."""

from __future__ import annotations

from fastapi import APIRouter

from headway.api.dependencies import Ctx, Who
from headway.services import people
from headway.wire.people import (
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

router = APIRouter(tags=["people"])


@router.get("/users")
def users(ctx: Ctx, who: Who) -> list[UserView]:
    """Every user. For admins."""
    return people.users(ctx, who)


@router.post("/users")
def add_user(ctx: Ctx, who: Who, request: UserRequest) -> UserView:
    """A new user. For admins."""
    return people.add_user(ctx, who, request)


@router.get("/users/{name}/tokens")
def tokens(ctx: Ctx, who: Who, name: str) -> list[TokenView]:
    """A user's tokens, without their secrets. For the user and admins."""
    return people.tokens(ctx, who, name)


@router.post("/users/{name}/tokens")
def add_token(ctx: Ctx, who: Who, name: str, request: TokenRequest) -> NewToken:
    """A new token; its secret is in this answer and nowhere else. For the user and admins."""
    return people.add_token(ctx, who, name, request)


@router.delete("/users/{name}/tokens/{token}", status_code=204)
def revoke_token(ctx: Ctx, who: Who, name: str, token: int) -> None:
    """Makes a token worthless at once. For the user and admins."""
    people.revoke_token(ctx, who, name, token)


@router.get("/projects")
def projects(ctx: Ctx, who: Who) -> list[ProjectView]:
    """The projects that the caller has a role in."""
    return people.projects(ctx, who)


@router.post("/projects")
def add_project(ctx: Ctx, who: Who, request: ProjectRequest) -> ProjectView:
    """A new project. For admins."""
    return people.add_project(ctx, who, request)


@router.get("/projects/{project}")
def project(ctx: Ctx, who: Who, project: str) -> ProjectView:
    """One project with its quota and what it uses."""
    return people.project(ctx, who, project)


@router.put("/projects/{project}/quota")
def set_quota(ctx: Ctx, who: Who, project: str, request: QuotaRequest) -> ProjectView:
    """Sets the limits that are given; null takes one away. For owners."""
    return people.set_quota(ctx, who, project, request)


@router.get("/projects/{project}/members")
def members(ctx: Ctx, who: Who, project: str) -> list[MemberView]:
    """Who has which role."""
    return people.members(ctx, who, project)


@router.put("/projects/{project}/members/{user}")
def set_member(ctx: Ctx, who: Who, project: str, user: str, request: MemberRequest) -> MemberView:
    """Gives a user a role. For owners."""
    return people.set_member(ctx, who, project, user, request)


@router.delete("/projects/{project}/members/{user}", status_code=204)
def remove_member(ctx: Ctx, who: Who, project: str, user: str) -> None:
    """Takes a user's role away. For owners."""
    people.remove_member(ctx, who, project, user)
