"""Dealing an evaluation's cells to workers, and what becomes of an evaluation."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from headway.rules import retries
from headway.rules.records import Cell, Node, Run, Spec
from headway.rules.states import ENDED_RUNS, LIVE_RUNS, CellState, EvaluationState, RunState

#: rounds of workers in a row that leave cells untried and publish nothing before the evaluation is given up
ROUNDS_LIMIT = 20
OPEN_CELLS = frozenset({CellState.WAITING, CellState.RUNNING})
#: workers may end so much apart, as a part of all their work, where that saves loads
SLACK = 0.05
#: marks in a worker run's `work`: it ended because its target was full, and not by a fault of its code
EXCUSED = "excused"
#: how many cells were valid when its cells were dealt
VALID_BEFORE = "valid"

AFTER_TRAINING, SPARE = "after_training", "spare"


# dealing


def deal(
    cells: Sequence[Cell],
    workers: int,
    *,
    seconds: Mapping[str, float] | None = None,
    loads: Mapping[int, float] | None = None,
) -> list[list[Cell]]:
    """Parts for at most `workers` workers, each in the order of checkpoints, none empty.

    Whole checkpoints where workers end together then, as far as `SLACK` allows; else some are split, as few as can be.
    seconds: what cells of a case took so far; loads: what loading a checkpoint takes, by its id.
    """
    if not cells:
        return []
    line = _Line(cells, seconds or {}, loads or {})
    options = [line.whole(workers), *(line.cut(count) for count in range(1, min(workers, len(cells)) + 1))]
    ends = [line.end(parts) for parts in options]
    last = min(ends) * (1 + SLACK)
    good = [parts for parts, end in zip(options, ends, strict=True) if end <= last]
    return [line.cells_of(part) for part in min(good, key=line.rows_of)]


#: of a part: ranges of a line
_Part = list[tuple[int, int]]


class _Line:
    """The cells one behind the other, those of a checkpoint together, and what lies between any two places costs."""

    def __init__(self, cells: Sequence[Cell], seconds: Mapping[str, float], loads: Mapping[int, float]) -> None:
        groups: dict[int, list[Cell]] = {}
        for cell in sorted(cells, key=lambda c: c.id):
            groups.setdefault(cell.checkpoint_id, []).append(cell)
        usual = sum(seconds.values()) / len(seconds) if seconds else 1.0
        self.cells = [cell for group in groups.values() for cell in group]
        self.sums = [0.0, *accumulate(max(0.0, seconds.get(c.case_id, usual)) for c in self.cells)]
        #: where each checkpoint begins, and the end
        self.bounds = [0, *accumulate(len(group) for group in groups.values())]
        self.loads = [0.0, *accumulate(max(0.0, loads.get(checkpoint, 0.0)) for checkpoint in groups)]

    def whole(self, workers: int) -> list[_Part]:
        """Whole checkpoints, the longest first to whoever has least."""
        ranges = list(pairwise(self.bounds))
        parts: list[_Part] = [[] for _ in range(min(workers, len(ranges)))]
        took = [0.0] * len(parts)
        for one in sorted(ranges, key=lambda r: (-self._cost(r), r)):
            least = min(range(len(parts)), key=lambda i: (took[i], i))
            parts[least].append(one)
            took[least] += self._cost(one)
        return [sorted(part) for part in parts]

    def cut(self, count: int) -> list[_Part]:
        """`count` pieces of the line with equal work; between two checkpoints where that is near enough."""
        piece = self.sums[-1] / count
        places = [0]
        for number in range(1, count):
            after = bisect_left(self.sums, piece * number)
            place = after if self._off(after, piece * number) <= self._off(after - 1, piece * number) else after - 1
            bound = bisect_left(self.bounds, place)
            near = [
                b for b in self.bounds[max(0, bound - 1) : bound + 1] if self._off(b, piece * number) <= SLACK * piece
            ]
            places.append(max(places[-1], near[-1] if near else place))
        places.append(len(self.cells))
        return [[(a, b)] for a, b in pairwise(places) if a < b]

    def _off(self, place: int, wanted: float) -> float:
        return abs(self.sums[max(0, place)] - wanted)

    def _rows(self, one: tuple[int, int]) -> tuple[int, int]:
        """The first checkpoint of a range, and the one behind its last."""
        first, last = one
        begin = bisect_left(self.bounds, first)
        return begin - (self.bounds[begin] != first), bisect_left(self.bounds, last)

    def _cost(self, one: tuple[int, int]) -> float:
        first, behind = self._rows(one)
        return self.sums[one[1]] - self.sums[one[0]] + self.loads[behind] - self.loads[first]

    def end(self, parts: Iterable[_Part]) -> float:
        """When the last worker ends."""
        return max(sum(self._cost(one) for one in part) for part in parts)

    def rows_of(self, parts: Iterable[_Part]) -> int:
        """How often a checkpoint is loaded."""
        return sum(behind - first for part in parts for first, behind in map(self._rows, part))

    def cells_of(self, part: _Part) -> list[Cell]:
        return [cell for first, last in part for cell in self.cells[first:last]]


def workers_for(spec: Spec, nodes: Sequence[Node], least: int, most: int) -> int:
    """Workers of a deal: as many as the nodes hold at once were they empty, within the two bounds."""
    able = sum(_fit(spec, node) for node in nodes)
    return max(least, min(most, able)) if nodes else most


def _fit(spec: Spec, node: Node) -> int:
    fits = [int(node.cpus // spec.cpus) if spec.cpus else 1 << 20, node.memory_bytes // max(1, spec.memory_bytes)]
    if spec.accelerators:
        kind = spec.accelerator_kind
        own = sum(1 for a in node.accelerators if kind is None or a.get("kind") == kind)
        fits.append(own // spec.accelerators)
    return min(fits)


# what becomes of an evaluation


@dataclass(frozen=True)
class Look:
    """An evaluation as it is now."""

    state: EvaluationState
    #: cells by state and the worker run that they are dealt to
    tally: Mapping[tuple[CellState, int | None], int]
    #: the worker runs that have not ended, and those that open cells are dealt to
    runs: Mapping[int, Run]
    rounds: int
    #: most workers at once
    workers: int
    policy: str = "side_by_side"
    #: a job of the evaluation has not ended
    training: bool = False
    #: new checkpoints of such a job belong to it
    follow: bool = False

    def count(self, *states: CellState) -> int:
        return sum(n for (state, _), n in self.tally.items() if state in states)


@dataclass(frozen=True)
class Step:
    """What to do with an evaluation now; nothing of it: wait."""

    #: end it
    state: EvaluationState | None = None
    reason: str = ""
    #: it ends because of a worker's own end, which may yet be the target's fault
    blames: int | None = None
    #: deal the open cells of these runs (None: those of nobody) to so many workers at most
    deal: frozenset[int | None] = frozenset()
    workers: int = 0
    rounds: int = 0
    #: runs whose cells do not run any more
    idle: frozenset[int] = frozenset()
    #: runs that ended while the target was full: nothing is held against them
    excuse: frozenset[int] = frozenset()
    #: nobody is there who would see that the target can be written again
    probe: bool = False

    @property
    def acts(self) -> bool:
        return self != Step()


def decide(look: Look) -> Step:
    total, valid = sum(look.tally.values()), look.count(CellState.VALID)
    coming = look.follow and look.training
    if total == valid and not coming:
        if total:
            return Step(EvaluationState.SUCCEEDED)
        return Step(EvaluationState.FAILED, "Its jobs have ended and made no checkpoint that it is of.")
    live = [run for run in look.runs.values() if run.state not in ENDED_RUNS]
    idle = frozenset(
        run_id
        for (state, run_id), _ in look.tally.items()
        if state is CellState.RUNNING and run_id is not None and not _runs(look.runs.get(run_id))
    )
    if look.state is EvaluationState.PAUSED:
        failed = frozenset(run.id for run in _blamed(look) if run.state is RunState.FAILED)
        return Step(idle=idle, excuse=failed, probe=not any(run.state in LIVE_RUNS for run in live))
    return _go_on(look, live, idle)


def _runs(run: Run | None) -> bool:
    return run is not None and run.state in LIVE_RUNS


def _go_on(look: Look, live: Sequence[Run], idle: frozenset[int]) -> Step:
    if blamed := next(iter(_blamed(look)), None):
        # the other workers finish what they have
        if live:
            return Step(idle=idle)
        return Step(EvaluationState.FAILED, f"Worker run {blamed.id} {blamed.state.value}: {blamed.reason}", blamed.id)
    waits = look.policy == AFTER_TRAINING and look.training
    if left := _undealt(look):
        # whoever was asked to stop may still publish: no cell is run by two
        if waits or len(live) >= look.workers or any(run.stop_at is not None for run in live):
            return Step(idle=idle)
        rounds = _rounds(look, left)
        if rounds <= ROUNDS_LIMIT:
            return Step(deal=left, workers=look.workers - len(live), rounds=rounds, idle=idle)
        if live:
            return Step(idle=idle)
        count = look.count(*OPEN_CELLS)
        return Step(EvaluationState.FAILED, f"{count} cells are left after {look.rounds} rounds of workers.")
    if live or (look.follow and look.training):
        return Step(idle=idle)
    invalid = look.count(CellState.INVALID)
    return Step(
        EvaluationState.FAILED, f"{invalid} of {sum(look.tally.values())} cells are not valid; see their reasons."
    )


def _open(look: Look) -> set[int | None]:
    return {run_id for (state, run_id), count in look.tally.items() if state in OPEN_CELLS and count}


def _blamed(look: Look) -> list[Run]:
    """Workers that ended by their own fault, or somebody's will, and left cells."""
    owners = [look.runs[run_id] for run_id in _open(look) if run_id is not None and run_id in look.runs]
    found = [
        run
        for run in owners
        if run.state in (RunState.FAILED, RunState.STOPPED) and not (_lost(run) or run.work.get(EXCUSED))
    ]
    return sorted(found, key=lambda run: run.id)


def _lost(run: Run) -> bool:
    """Whether the worker ended by what says nothing against its code: its cells are somebody else's to try."""
    return run.state is RunState.FAILED and run.cause in retries.LOSSES


def _undealt(look: Look) -> frozenset[int | None]:
    """The runs whose open cells nobody has any more, None for cells that nobody ever had."""
    return frozenset(
        run_id
        for run_id in _open(look)
        if run_id is None or run_id not in look.runs or look.runs[run_id].state in ENDED_RUNS
    )


def _rounds(look: Look, left: frozenset[int | None]) -> int:
    """The number of the round to come: one more when workers left cells, from the start when they published some."""
    before = [look.runs[run_id] for run_id in left if run_id is not None and run_id in look.runs]
    if all(run.work.get(EXCUSED) for run in before):
        return max(1, look.rounds)
    known = max(int(run.work.get(VALID_BEFORE, 0)) for run in before)
    return 1 if look.count(CellState.VALID) > known else look.rounds + 1
