"""Runs, attempts, snapshots, and the nodes and specs they are placed by."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from headway.rules.records import Attempt, Node, Run, Snapshot, Spec
from headway.rules.scheduling.shapes import shape, shape_of
from headway.rules.states import LIVE_RUNS, RunState
from headway.store.area import Area, defaults
from headway.store.tables import attempts, nodes, runs, snapshots, specs


class Runs(Area):
    def add(self, **values: Any) -> Run:
        """A new run; `values` are the fields of `Run` but its id; those with a default may be left out."""
        began = values.get("created_at", 0.0)
        full = {**defaults(Run), "position": began, "queued_at": began, "asked_at": began, **values}
        full["shape"] = full["shape"] or shape(**{name: full[name] for name in _SHAPING})
        return self._insert(Run, runs, **full)

    def get(self, run_id: int) -> Run | None:
        return self._one(Run, sa.select(runs).where(runs.c.id == run_id))

    def many(self, run_ids: Collection[int]) -> list[Run]:
        return self._all(Run, sa.select(runs).where(runs.c.id.in_(list(run_ids))))

    def by_key(self, project_id: int, key: str) -> Run | None:
        return self._one(Run, sa.select(runs).where(runs.c.project_id == project_id, runs.c.key == key))

    def change(self, run_id: int, **changes: Any) -> None:
        """Changes the run's columns; the shape follows by itself."""
        if _SHAPING & changes.keys() and (run := self.get(run_id)) is not None:
            changes["shape"] = shape_of(replace(run, **changes))
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
        name: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> list[Run]:
        """Newest first; `before` pages on from the last id seen. name: a part of it; tags: all of these, "" is any."""
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
        if name:
            query = query.where(runs.c.name.icontains(name, autoescape=True))
        for key, value in (tags or {}).items():
            found = runs.c.tags[key].as_string()
            query = query.where(found == value if value else found.is_not(None))
        return self._all(Run, query)

    def ahead(self, run_ids: Collection[int]) -> dict[int, int]:
        """Of queued runs: which one of the same project, priority and shape is the next to be placed."""
        if not run_ids:
            return {}
        other = runs.alias("other")
        first = (
            sa.select(other.c.id)
            .where(sa.text("other.state = 'queued'"), other.c.blocked == sa.false())
            .where(*(other.c[c] == runs.c[c] for c in ("project_id", "priority", "shape")))
            .order_by(other.c.position, other.c.id)
            .limit(1)
            .scalar_subquery()
        )
        rows = self._connection.execute(sa.select(runs.c.id, first).where(runs.c.id.in_(list(run_ids))))
        return {row[0]: row[1] for row in rows if row[1] is not None}

    def queue_heads(
        self, per_group: int = 32, *, project_id: int | None = None, rows: int = 100_000
    ) -> list[tuple[list[Run], int]]:
        """What may be placed (queued, not blocked) by project, priority and shape: the first of each, and how many.

        The first are by (position, id). project_id: only that project's. rows: about so many in all, yet two of each.
        Costs a look at an index of what waits and the rows that it returns, whatever else the table holds.
        """
        groups = sa.select(*_GROUP, sa.func.count()).where(_QUEUED).group_by(*_GROUP).order_by(*_GROUP)
        if project_id is not None:
            groups = groups.where(runs.c.project_id == project_id)
        counted = [row for row in self._connection.execute(groups).all() if not row.blocked]
        most = min(per_group, max(2, rows // max(len(counted), 1)))
        found: list[tuple[list[Run], int]] = []
        for project, _, priority, alike, waiting in counted:
            query = _HEADS.params(project=project, priority=priority, shape=alike, most=most)
            found.append((self._all(Run, query), waiting))
        return found

    def waiting(self, project_id: int | None = None) -> int:
        """How many runs are queued, blocked ones too."""
        query = sa.select(sa.func.count()).select_from(runs).where(_QUEUED)
        if project_id is not None:
            query = query.where(runs.c.project_id == project_id)
        return int(self._scalar(query))

    def blocked(self, project_id: int | None = None, limit: int = 10_000) -> list[Run]:
        """Queued runs that wait for others to succeed, oldest first."""
        query = sa.select(runs).where(_BLOCKED, _QUEUED).order_by(runs.c.id).limit(limit)
        if project_id is not None:
            query = query.where(runs.c.project_id == project_id)
        return self._all(Run, query)

    def ahead_of(self, run: Run) -> int:
        """How many queued runs of its project, priority and shape are placed before it."""
        turn = (runs.c.position < run.position) | ((runs.c.position == run.position) & (runs.c.id < run.id))
        query = sa.select(sa.func.count()).select_from(runs).where(_QUEUED, runs.c.blocked == sa.false(), turn)
        return int(self._scalar(query.where(*_alike(run))))

    def explained(self) -> list[Run]:
        """Queued runs with a sentence of their own."""
        return self._all(Run, sa.select(runs).where(_QUEUED, runs.c.reason != ""))

    def overdue(self, now: float, *, live: bool) -> list[Run]:
        """Runs that have taken longer than their `max_wait`: of those that live, or of those that are queued."""
        late = (runs.c.max_wait.is_not(None), runs.c.asked_at + runs.c.max_wait < now)
        return self._all(Run, sa.select(runs).where(_LIVE if live else _QUEUED, *late).order_by(runs.c.id))

    def turns(self, project_id: int, priority: int) -> tuple[float, float] | None:
        """Smallest and largest position of the project's queued runs of that priority; None when there are none."""
        query = sa.select(sa.func.min(runs.c.position), sa.func.max(runs.c.position)).where(
            _QUEUED, runs.c.project_id == project_id, runs.c.priority == priority
        )
        low, high = self._connection.execute(query).one()
        return None if low is None else (float(low), float(high))

    def position_before(self, run: Run) -> float:
        """A position right before the queued `run` in its project and priority; makes room where there is none."""
        alike = (_QUEUED, runs.c.project_id == run.project_id, runs.c.priority == run.priority)
        before = (runs.c.position < run.position) | ((runs.c.position == run.position) & (runs.c.id < run.id))
        last = self._scalar(sa.select(sa.func.max(runs.c.position)).where(*alike, before))
        if last is None:
            return run.position - 1.0
        middle = float((last + run.position) / 2)
        if last < middle < run.position:
            return middle
        # numbers between the two have run out: it and all behind it move up
        self._update(runs, sa.and_(*alike, ~before), position=runs.c.position + 1.0)
        return run.position + 0.5

    def queued(self, limit: int = 1000) -> list[Run]:
        """Runs that may be placed: state queued, highest priority first, then first come."""
        query = (
            sa.select(runs).where(sa.text("state = 'queued'")).order_by(runs.c.priority.desc(), runs.c.id).limit(limit)
        )
        return self._all(Run, query)

    def live(self) -> list[Run]:
        """Runs that occupy resources: starting, running or stopping."""
        return self._all(Run, sa.select(runs).where(_LIVE).order_by(runs.c.id))

    def dependencies(self) -> dict[int, list[int]]:
        """Runs that wait (held or queued) for others to succeed -> those others."""
        query = sa.select(runs.c.id, runs.c.after).where(_BLOCKED, runs.c.state.in_([RunState.QUEUED, RunState.HELD]))
        return {row[0]: list(row[1]) for row in self._connection.execute(query)}

    def states(self, run_ids: Collection[int]) -> dict[int, RunState]:
        """The states of those that exist."""
        query = sa.select(runs.c.id, runs.c.state).where(runs.c.id.in_(list(run_ids)))
        return {row[0]: row[1] for row in self._connection.execute(query)}

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

    def node(self, name: str) -> Node | None:
        return self._one(Node, sa.select(nodes).where(nodes.c.name == name))

    def put_nodes(self, engine: str, found: Sequence[Node]) -> None:
        """Makes the engine's nodes exactly `found`; state and reason of those that are known stay as they are."""
        known = {n.name: n for n in self.nodes() if n.engine == engine}
        self._connection.execute(sa.delete(nodes).where(nodes.c.engine == engine))
        rows = [{c.name: getattr(node, c.name) for c in nodes.c} for node in found]
        for row in rows:
            if (before := known.get(row["name"])) is not None:
                row.update(state=before.state, reason=before.reason)
        self._insert_many(nodes, rows)

    def change_node(self, name: str, **changes: Any) -> bool:
        """changes: `state`, `reason`. Whether there is such a node."""
        return self._update(nodes, nodes.c.name == name, **changes) > 0

    def specs(self) -> list[Spec]:
        return self._all(Spec, sa.select(specs).order_by(specs.c.price_hour, specs.c.name))

    def spec(self, name: str) -> Spec | None:
        return self._one(Spec, sa.select(specs).where(specs.c.name == name))

    def put_spec(self, spec: Spec) -> None:
        values = {c.name: getattr(spec, c.name) for c in specs.c}
        if not self._update(specs, specs.c.name == spec.name, **values):
            self._insert(Spec, specs, **values)


# literal, so that the partial index of the same words is used
_QUEUED = sa.text("runs.state = 'queued'")
_GROUP = (runs.c.project_id, runs.c.blocked, runs.c.priority, runs.c.shape)
_HEADS = (
    sa.select(runs)
    .where(_QUEUED, runs.c.blocked == sa.false())
    .where(runs.c.project_id == sa.bindparam("project"), runs.c.priority == sa.bindparam("priority"))
    .where(runs.c.shape == sa.bindparam("shape"))
    .order_by(runs.c.position, runs.c.id)
    .limit(sa.bindparam("most"))
)
_LIVE = sa.text("state IN ('running', 'starting', 'stopping')")
_BLOCKED = sa.text("blocked")
assert {s.value for s in LIVE_RUNS} == {"running", "starting", "stopping"}


def _alike(run: Run) -> list[sa.ColumnElement[bool]]:
    return [runs.c.project_id == run.project_id, runs.c.priority == run.priority, runs.c.shape == run.shape]


#: columns that `shape` depends on
_SHAPING = frozenset(inspect.signature(shape).parameters)
