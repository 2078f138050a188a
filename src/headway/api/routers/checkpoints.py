"""A job's checkpoints as a whole: the interval that costs least, and the proof of what was published."""

from __future__ import annotations

from fastapi import APIRouter

from headway.api.dependencies import Ctx, Who
from headway.services import checkpoints
from headway.wire.checkpoints import CheckpointProof, IntervalAdvice

router = APIRouter(tags=["runs"])


@router.get("/runs/{run}/checkpoints/interval")
def checkpoint_interval(ctx: Ctx, who: Who, run: int) -> IntervalAdvice:
    """How often to save so that saving and losses cost least together."""
    return checkpoints.advise(ctx, who, run)


@router.post("/runs/{run}/checkpoints/{name}/verify")
def verify_checkpoint(ctx: Ctx, who: Who, run: int, name: str) -> CheckpointProof:
    """Reads every byte of a published checkpoint; one that is damaged is marked and never resumed from."""
    return checkpoints.verify(ctx, who, run, name)
