"""Which checkpoint is meant: the best by a score, or the newest. One whose bytes were removed never is."""

from __future__ import annotations

from collections.abc import Sequence

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


def best(found: Sequence[Checkpoint], cells: Sequence[Cell], case: str) -> tuple[Checkpoint, float] | None:
    """The usable checkpoint with the highest score in `case`, and that score; the earlier one of two alike."""
    scores = {
        c.checkpoint_id: c.score
        for c in cells
        if c.case_id == case and c.state == CellState.VALID and c.score is not None
    }
    scored = [(c, scores[c.id]) for c in found if usable(c) and c.id in scores]
    return max(scored, key=lambda pair: (pair[1], -pair[0].id), default=None)
