"""Runs, attempts, snapshots, and the nodes and specs they are placed by."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa

from headway.rules.records import Attempt, Node, Run, Snapshot, Spec
from headway.rules.states import LIVE_RUNS, RunState
from headway.store.area import Area, defaults
from headway.store.tables import attempts, nodes, runs, snapshots, specs


class Runs(Area):
    def add(self, **values: Any) -> Run:
        """A new run; `values` are the fields of `Run` but its id; those with a default may be left out."""
        began = values.get("created_at", 0.0)
        return self._insert(Run, runs, **{**defaults(Run), "position": began, "queued_at": began, **values})

    def get(self, run_id: int) -> Run | None:
        return self._one(Run, sa.select(runs).where(runs.c.id == run_id))

    def many(self, run_ids: Collection[int]) -> list[Run]:
        return self._all(Run, sa.select(runs).where(runs.c.id.in_(list(run_ids))))

    def by_key(self, project_id: int, key: str) -> Run | None:
        return self._one(Run, sa.select(runs).where(runs.c.project_id == project_id, runs.c.key == key))

    def change(self, run_id: int, **changes: Any) -> None:
        self._update(runs, runs.c.id == run_id, **changes)

    def change_if(self, run_id: int, states: Collection[RunState], **changes: Any) -> bool:
        """Changes the run only while its state is one of `states`; whether it was."""
        return self._update(runs, (runs.c.id == run_id) & runs.c.state.in_(list(states)), **changes) > 0

    def listing(
        self,
        *,
        project_id: int | None = None,
        owner: str | None = None,
        owner_id: int | None = None,
        states: Collection[RunState] | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Run]:
        """Newest first; `before` pages on from the last id seen."""
        query = sa.select(runs).order_by(runs.c.id.desc()).limit(limit)
        if project_id is not None:
            query = query.where(runs.c.project_id == project_id)
        if owner is not None:
            query = query.where(runs.c.owner == owner)
        if owner_id is not None:
            query = query.where(runs.c.owner_id == owner_id)
        if states is not None:
            query = query.where(runs.c.state.in_(list(states)))
        if before is not None:
            query = query.where(runs.c.id < before)
        return self._all(Run, query)

    def queued(self, limit: int = 1000) -> list[Run]:
        """Runs that may be placed: state queued, highest priority first, then first come."""
        query = (
            sa.select(runs).where(sa.text("state = 'queued'")).order_by(runs.c.priority.desc(), runs.c.id).limit(limit)
        )
        return self._all(Run, query)

    def live(self) -> list[Run]:
        """Runs that occupy resources: starting, running or stopping."""
        return self._all(Run, sa.select(runs).where(_LIVE).order_by(runs.c.id))

    def counts(self, project_id: int) -> dict[RunState, int]:
        rows = self._connection.execute(
            sa.select(runs.c.state, sa.func.count()).where(runs.c.project_id == project_id).group_by(runs.c.state)
        )
        return {row[0]: row[1] for row in rows}

    # attempts

    def add_attempt(self, **values: Any) -> Attempt:
        return self._insert(Attempt, attempts, **{**defaults(Attempt), **values})

    def attempt(self, attempt_id: str) -> Attempt | None:
        return self._one(Attempt, sa.select(attempts).where(attempts.c.id == attempt_id))

    def attempts(self, run_id: int) -> list[Attempt]:
        """All attempts of a run, first one first."""
        return self._all(Attempt, sa.select(attempts).where(attempts.c.run_id == run_id).order_by(attempts.c.number))

    def attempts_since(self, project_id: int, since: float) -> list[Attempt]:
        """The project's attempts of training jobs that were made after `since`."""
        query = (
            sa.select(attempts)
            .join(runs, runs.c.id == attempts.c.run_id)
            .where(runs.c.project_id == project_id, runs.c.owner == "job", attempts.c.created_at > since)
        )
        return self._all(Attempt, query)

    def latest_attempts(self, run_ids: Sequence[int]) -> dict[int, Attempt]:
        """The newest attempt of each run that has one."""
        query = sa.select(attempts).where(attempts.c.run_id.in_(list(run_ids))).order_by(attempts.c.number)
        return {attempt.run_id: attempt for attempt in self._all(Attempt, query)}

    def live_attempts(self) -> list[Attempt]:
        """Attempts that have not ended."""
        return self._all(Attempt, sa.select(attempts).where(sa.text("state <> 'ended'")).order_by(attempts.c.run_id))

    def change_attempt(self, attempt_id: str, **changes: Any) -> None:
        self._update(attempts, attempts.c.id == attempt_id, **changes)

    # snapshots

    def add_snapshot(self, **values: Any) -> Snapshot:
        return self._insert(Snapshot, snapshots, **values)

    def snapshot(self, project_id: int, digest: str) -> Snapshot | None:
        query = sa.select(snapshots).where(snapshots.c.project_id == project_id, snapshots.c.digest == digest)
        return self._one(Snapshot, query)

    def snapshot_by_id(self, snapshot_id: int) -> Snapshot | None:
        return self._one(Snapshot, sa.select(snapshots).where(snapshots.c.id == snapshot_id))

    def snapshots_by_id(self, snapshot_ids: Collection[int]) -> dict[int, Snapshot]:
        if not snapshot_ids:
            return {}
        found = self._all(Snapshot, sa.select(snapshots).where(snapshots.c.id.in_(list(snapshot_ids))))
        return {snapshot.id: snapshot for snapshot in found}

    # nodes and specs

    def nodes(self) -> list[Node]:
        return self._all(Node, sa.select(nodes).order_by(nodes.c.name))

    def put_nodes(self, engine: str, found: Sequence[Node]) -> None:
        """Makes the engine's nodes exactly `found`."""
        self._connection.execute(sa.delete(nodes).where(nodes.c.engine == engine))
        self._insert_many(nodes, [{c.name: getattr(node, c.name) for c in nodes.c} for node in found])

    def specs(self) -> list[Spec]:
        return self._all(Spec, sa.select(specs).order_by(specs.c.price_hour, specs.c.name))

    def spec(self, name: str) -> Spec | None:
        return self._one(Spec, sa.select(specs).where(specs.c.name == name))

    def put_spec(self, spec: Spec) -> None:
        values = {c.name: getattr(spec, c.name) for c in specs.c}
        if not self._update(specs, specs.c.name == spec.name, **values):
            self._insert(Spec, specs, **values)


# literal, so that the partial index of the same words is used
_LIVE = sa.text("state IN ('running', 'starting', 'stopping')")
assert {s.value for s in LIVE_RUNS} == {"running", "starting", "stopping"}
