"""A small chart of plain characters."""

from __future__ import annotations

import math
from collections.abc import Sequence


def chart(points: Sequence[tuple[float, float]], width: int = 72, height: int = 12) -> list[str]:
    """Lines that show `points` (x, y): a mark where any point lies, the ends of both axes in numbers.

    Values that are not finite are left out; without any other there are no lines.
    """
    seen = [(x, y) for x, y in points if math.isfinite(y)]
    if not seen:
        return []
    left, right = min(x for x, _ in seen), max(x for x, _ in seen)
    low, high = min(y for _, y in seen), max(y for _, y in seen)
    rows = [[" "] * width for _ in range(height)]
    for x, y in seen:
        column = round((x - left) / ((right - left) or 1) * (width - 1))
        row = round((y - low) / ((high - low) or 1) * (height - 1))
        rows[height - 1 - row][column] = "*"
    top, bottom = f"{high:.4g}", f"{low:.4g}"
    margin = max(len(top), len(bottom))
    labels = [top, *[""] * (height - 2), bottom]
    lines = [f"{label:>{margin}} |{''.join(row).rstrip()}" for label, row in zip(labels, rows, strict=True)]
    ends = f"{left:g}", f"{right:g}"
    lines.append(f"{'':>{margin}} +{'-' * width}")
    lines.append(f"{'':>{margin}}  {ends[0]}{ends[1]:>{max(1, width - len(ends[0]))}}")
    return lines
