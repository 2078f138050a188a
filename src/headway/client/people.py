"""Users, their tokens, projects, members, quota."""

from __future__ import annotations

from headway.client.transport import Transport, build
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


class Users:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def ls(self) -> list[UserView]:
        return [UserView.model_validate(u) for u in self._transport.call("GET", "/users")]

    def create(self, name: str, *, is_admin: bool = False) -> UserView:
        body = build(UserRequest, {"name": name, "is_admin": is_admin})
        return UserView.model_validate(self._transport.call("POST", "/users", body=body))

    def tokens(self, user: str) -> list[TokenView]:
        return [TokenView.model_validate(t) for t in self._transport.call("GET", f"/users/{user}/tokens")]

    def create_token(self, user: str, name: str, *, lifetime: float | None = None) -> NewToken:
        """lifetime: seconds; None: it does not expire. The secret is in the answer and nowhere else."""
        body = build(TokenRequest, {"name": name, "lifetime": lifetime})
        return NewToken.model_validate(self._transport.call("POST", f"/users/{user}/tokens", body=body))

    def revoke_token(self, user: str, token: int) -> None:
        self._transport.call("DELETE", f"/users/{user}/tokens/{token}")


class Projects:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def ls(self) -> list[ProjectView]:
        return [ProjectView.model_validate(p) for p in self._transport.call("GET", "/projects")]

    def create(self, name: str) -> ProjectView:
        body = build(ProjectRequest, {"name": name})
        return ProjectView.model_validate(self._transport.call("POST", "/projects", body=body))

    def get(self, name: str) -> ProjectView:
        return ProjectView.model_validate(self._transport.call("GET", f"/projects/{name}"))

    def set_quota(self, name: str, **limits: int | None) -> ProjectView:
        """limits: `quota_bytes`, `quota_files`; one that is not given stays, None takes the limit away."""
        body = build(QuotaRequest, limits)
        return ProjectView.model_validate(self._transport.call("PUT", f"/projects/{name}/quota", body=body))

    def members(self, name: str) -> list[MemberView]:
        return [MemberView.model_validate(m) for m in self._transport.call("GET", f"/projects/{name}/members")]

    def set_member(self, name: str, user: str, role: str) -> None:
        body = build(MemberRequest, {"role": role})
        self._transport.call("PUT", f"/projects/{name}/members/{user}", body=body)

    def remove_member(self, name: str, user: str) -> None:
        self._transport.call("DELETE", f"/projects/{name}/members/{user}")
