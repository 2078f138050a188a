"""Failures that are alike, in one group. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.rules.alike import alike

#: cells named as examples of a group, those of different checkpoints first
MOST_CELLS = 20


def groups(cells: Sequence[Sequence[Any]], rows: Sequence[str], columns: Sequence[str]) -> list[dict[str, Any]]:
    """The drawing's invalid cells by cause and what is alike in their sentences, the largest group first.

    rows and columns: names. Each group is {"cause", "reason" (its first cell's), "count", "rows", "columns" (how many
    it is met in), "cells" (ids)}.
    """
    found: dict[tuple[str, str], list[Sequence[Any]]] = {}
    for cell in cells:
        if cell[3] == "invalid":
            said = alike(cell[5], (rows[cell[0]], columns[cell[1]]))
            found.setdefault((cell[6], said), []).append(cell)
    ordered = sorted(found.values(), key=lambda group: (-len(group), group[0][6], group[0][5]))
    return [_group(group) for group in ordered]


def _group(cells: Sequence[Sequence[Any]]) -> dict[str, Any]:
    of_rows: dict[int, list[int]] = {}
    for cell in cells:
        of_rows.setdefault(cell[0], []).append(cell[2])
    firsts = [ids[0] for ids in of_rows.values()]
    others = [cell[2] for cell in cells if cell[2] not in set(firsts)] if len(firsts) < MOST_CELLS else []
    return {
        "cause": cells[0][6], "reason": cells[0][5], "count": len(cells), "rows": len(of_rows),
        "columns": len({cell[1] for cell in cells}), "cells": [*firsts, *others][:MOST_CELLS],
    }  # fmt: skip
