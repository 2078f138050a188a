"""Which checkpoints of a job are kept: the last n, the best n by a metric, every so many steps.

What any part of the rule keeps is kept. Whatever the rule, the newest valid checkpoint stays, and so does what is
protected: evaluated, registered (hence served), or resumed from.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.rules import checkpoints
from headway.rules.records import Checkpoint


@dataclass(frozen=True)
class Best:
    n: int
    metric: str
    #: "max": the higher the better; "min"
    mode: str = "max"


@dataclass(frozen=True)
class Rule:
    """None: that part keeps nothing by itself. A rule without any part keeps everything."""

    keep_last: int | None = None
    keep_best: Best | None = None
    #: multiples of so many steps, or epochs where no steps are told
    keep_every: int | None = None

    @classmethod
    def of(cls, raw: Mapping[str, Any] | None) -> Rule:
        """From `run.work["retention"]`, which was checked when the job was submitted."""
        raw = raw or {}
        best = raw.get("keep_best")
        return cls(
            keep_last=raw.get("keep_last"),
            keep_best=Best(best["n"], best["metric"], best.get("mode") or "max") if best else None,
            keep_every=raw.get("keep_every"),
        )

    def __bool__(self) -> bool:
        return any(part is not None for part in (self.keep_last, self.keep_best, self.keep_every))


def removable(found: Sequence[Checkpoint], rule: Rule, protected: Collection[int] = ()) -> list[Checkpoint]:
    """Those of one job whose bytes are to be removed, in their order. protected: ids.

    What is not valid or removed already is never among them: there is nothing published to remove.
    """
    there = [c for c in found if checkpoints.usable(c)]
    if not rule or not there:
        return []
    kept = {max(there, key=checkpoints.order).id, *protected}
    if rule.keep_last is not None:
        kept.update(c.id for c in sorted(there, key=checkpoints.order)[-rule.keep_last :])
    if rule.keep_best is not None:
        kept.update(c.id for c in _best(there, rule.keep_best))
        # of one that does not tell the metric nobody can say that it is not among the best
        kept.update(c.id for c in there if rule.keep_best.metric not in c.metrics)
    if rule.keep_every is not None:
        kept.update(c.id for c in there if _is_multiple(c, rule.keep_every))
    return [c for c in there if c.id not in kept]


def _best(found: Sequence[Checkpoint], rule: Best) -> list[Checkpoint]:
    """The later one of two alike: it has been trained for longer."""
    sign = 1 if rule.mode == "max" else -1
    scored = [(sign * value, checkpoints.order(c), c) for c in found if (value := _value(c, rule.metric)) is not None]
    return [c for _, _, c in sorted(scored, key=lambda s: s[:2], reverse=True)[: rule.n]]


def _value(found: Checkpoint, metric: str) -> float | None:
    value = found.metrics.get(metric)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def _is_multiple(found: Checkpoint, every: int) -> bool:
    """One that tells no position is kept: nobody can say that it is between two multiples."""
    position = found.step if found.step is not None else found.epoch
    return position is None or position % every == 0
