"""Endpoints, their revisions and their tokens."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from headway.rules.records import Endpoint, EndpointToken, Revision
from headway.rules.states import AttemptState, EndpointState
from headway.store.area import Area
from headway.store.tables import attempts, endpoint_tokens, endpoints, revisions, runs


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

    def all(self) -> list[Endpoint]:
        """Of every project, by name."""
        return self._all(Endpoint, sa.select(endpoints).order_by(endpoints.c.name))

    def ready_replicas(self) -> dict[int, list[tuple[int, str, str]]]:
        """(run, address, secret) of every replica that answers, by endpoint: a running run whose live attempt is ready.

        One that was asked to stop is left out, so that no new request reaches it while it drains.
        """
        rows = self._connection.execute(
            sa.select(runs.c.owner_id, runs.c.id, attempts.c.address, attempts.c.secret)
            .join(attempts, attempts.c.run_id == runs.c.id)
            .where(
                # literal, so that the partial index of the same words is used
                sa.text("attempts.state <> 'ended'"),
                attempts.c.state == AttemptState.RUNNING,
                attempts.c.ready,
                attempts.c.address.is_not(None),
                runs.c.owner == "endpoint",
                runs.c.stop_at.is_(None),
            )
            .order_by(runs.c.id)
        )
        found: dict[int, list[tuple[int, str, str]]] = {}
        for endpoint_id, run_id, address, secret in rows:
            found.setdefault(endpoint_id, []).append((run_id, address, secret or ""))
        return found

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

    def all_tokens(self) -> dict[int, list[EndpointToken]]:
        """Every endpoint's tokens, revoked and expired ones too, by endpoint."""
        found: dict[int, list[EndpointToken]] = {}
        for token in self._all(EndpointToken, sa.select(endpoint_tokens).order_by(endpoint_tokens.c.id)):
            found.setdefault(token.endpoint_id, []).append(token)
        return found

    def revoke_token(self, token_id: int, now: float) -> None:
        where = (endpoint_tokens.c.id == token_id) & endpoint_tokens.c.revoked_at.is_(None)
        self._update(endpoint_tokens, where, revoked_at=now)
