"""Users, their tokens, projects and members."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from headway.rules.access import Role
from headway.rules.records import Member, Project, Token, User
from headway.store.area import Area, defaults
from headway.store.tables import members, projects, tokens, users


class People(Area):
    def add_user(self, *, name: str, is_admin: bool, is_service: bool = False, now: float) -> User:
        return self._insert(User, users, name=name, is_admin=is_admin, is_service=is_service, created_at=now)

    def user(self, name: str) -> User | None:
        return self._one(User, sa.select(users).where(users.c.name == name))

    def names(self, user_ids: Collection[int]) -> dict[int, str]:
        """Name of each of these users."""
        rows = self._connection.execute(sa.select(users.c.id, users.c.name).where(users.c.id.in_(list(user_ids))))
        return {row[0]: row[1] for row in rows}

    def user_by_id(self, user_id: int) -> User | None:
        return self._one(User, sa.select(users).where(users.c.id == user_id))

    def users(self) -> list[User]:
        return self._all(User, sa.select(users).order_by(users.c.id))

    def add_token(self, *, user_id: int, name: str, hash: str, now: float, expires_at: float | None = None) -> Token:
        return self._insert(
            Token, tokens, user_id=user_id, name=name, hash=hash, created_at=now, expires_at=expires_at, revoked_at=None
        )

    def by_token(self, hash: str) -> tuple[User, Token] | None:
        """The token with this hash, revoked and expired ones too, and whose it is."""
        query = sa.select(tokens, *(c.label(f"user_{c.name}") for c in users.c if c.name != "id"))
        row = self._connection.execute(query.join(users).where(tokens.c.hash == hash)).mappings().first()
        if row is None:
            return None
        user = User(id=row["user_id"], **{c.name: row[f"user_{c.name}"] for c in users.c if c.name != "id"})
        return user, Token(**{c.name: row[c.name] for c in tokens.c})

    def tokens(self, user_id: int) -> list[Token]:
        return self._all(Token, sa.select(tokens).where(tokens.c.user_id == user_id).order_by(tokens.c.id))

    def roles(self, user_id: int) -> dict[str, Role]:
        """The user's role in each project that it is a member of, by the project's name."""
        rows = self._connection.execute(
            sa.select(projects.c.name, members.c.role)
            .join(members, members.c.project_id == projects.c.id)
            .where(members.c.user_id == user_id)
            .order_by(projects.c.name)
        )
        return {row[0]: row[1] for row in rows}

    def revoke_token(self, token_id: int, now: float) -> None:
        self._update(tokens, (tokens.c.id == token_id) & tokens.c.revoked_at.is_(None), revoked_at=now)

    def add_project(self, *, name: str, now: float) -> Project:
        return self._insert(
            Project, projects, **defaults(Project), name=name, quota_bytes=None, quota_files=None, created_at=now
        )

    def project(self, name: str) -> Project | None:
        return self._one(Project, sa.select(projects).where(projects.c.name == name))

    def project_by_id(self, project_id: int) -> Project:
        found = self._one(Project, sa.select(projects).where(projects.c.id == project_id))
        assert found is not None, f"project {project_id} is referred to and not there"
        return found

    def lock_project(self, project_id: int) -> None:
        """Until the commit nobody else takes room of its quota."""
        # key_share: rows that refer to the project are inserted meanwhile, also by those who then wait for this
        query = sa.select(projects.c.id).where(projects.c.id == project_id).with_for_update(key_share=True)
        self._connection.execute(query)

    def projects(self) -> list[Project]:
        return self._all(Project, sa.select(projects).order_by(projects.c.name))

    def change_project(self, project_id: int, **changes: Any) -> None:
        """changes: `quota_bytes`, `quota_files`."""
        self._update(projects, projects.c.id == project_id, **changes)

    def role(self, project_id: int, user_id: int) -> Role | None:
        role: Role | None = self._scalar(
            sa.select(members.c.role).where(members.c.project_id == project_id, members.c.user_id == user_id)
        )
        return role

    def members(self, project_id: int) -> list[Member]:
        return self._all(Member, sa.select(members).where(members.c.project_id == project_id))

    def set_role(self, project_id: int, user_id: int, role: Role | None) -> None:
        """None takes the membership away."""
        where = (members.c.project_id == project_id) & (members.c.user_id == user_id)
        if role is None:
            self._connection.execute(sa.delete(members).where(where))
        elif not self._update(members, where, role=role):
            self._insert(Member, members, project_id=project_id, user_id=user_id, role=role)
