"""What scores say: means with intervals by bootstrap, the best row, differences between rows, a curve against scores.

A table has one row a checkpoint and one value a case (None where there is none). Cases are drawn again, the same ones
for every row: so a difference between two rows is that of pairs, and what a hard case does to both does not count.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal

Better = Literal["higher", "lower"]
Row = Sequence[float | None]

#: share of the draws that an interval holds
COVERAGE = 0.95
#: draws of cases, at most and at least; large tables get fewer
_MOST, _LEAST = 1000, 200
#: values looked at by all draws together
_WORK = 4_000_000
#: a training curve went on if at least this share of what it gained came after a step
_WENT_ON = 0.1
#: scores got better to the end if they did so for this share of the steps
_LATE = 0.75
#: values of a curve that make one of its heights
_WINDOW = 0.04
_LOWER = ("loss", "error", "perplexity", "ppl", "mse", "mae", "rmse", "fid", "fvd", "wer", "cer", "distance", "nll")
_HIGHER = (
    "acc",
    "accuracy",
    "f1",
    "auc",
    "bleu",
    "rouge",
    "psnr",
    "ssim",
    "reward",
    "precision",
    "recall",
    "score",
    "iou",
)


@dataclass(frozen=True)
class Estimate:
    """A mean and where it lies with 95 % of the draws; low and high are None with fewer than two cases."""

    mean: float
    low: float | None
    high: float | None
    #: cases that it is a mean of
    cases: int

    @property
    def is_clear(self) -> bool:
        """Whether it is told apart from zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    def turned(self) -> Estimate:
        """Of the same values with the other sign."""
        return Estimate(
            -self.mean, None if self.high is None else -self.high, None if self.low is None else -self.low, self.cases
        )


@dataclass(frozen=True)
class Best:
    row: int
    #: rows (by number, with as many cases) whose difference to the best is not told apart from zero
    tied: tuple[int, ...]
    #: whether every row has a value for every case
    is_final: bool


@dataclass(frozen=True)
class Verdict:
    """A training curve against the scores.

    says: "worse": the curve went on to improve while the score fell; "flat": it went on, but the score did not get
    better; "together": both improved to the end; "still": neither did.
    """

    says: Literal["worse", "flat", "together", "still"]
    #: the row since which it is so, and the last
    since: int
    last: int
    #: the curve's heights there
    curve_since: float
    curve_last: float
    #: score of `last` less that of `since`
    difference: Estimate | None


def mean_by_case(values: Sequence[tuple[int, float]], cases: int) -> list[float | None]:
    """A row from (case, value), repeats of a case averaged; values that are not finite are left out."""
    sums, counts = [0.0] * cases, [0] * cases
    for case, value in values:
        if math.isfinite(value):
            sums[case] += value
            counts[case] += 1
    return [s / n if n else None for s, n in zip(sums, counts, strict=True)]


