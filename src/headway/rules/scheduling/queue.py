"""What waits, kept up change by change, so that a pass need not read it all."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from headway.rules.records import Run
from headway.rules.scheduling.shapes import shape_of
from headway.rules.scheduling.turns import Group
from headway.rules.states import RunState

_Key = tuple[int, int, str]


class _Line:
    __slots__ = ("group", "order", "runs")

    def __init__(self) -> None:
        self.order: list[tuple[float, int]] = []
        self.runs: dict[int, Run] = {}
        #: as last asked for; None: has changed
        self.group: Group | None = None


class Queue:
    """Runs that may be placed, by (project, priority, shape) and in turn. A change costs that change."""

    def __init__(self, runs: Iterable[Run] = (), *, per_group: int = 32) -> None:
        self._per_group = per_group
        self._lines: dict[_Key, _Line] = {}
        self._where: dict[int, tuple[_Key, tuple[float, int]]] = {}
        for run in runs:
            self.add(run)

    def __len__(self) -> int:
        return len(self._where)

    def __contains__(self, run_id: object) -> bool:
        return run_id in self._where

    def add(self, run: Run) -> None:
        """A run as it is now; one that may not be placed (held, blocked, no longer queued) is left out."""
        self.remove(run.id)
        if run.state is not RunState.QUEUED or run.blocked:
            return
        key = (run.project_id, run.priority, run.shape or shape_of(run))
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line()
        turn = (run.position, run.id)
        insort(line.order, turn)
        line.runs[run.id] = run
        line.group = None
        self._where[run.id] = (key, turn)

    change = add

    def remove(self, run_id: int) -> None:
        """One that is not there changes nothing."""
        found = self._where.pop(run_id, None)
        if found is None:
            return
        key, turn = found
        line = self._lines[key]
        del line.order[bisect_left(line.order, turn)]
        del line.runs[run_id]
        line.group = None
        if not line.order:
            del self._lines[key]

    def lines(self) -> list[list[Run]]:
        """All that wait, a list a group, each in turn."""
        return [[line.runs[run_id] for _, run_id in line.order] for line in self._lines.values()]

    def groups(self) -> list[Group]:
        """The first of each group, as `decide` takes them."""
        found = []
        for line in self._lines.values():
            if line.group is None:
                heads = [line.runs[run_id] for _, run_id in line.order[: self._per_group]]
                line.group = Group(heads, len(line.order))
            found.append(line.group)
        return found
