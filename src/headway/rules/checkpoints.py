"""Which checkpoint is meant: the best by a score, or the newest. One whose bytes were removed never is."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from headway.rules.records import Cell, Checkpoint
from headway.rules.states import CellState


def usable(found: Checkpoint) -> bool:
    """Whether it was published whole and is there still."""
    return found.valid and found.removed_at is None


def order(found: Checkpoint) -> tuple[int, int, int]:
    """How far it is: by step, then epoch, then appearance."""
    return found.step or 0, found.epoch or 0, found.id


def newest(found: Sequence[Checkpoint]) -> Checkpoint | None:
    """The usable one that is furthest."""
    return max((c for c in found if usable(c)), key=order, default=None)


def best(
    found: Sequence[Checkpoint], cells: Sequence[Cell], case: str | None, better: str = "higher"
) -> tuple[Checkpoint, float] | None:
    """The usable checkpoint with the best score in `case`, or with the best mean over all cases, and that score.

    Repeats of a case are averaged first. Only those with the most cases count: one that has the easy cases alone must
    not win. Of two alike the earlier one.
    """
    scores: dict[int, dict[str, list[float]]] = {}
    for cell in cells:
        if cell.state == CellState.VALID and cell.score is not None and case in (None, cell.case_id):
            scores.setdefault(cell.checkpoint_id, {}).setdefault(cell.case_id, []).append(cell.score)
    most = max((len(scores[c.id]) for c in found if usable(c) and c.id in scores), default=0)
    sign = -1 if better == "lower" else 1
    scored = [
        (c, fmean(fmean(values) for values in scores[c.id].values()))
        for c in found
        if usable(c) and len(scores.get(c.id, ())) == most > 0
    ]
    return max(scored, key=lambda pair: (sign * pair[1], -pair[0].id), default=None)
