"""Whose turn it is: spot last, priority with ageing, jobs before evaluations, the smallest share, then position."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import count

from headway.rules.records import Project, Run
from headway.rules.scheduling.asks import least_need, least_nodes
from headway.rules.scheduling.rooms import Cluster, Need
from headway.rules.states import Billing

HIGHEST = 9
#: levels that spot runs are behind all others, until they have aged beyond the highest priority
_SPOT = 100


@dataclass(frozen=True)
class Group:
    """Waiting runs of one project, priority and shape: interchangeable but for their turn."""

    #: the first of them by (position, id)
    heads: Sequence[Run]
    #: how many there are in all
    waiting: int

    @cached_property
    def since(self) -> list[float]:
        """For each head, since when it or one behind it waits: those of one group take turns, not places."""
        since = [queued_at(run) for run in self.heads]
        for index in range(len(since) - 2, -1, -1):
            since[index] = min(since[index], since[index + 1])
        return since

    @cached_property
    def ask(self) -> tuple[Need, int]:
        """The least that each node must give, and the fewest nodes."""
        return least_need(self.heads[0]), least_nodes(self.heads[0])


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


def effective_priority(run: Run, now: float, policy: Policy) -> int:
    """Its priority and what it has gained by waiting, at most the highest."""
    gained = max(0, int((now - queued_at(run)) // policy.ageing_seconds))
    return max(run.priority, min(HIGHEST, run.priority + gained))


def queued_at(run: Run) -> float:
    return run.queued_at or run.created_at


class Line:
    """A group and how far it was looked at."""

    __slots__ = ("at", "blocked", "group")

    def __init__(self, group: Group) -> None:
        self.group = group
        self.at = 0
        #: whether its first run was found not to fit, so that no other one does
        self.blocked = False

    @property
    def run(self) -> Run:
        return self.group.heads[self.at]


#: (minus the effective priority, spot behind all others; whether after jobs): smallest first
_Level = tuple[int, bool]
_Entry = tuple[float, int, int, Line]


class Turns:
    """Gives the lines one head at a time, each time the one whose turn it is.

    Level by level; within one, the project with the smallest share; of a project, the smallest (position, id).
    """

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
        self._starved: dict[int, bool] = {}
        self._number = count()
        self._levels: dict[_Level, dict[int, list[_Entry]]] = {}
        for group in groups:
            if group.heads:
                self._add(Line(group))
        for level in self._levels.values():
            for lines in level.values():
                heapify(lines)
        self._level: _Level | None = None
        #: of the level whose turn it is: (share, position, id, project)
        self._order: list[tuple[float, float, int, int]] = []
        #: the project of the line that was given last; it is in `_order` again when it is known what became of it
        self._last: int | None = None

    def _add(self, line: Line) -> None:
        run = line.run
        lines = self._levels.setdefault(self._level_of(line), {}).setdefault(run.project_id, [])
        lines.append((run.position, run.id, next(self._number), line))

    def next(self) -> Line | None:
        """The line whose turn it is; None at the end."""
        level = self._level
        if level is not None and self._last is not None:
            self._enter(level, self._last)
        while level is None or not self._order:
            if level is not None:
                del self._levels[level]
            if not self._levels:
                self._level = self._last = None
                return None
            level = self._level = min(self._levels)
            for project_id in self._levels[level]:
                self._enter(level, project_id)
        project_id = self._last = heappop(self._order)[-1]
        return heappop(self._levels[level][project_id])[-1]

    def _enter(self, level: _Level, project_id: int) -> None:
        lines = self._levels[level].get(project_id)
        if lines:
            position, run_id, _, _ = lines[0]
            heappush(self._order, (self._share(project_id), position, run_id, project_id))

    def again(self, line: Line) -> None:
        """The line's next head. It has waited no longer than the one before, so that its level is not a higher one."""
        run = line.run
        lines = self._levels.setdefault(self._level_of(line), {}).setdefault(run.project_id, [])
        heappush(lines, (run.position, run.id, next(self._number), line))

    def changed(self, project_id: int) -> None:
        """The project, whose turn it was, has more than before."""
        starved = self._starved.get(project_id)
        self._starved[project_id] = False
        if starved and self._level is not None and -self._level[0] > HIGHEST:
            # it had its one turn; the others are where they belong
            for *_, line in self._levels[self._level].pop(project_id, []):
                self.again(line)

    def _share(self, project_id: int) -> float:
        project = self._projects.get(project_id)
        share = self._cluster.share(project_id) + self._promised(project_id)
        return share / max(project.weight if project else 1.0, 1e-9)

    def _level_of(self, line: Line) -> _Level:
        run, policy, since = line.run, self._policy, line.group.since[line.at]
        waited = self._now - since
        unbounded = run.priority + max(0, int(waited // policy.ageing_seconds))
        if unbounded <= HIGHEST:
            # whoever may take a spot run's place has it first: else the run that was reclaimed for another one, and is
            # queued again where it was, would have that place back at once, and be reclaimed again, for ever
            behind = _SPOT if run.billing is Billing.SPOT else 0
            return behind - max(run.priority, unbounded), run.owner == "evaluation"
        if waited >= policy.patience and self._starves(run.project_id):
            return -HIGHEST - 1, False
        return -max(run.priority, HIGHEST), False

    def _starves(self, project_id: int) -> bool:
        """Whether fair share has kept the project from having anything placed for long."""
        found = self._starved.get(project_id)
        if found is None:
            used = self._cluster.used.get(project_id)
            newest = max(used.placed.values(), default=float("-inf")) if used else float("-inf")
            found = self._starved[project_id] = self._now - newest >= self._policy.patience
        return found