class Scores:
    """The rows of one score and the draws of their cases; equal tables and seeds give equal figures."""

    def __init__(self, rows: Sequence[Row], *, better: Better = "higher", seed: int = 0) -> None:
        """Raises ValueError when the rows are not equally long."""
        self._rows = [list(row) for row in rows]
        self._cases = len(self._rows[0]) if self._rows else 0
        if any(len(row) != self._cases for row in self._rows):
            raise ValueError("rows of a table have one value a case")
        self._sign = 1 if better == "higher" else -1
        size = max(1, len(self._rows) * self._cases)
        chance = random.Random(seed)
        places = range(self._cases)
        times = min(_MOST, max(_LEAST, _WORK // size))
        draws = [chance.choices(places, k=self._cases) for _ in range(times)] if self._cases > 1 else []
        self._draws: list[Callable[[Row], tuple[float | None, ...]]] = [itemgetter(*draw) for draw in draws]
        self._known: dict[tuple[int, int], Estimate | None] = {}

    def estimate(self, row: int) -> Estimate | None:
        """The mean of a row; None without a value."""
        if (row, -1) not in self._known:
            self._known[row, -1] = self._of(self._rows[row])
        return self._known[row, -1]

    def difference(self, row: int, other: int) -> Estimate | None:
        """`other` less `row`, over the cases that both have; None without one."""
        if (back := self._known.get((other, row))) is not None and row != other:
            return back.turned()
        if (row, other) not in self._known:
            pairs = zip(self._rows[row], self._rows[other], strict=True)
            self._known[row, other] = self._of([None if a is None or b is None else b - a for a, b in pairs])
        return self._known[row, other]

    def best(self) -> Best | None:
        """The row with the best mean among those with the most cases (a row that has only the easy cases must not win);
        None without a value. Of equal ones the first."""
        counts = [sum(v is not None for v in row) for row in self._rows]
        most = max(counts, default=0)
        if not most:
            return None
        full = [row for row, count in enumerate(counts) if count == most]
        best = max(full, key=lambda row: (self.goodness(row), -row))
        tied = [r for r in full if r != best and (d := self.difference(best, r)) is not None and not d.is_clear]
        return Best(best, tuple(tied), all(count == self._cases for count in counts))

    def goodness(self, row: int) -> float:
        """A row's mean with a sign that makes more better. Raises ValueError without a value."""
        estimate = self.estimate(row)
        if estimate is None:
            raise ValueError(f"row {row} has no value")
        return self._sign * estimate.mean

    def _of(self, row: Row) -> Estimate | None:
        values = [v for v in row if v is not None]
        if not values:
            return None
        mean = math.fsum(values) / len(values)
        if len(values) < 2:
            return Estimate(mean, None, None, len(values))
        means = sorted(self._drawn(row, whole=len(values) == len(row)))
        edge = (1 - COVERAGE) / 2
        return Estimate(mean, _quantile(means, edge), _quantile(means, 1 - edge), len(values))

    def _drawn(self, row: Row, *, whole: bool) -> list[float]:
        if whole:
            return [sum(draw(row)) / self._cases for draw in self._draws]  # type: ignore[arg-type]
        found = ([v for v in draw(row) if v is not None] for draw in self._draws)
        return [sum(values) / len(values) for values in found if values]


def direction(name: str) -> Better | None:
    """What is better of a metric or score with this name; None where its name does not say."""
    words = "".join(c if c.isalnum() else " " for c in name.lower()).split()
    for word in reversed(words):
        if word in _LOWER or word.endswith("loss"):
            return "lower"
        if word in _HIGHER:
            return "higher"
    return None


def verdict(
    scores: Scores, steps: Mapping[int, float], curve: Sequence[tuple[float, float]], better: Better
) -> Verdict | None:
    """What a training curve (step, value) says against the scores.

    steps: the step of each row that has one. better: of the curve. None with fewer than three rows that have a step and
    a score, or with a curve that does not reach over two of them.
    """
    seen = sorted((step, row) for row, step in steps.items() if scores.estimate(row) is not None)
    points = sorted((x, y) for x, y in curve if math.isfinite(y))
    heights = {row: h for step, row in seen if (h := _height(points, step)) is not None}
    rows = [row for _, row in seen if row in heights]
    if len(rows) < 3:
        return None
    sign = 1 if better == "higher" else -1
    last = rows[-1]
    gained = sign * (heights[last] - heights[rows[0]])
    top = max(rows, key=lambda row: (scores.goodness(row), -rows.index(row)))

    def went_on(row: int) -> bool:
        return gained > 0 and sign * (heights[last] - heights[row]) >= _WENT_ON * gained

    fall = scores.difference(top, last)
    fell = top != last and fall is not None and fall.is_clear
    # a score that falls is told even where the curve had little left to win
    if fell and sign * (heights[last] - heights[top]) > 0:
        return Verdict("worse", top, last, heights[top], heights[last], fall)
    # the first row that is not told apart from the best: nothing was won since
    first = next(row for row in rows if row == top or not _clear(scores.difference(row, top)))
    if first != last and went_on(first):
        return Verdict("flat", first, last, heights[first], heights[last], scores.difference(first, last))
    late = steps[first] >= steps[rows[0]] + _LATE * (steps[last] - steps[rows[0]])
    says: Literal["together", "still"] = "together" if gained > 0 and late and not fell else "still"
    return Verdict(says, rows[0], last, heights[rows[0]], heights[last], scores.difference(rows[0], last))


def _clear(difference: Estimate | None) -> bool:
    return difference is not None and difference.is_clear


def _height(points: Sequence[tuple[float, float]], step: float) -> float | None:
    """The curve (in order) at a step: the median of the values around it; None beyond its ends."""
    if len(points) < 2:
        return None
    span = points[-1][0] - points[0][0]
    if not points[0][0] - span * _WINDOW <= step <= points[-1][0] + span * _WINDOW:
        return None
    count, at = max(1, round(len(points) * _WINDOW)), bisect_left(points, (step,))
    around = points[max(0, at - count) : at + count]
    near = sorted(around, key=lambda p: abs(p[0] - step))[:count]
    return _quantile(sorted(y for _, y in near), 0.5)


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
