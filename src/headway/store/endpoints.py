"""Endpoints, their revisions and their tokens."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from headway.rules.records import Endpoint, EndpointToken, Revision
from headway.rules.states import EndpointState
from headway.store.area import Area
from headway.store.tables import endpoint_tokens, endpoints, revisions


class Endpoints(Area):
    def add(self, **values: Any) -> Endpoint:
        return self._insert(Endpoint, endpoints, **values)

    def get(self, endpoint_id: int) -> Endpoint | None:
        return self._one(Endpoint, sa.select(endpoints).where(endpoints.c.id == endpoint_id))

    def by_name(self, name: str) -> Endpoint | None:
        return self._one(Endpoint, sa.select(endpoints).where(endpoints.c.name == name))

    def listing(self, project_id: int) -> list[Endpoint]:
        return self._all(
            Endpoint, sa.select(endpoints).where(endpoints.c.project_id == project_id).order_by(endpoints.c.name)
        )

    def active(self) -> list[Endpoint]:
        """Endpoints that a controller has to look after: every one that is not stopped."""
        query = sa.select(endpoints).where(endpoints.c.state != EndpointState.STOPPED)
        return self._all(Endpoint, query.order_by(endpoints.c.id))

    def change(self, endpoint_id: int, **changes: Any) -> None:
        self._update(endpoints, endpoints.c.id == endpoint_id, **changes)

    def add_revision(self, **values: Any) -> Revision:
        return self._insert(Revision, revisions, **values)

    def revision(self, endpoint_id: int, number: int) -> Revision | None:
        query = sa.select(revisions).where(revisions.c.endpoint_id == endpoint_id, revisions.c.number == number)
        return self._one(Revision, query)

    def add_token(
        self, *, endpoint_id: int, name: str, hash: str, now: float, expires_at: float | None
    ) -> EndpointToken:
        return self._insert(
            EndpointToken,
            endpoint_tokens,
            endpoint_id=endpoint_id,
            name=name,
            hash=hash,
            created_at=now,
            expires_at=expires_at,
            revoked_at=None,
        )

    def tokens(self, endpoint_id: int) -> list[EndpointToken]:
        query = sa.select(endpoint_tokens).where(endpoint_tokens.c.endpoint_id == endpoint_id)
        return self._all(EndpointToken, query.order_by(endpoint_tokens.c.id))

    def revoke_token(self, token_id: int, now: float) -> None:
        where = (endpoint_tokens.c.id == token_id) & endpoint_tokens.c.revoked_at.is_(None)
        self._update(endpoint_tokens, where, revoked_at=now)
