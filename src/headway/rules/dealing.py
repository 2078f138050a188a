"""Dealing an evaluation's cells to workers, and what becomes of an evaluation."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from headway.rules import retries
from headway.rules.records import Cell, Run
from headway.rules.states import ENDED_RUNS, CellState, EvaluationState, RunState

#: rounds of workers that leave cells untried before the evaluation is given up
ROUNDS_LIMIT = 20
OPEN_CELLS = frozenset({CellState.WAITING, CellState.RUNNING})


def deal(cells: Sequence[Cell], workers: int) -> list[list[Cell]]:
    """Parts for at most `workers` workers: whole checkpoints, in order, as even in cells as that allows.

    A checkpoint is loaded by one worker only; workers end together where checkpoints have equally many cells.
    """
    groups: dict[int, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.checkpoint_id, []).append(cell)
    parts: list[list[Cell]] = [[] for _ in range(min(workers, len(groups)))]
    for group in sorted(groups.values(), key=lambda g: (-len(g), g[0].id)):
        min(parts, key=len).extend(group)
    return [sorted(part, key=lambda c: c.id) for part in parts]


def _lost(run: Run) -> bool:
    """Whether the worker ended by what says nothing against its code: its cells are somebody else's to try."""
    return run.state is RunState.FAILED and run.cause in retries.LOSSES


@dataclass(frozen=True)
class Step:
    """What to do with an evaluation now: deal these cells, or end it."""

    deal: list[Cell]
    state: EvaluationState | None = None
    reason: str = ""


def decide(counts: Mapping[CellState, int], open_cells: Collection[Cell], runs: Mapping[int, Run], rounds: int) -> Step:
    """counts: cells by state; open_cells: those waiting or running; runs: the worker runs that they were dealt to."""
    total = sum(counts.values())
    if counts.get(CellState.VALID, 0) == total:
        return Step([], EvaluationState.SUCCEEDED)
    undealt, failed = [], None
    for cell in open_cells:
        run = runs.get(cell.run_id) if cell.run_id is not None else None
        if run is None or run.state is RunState.SUCCEEDED or _lost(run):
            undealt.append(cell)
        elif run.state in ENDED_RUNS:
            failed = run
    if any(run.state not in ENDED_RUNS for run in runs.values()):
        # the other workers finish what they have; then it is seen what is left
        return Step([])
    if failed is not None:
        return Step([], EvaluationState.FAILED, f"Worker run {failed.id} {failed.state.value}: {failed.reason}")
    if undealt:
        if rounds >= ROUNDS_LIMIT:
            return Step([], EvaluationState.FAILED, f"{len(undealt)} cells are left after {rounds} rounds of workers.")
        return Step(undealt)
    invalid = counts.get(CellState.INVALID, 0)
    return Step([], EvaluationState.FAILED, f"{invalid} of {total} cells are not valid; see their reasons.")
