from __future__ import annotations

import json
from pathlib import Path

import pytest

from headway.errors import ForbiddenError, NotFoundError, RefusedError, UsageError
from headway.protocol import hints
from headway.rules.access import Caller, Role
from headway.services import access, people
from headway.services.context import Services
from headway.testing.services import caller
from headway.wire.people import MemberRequest, ProjectRequest, QuotaRequest, TokenRequest, UserRequest


@pytest.fixture
def admin(ctx: Services, tmp_path: Path) -> Caller:
    return access.authenticate(ctx, f"Bearer {(tmp_path / 'admin.token').read_text().strip()}")


def test_me_is_the_caller_and_its_roles(ctx: Services, admin: Caller, viewer: Caller) -> None:
    assert people.me(ctx, viewer).model_dump() == {"name": "vic", "is_admin": False, "projects": {"default": "viewer"}}
    assert people.me(ctx, admin).projects == {"default": "owner"}


def test_users_are_made_by_admins_and_once(ctx: Services, admin: Caller, owner: Caller) -> None:
    made = people.add_user(ctx, admin, UserRequest(name="new"))
    assert people.add_user(ctx, admin, UserRequest(name="new")) == made
    with pytest.raises(RefusedError, match="new"):
        people.add_user(ctx, admin, UserRequest(name="new", is_admin=True))
    # headway's own user is nobody's to have
    with pytest.raises(RefusedError, match="gateway"):
        people.add_user(ctx, admin, UserRequest(name="gateway"))
    assert "gateway" not in [u.name for u in people.users(ctx, admin)]
    with pytest.raises(ForbiddenError):
        people.add_user(ctx, owner, UserRequest(name="other"))


def test_a_token_is_shown_once_and_can_be_revoked(ctx: Services, admin: Caller, viewer: Caller) -> None:
    made = people.add_token(ctx, viewer, "vic", TokenRequest(name="laptop"))
    assert access.authenticate(ctx, f"Bearer {made.token}") == viewer
    (shown,) = people.tokens(ctx, viewer, "vic")
    assert made.token not in shown.model_dump_json()
    with pytest.raises(NotFoundError):
        people.revoke_token(ctx, admin, "admin", made.id)
    people.revoke_token(ctx, admin, "vic", made.id)
    people.revoke_token(ctx, viewer, "vic", made.id)
    with pytest.raises(NotFoundError, match="vick"):
        people.tokens(ctx, admin, "vick")


def test_a_quota_reaches_the_record_the_file_and_the_listeners(ctx: Services, owner: Caller, tmp_path: Path) -> None:
    file = ctx.project_folder("default") / "quota.json"
    listener = hints.Listener(tmp_path / "hints", "test")
    view = people.set_quota(ctx, owner, "default", QuotaRequest(quota_files=96))
    assert listener.receive() == [("quota", "default")]
    listener.close()
    assert (view.quota_bytes, view.quota_files, view.used.files) == (None, 96, 0)
    assert json.loads(file.read_text()) == {"bytes": None, "files": 96}
    # what is left out stays, null takes a limit away
    assert people.set_quota(ctx, owner, "default", QuotaRequest(quota_bytes=5)).quota_files == 96
    view = people.set_quota(ctx, owner, "default", QuotaRequest(quota_files=None))
    assert (view.quota_bytes, view.quota_files) == (5, None)
    assert json.loads(file.read_text()) == {"bytes": 5, "files": None}
    assert people.project(ctx, owner, "default") == view


def test_members_are_the_owners_to_choose(ctx: Services, owner: Caller, member: Caller, stranger: Caller) -> None:
    with pytest.raises(ForbiddenError):
        people.set_member(ctx, member, "default", "sten", MemberRequest(role="viewer"))
    people.set_member(ctx, owner, "default", "sten", MemberRequest(role="viewer"))
    assert [(m.user, m.role) for m in people.members(ctx, stranger, "default")] == [
        ("mia", "member"), ("olga", "owner"), ("sten", "viewer"),
    ]  # fmt: skip
    with pytest.raises(UsageError, match="owner"):
        people.set_member(ctx, owner, "default", "sten", MemberRequest(role="ownr"))
    for name in ("stan", "gateway"):
        with pytest.raises(NotFoundError):
            people.set_member(ctx, owner, "default", name, MemberRequest(role="viewer"))
    for _ in range(2):
        people.remove_member(ctx, owner, "default", "sten")
    with pytest.raises(NotFoundError):
        people.members(ctx, stranger, "default")


def test_projects_are_seen_by_their_members(ctx: Services, admin: Caller, member: Caller) -> None:
    made = people.add_project(ctx, admin, ProjectRequest(name="other"))
    assert people.add_project(ctx, admin, ProjectRequest(name="other")) == made
    assert [p.name for p in people.projects(ctx, admin)] == ["default", "other"]
    assert [p.name for p in people.projects(ctx, member)] == ["default"]
    with pytest.raises(NotFoundError) as missing:
        people.project(ctx, member, "othr")
    # a name that the caller may not see is not given away as the nearest one
    assert "other" not in str(missing.value)
    caller(ctx, "mia", Role.VIEWER, "other")
    assert [p.name for p in people.projects(ctx, member)] == ["default", "other"]
