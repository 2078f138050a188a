"""Whose turn it is: priority with ageing, jobs before evaluations, the smallest share, then position."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count

from headway.rules.records import Project, Run
from headway.rules.scheduling.rooms import Cluster

HIGHEST = 9


@dataclass(frozen=True)
class Group:
    """Waiting runs of one project, priority and shape: interchangeable but for their turn."""

    #: the first of them by (position, id)
    heads: Sequence[Run]
    #: how many there are in all
    waiting: int


@dataclass(frozen=True)
class Policy:
    #: each so many seconds of waiting count as one priority more, up to the highest
    ageing_seconds: float = 6 * 3600.0
    #: seconds within which a spot attempt is never reclaimed for another run, unless its own `spot` says otherwise
    protection: float = 3600.0
    #: a project whose run has aged beyond the highest priority and that had nothing placed for so long goes first once
    patience: float = 24 * 3600.0
    #: so many blocked runs, the first in turn, have room reserved; nobody behind them delays them
    reservations: int = 16
    #: placements of one pass
    placements: int = 256


def effective_priority(run: Run, now: float, policy: Policy, since: float | None = None) -> int:
    """Its priority and what it has gained by waiting. since: instead of the run's own beginning of waiting."""
    return max(run.priority, min(HIGHEST, aged(run, now, policy, since)))


def aged(run: Run, now: float, policy: Policy, since: float | None = None) -> int:
    """As `effective_priority`, but not bounded."""
    waited = now - (queued_at(run) if since is None else since)
    return run.priority + max(0, int(waited // policy.ageing_seconds))


def queued_at(run: Run) -> float:
    return run.queued_at or run.created_at


@dataclass
class Line:
    """A group and how far it was looked at."""

    group: Group
    at: int = 0
    #: whether its first run was found not to fit, so that no other one does
    blocked: bool = False
    #: for each head, since when it or one behind it waits: those of one group take turns, not places
    since: list[float] = field(default_factory=list)

    @property
    def run(self) -> Run:
        return self.group.heads[self.at]


class Turns:
    """Gives the lines one head at a time, each time the one whose turn it is."""

    def __init__(
        self,
        groups: Iterable[Group],
        cluster: Cluster,
        projects: Mapping[int, Project],
        now: float,
        policy: Policy,
        promised: Callable[[int], float] = lambda project: 0.0,
    ) -> None:
        self._cluster, self._projects, self._now, self._policy = cluster, projects, now, policy
        #: share that a project's waiting runs were promised
        self._promised = promised
        self._changes: dict[int, int] = {}
        self._starved: dict[int, bool] = {}
        self._number = count()
        self._heap: list[tuple[tuple[float, ...], int, int, Line]] = []
        for group in groups:
            if group.heads:
                self._heap.append(self._entry(Line(group, since=_since(group.heads))))
        heapify(self._heap)

    def _entry(self, line: Line) -> tuple[tuple[float, ...], int, int, Line]:
        return self._key(line), next(self._number), self._changes.get(line.run.project_id, 0), line

    def next(self) -> Line | None:
        heap = self._heap
        while heap:
            _, _, seen, line = heappop(heap)
            if seen == self._changes.get(line.run.project_id, 0):
                return line
            # its project has more since then, so that it may be another's turn
            heappush(heap, self._entry(line))
        return None

    def again(self, line: Line) -> None:
        """The line's next head."""
        heappush(self._heap, self._entry(line))

    def changed(self, project_id: int) -> None:
        """The project has more than before."""
        self._changes[project_id] = self._changes.get(project_id, 0) + 1
        self._starved[project_id] = False

    def _key(self, line: Line) -> tuple[float, ...]:
        run, policy, since = line.run, self._policy, line.since[line.at]
        unbounded = aged(run, self._now, policy, since)
        level = max(run.priority, min(HIGHEST, unbounded))
        overdue = unbounded > HIGHEST
        if overdue and self._now - since >= policy.patience and self._starves(run.project_id):
            level = HIGHEST + 1
        late = run.owner == "evaluation" and not overdue
        project = self._projects.get(run.project_id)
        share = self._cluster.share(run.project_id) + self._promised(run.project_id)
        return -level, late, share / max(project.weight if project else 1.0, 1e-9), run.position, run.id

    def _starves(self, project_id: int) -> bool:
        """Whether fair share has kept the project from having anything placed for long."""
        found = self._starved.get(project_id)
        if found is None:
            used = self._cluster.used.get(project_id)
            newest = max(used.placed.values(), default=float("-inf")) if used else float("-inf")
            found = self._starved[project_id] = self._now - newest >= self._policy.patience
        return found


def _since(heads: Sequence[Run]) -> list[float]:
    since = [queued_at(run) for run in heads]
    for index in range(len(since) - 2, -1, -1):
        since[index] = min(since[index], since[index + 1])
    return since
