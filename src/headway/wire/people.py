"""Health, users, tokens, projects."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from headway.wire.base import Answer, Request

NAME = r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$"


class Health(Answer):
    #: "ok"
    status: str
    version: str
    #: parts that answered of late: {"api": true, "controller": true}
    parts: dict[str, bool] = {}


class Me(Answer):
    name: str
    is_admin: bool
    #: role in each project: {"default": "owner"}
    projects: dict[str, str]


class UserRequest(Request):
    name: str = Field(pattern=NAME)
    is_admin: bool = False


class UserView(Answer):
    name: str
    is_admin: bool
    created_at: datetime


class TokenRequest(Request):
    name: str = Field(min_length=1, max_length=63)
    #: seconds until it expires; None: never
    lifetime: float | None = Field(default=None, gt=0)


class TokenView(Answer):
    id: int
    name: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class NewToken(TokenView):
    #: the secret itself, shown this once
    token: str


class ProjectRequest(Request):
    name: str = Field(pattern=NAME)


class QuotaRequest(Request):
    """A value given is set (None: no limit); one that is left out stays."""

    quota_bytes: int | None = Field(default=None, ge=0)
    quota_files: int | None = Field(default=None, ge=0)


class MemberRequest(Request):
    #: owner, member or viewer
    role: str


class MemberView(Answer):
    user: str
    role: str


class Usage(Answer):
    """What a project has stored."""

    bytes: int
    files: int


class ProjectView(Answer):
    name: str
    quota_bytes: int | None
    quota_files: int | None
    #: by its vouched-for outputs
    used: Usage
    #: by its datasets in its store: packs, parts of large files and manifests are the files
    data: Usage
    created_at: datetime
