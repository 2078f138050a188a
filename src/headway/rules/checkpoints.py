"""Which checkpoint is meant: the best by a score, or the newest."""

from __future__ import annotations

from collections.abc import Sequence

from headway.rules.records import Cell, Checkpoint
from headway.rules.states import CellState


def newest(found: Sequence[Checkpoint]) -> Checkpoint | None:
    """The valid one that is furthest: by step, then epoch, then appearance."""
    valid = [c for c in found if c.valid]
    return max(valid, key=lambda c: (c.step or 0, c.epoch or 0, c.id), default=None)


def best(found: Sequence[Checkpoint], cells: Sequence[Cell], case: str) -> tuple[Checkpoint, float] | None:
    """The valid checkpoint with the highest score in `case`, and that score; the earlier one of two alike."""
    scores = {
        c.checkpoint_id: c.score
        for c in cells
        if c.case_id == case and c.state == CellState.VALID and c.score is not None
    }
    scored = [(c, scores[c.id]) for c in found if c.valid and c.id in scores]
    return max(scored, key=lambda pair: (pair[1], -pair[0].id), default=None)
