"""How often to save a checkpoint: the interval that costs least.

Saving costs time, and so does doing again what a loss destroyed. With C the seconds that a save takes from training
and M the mean seconds between losses, the interval between saves that costs least is

    Young:  sqrt(2 C M)
            J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9), 1974
    Daly:   sqrt(2 C M) (1 + 1/3 sqrt(C / 2M) + 1/9 (C / 2M)) - C   for C < 2M, else M
            J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future
            Generation Computer Systems 22(3), 2006, equation 37

and the time for which everything takes longer than the bare work, for an interval t and R seconds to start again, is

    M exp(R / M) (exp((t + C) / M) - 1) / t  -  1                    (Daly, equation 20, divided by the bare work)

A save in the background takes only its blocked seconds from training, but the next one waits for it, so no interval
is shorter than a save takes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headway.protocol.causes import Cause
from headway.rules.records import Attempt, Checkpoint

#: ends that destroy what was done since the last checkpoint and say nothing against the run's code
LOSSES = frozenset({Cause.KILLED, Cause.RUNNER_LOST, Cause.NODE_LOST, Cause.FENCED, Cause.HANG, Cause.RECLAIMED})
#: what a node is believed to last while no loss was seen: a week
PRIOR_SECONDS = 7 * 86400.0


@dataclass(frozen=True)
class Saving:
    """Medians over a job's checkpoints that told them."""

    save_seconds: float
    blocked_seconds: float
    checkpoints: int


@dataclass(frozen=True)
class Losses:
    count: int
    #: running time over all nodes
    node_seconds: float

    def mean(self, nodes: int = 1) -> float:
        """Seconds between losses that hit a run on so many nodes; any of them ends it."""
        between = self.node_seconds / self.count if self.count else self.node_seconds + PRIOR_SECONDS
        return max(between, 1.0) / nodes


@dataclass(frozen=True)
class Advice:
    """`interval` costs least; `young` is the first order's. Overheads are parts of the bare work: 0.02 is 2%."""

    interval: float
    young: float
    overhead: float
    #: seconds between saves as they are now, and what that costs; None: unknown
    now: float | None
    overhead_now: float | None


def saving(found: Sequence[Checkpoint]) -> Saving | None:
    """None when no checkpoint told how long saving it took."""
    saves = [c.save_seconds for c in found if c.valid and c.save_seconds is not None]
    if not saves:
        return None
    blocked = [c.blocked_seconds for c in found if c.valid and c.blocked_seconds is not None]
    save = statistics.median(saves)
    return Saving(save, statistics.median(blocked) if blocked else save, len(saves))


def losses(attempts: Iterable[Attempt], now: float, causes: Collection[Cause] = LOSSES) -> Losses:
    """Over attempts of any runs, live ones until `now`."""
    count, seconds = 0, 0.0
    for attempt in attempts:
        count += attempt.cause in causes
        if attempt.launched_at is not None:
            end = attempt.ended_at if attempt.ended_at is not None else now
            seconds += max(0.0, end - attempt.launched_at) * max(1, len(attempt.placement))
    return Losses(count, seconds)


def current(found: Sequence[Checkpoint]) -> float | None:
    """Median seconds between valid checkpoints of the same attempt; None when there are no two."""
    valid = sorted((c for c in found if c.valid), key=lambda c: (c.attempt_id, c.created_at))
    gaps = [b.created_at - a.created_at for a, b in pairwise(valid) if a.attempt_id == b.attempt_id]
    return statistics.median(gaps) if gaps else None


def young(cost: float, mean: float) -> float:
    return math.sqrt(2 * cost * mean)


def daly(cost: float, mean: float) -> float:
    if cost >= 2 * mean:
        return mean
    part = cost / (2 * mean)
    return math.sqrt(2 * cost * mean) * (1 + math.sqrt(part) / 3 + part / 9) - cost


def overhead(interval: float, cost: float, mean: float, restart: float = 0.0) -> float:
    """How much longer everything takes than the bare work; infinite where it would never end."""
    try:
        return mean * math.exp(restart / mean) * math.expm1((interval + cost) / mean) / interval - 1
    except (OverflowError, ZeroDivisionError):
        return math.inf


def advise(saved: Saving, mean: float, *, now: float | None = None, restart: float = 0.0) -> Advice:
    """mean: seconds between losses. now: the present interval. restart: seconds to start again."""
    cost = max(saved.blocked_seconds, 1e-3)
    least = max(daly(cost, mean), saved.save_seconds, 1e-3)
    return Advice(
        interval=least,
        young=young(cost, mean),
        overhead=overhead(least, cost, mean, restart),
        now=now,
        overhead_now=overhead(now, cost, mean, restart) if now else None,
    )
