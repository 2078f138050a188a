"""What is asked and answered about a job's checkpoints as a whole."""

from __future__ import annotations

from headway.wire.base import Answer


class IntervalAdvice(Answer):
    """How often to save. Durations are seconds; overheads are parts of the bare work, 0.02 for 2%."""

    job: int
    #: medians over `checkpoints`: how long saving takes, and for how much of it training stands still
    save_seconds: float
    blocked_seconds: float
    checkpoints: int
    #: losses among the project's training jobs lately, and how long their nodes ran, all added up
    losses: int
    node_seconds: float
    #: seconds between losses that hit this job on its nodes; an assumption where none was seen
    loss_every: float
    assumed: bool
    #: seconds from the start of an attempt to its processes, a median
    restart_seconds: float
    #: what costs least, by Daly's formula; `young` is the simpler one's
    interval: float
    young: float
    overhead: float
    #: between saves as it is; None: unknown
    now: float | None
    overhead_now: float | None
    #: all of it in words
    text: str


class CheckpointProof(Answer):
    """What looking at every byte of a published checkpoint found."""

    name: str
    #: whether it is what was recorded
    valid: bool
    reason: str
    bytes: int
    seconds: float
