"""A cell's scores: the finite numbers among what its score file, its scorer or its command's output told."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.storage.full import full_of
from headway.storage.kinds.base import read_whole


class NoScoreError(Exception):
    """There is no score where one is asked for. Its text is one sentence."""


def scores_of(rule: Mapping[str, Any], out: Path, told: Any) -> dict[str, float]:
    """The scores of the cell whose outputs lie in `out`. told: what its worker told; None: the score file has them.

    Raises NoScoreError where the main score is missing, TargetFullError where nothing can be read there now.
    """
    key = rule.get("score")
    where = "What its scorer returned" if rule.get("scorer") else "What it printed"
    if told is None and rule.get("scores", "file") == "file" and not rule.get("scorer") and rule.get("score_file"):
        where = str(rule["score_file"])
        told = _read(out, where, key is not None)
    if _is_number(told):
        told = {key or "score": told}
    if not isinstance(told, dict | None):
        raise NoScoreError(f"{where} is no JSON object.")
    numbers = {
        str(name).encode(errors="replace").decode(): value for name, value in (told or {}).items() if _is_number(value)
    }
    if key is not None and key not in numbers:
        raise NoScoreError(f"{where} holds no finite number under {key!r}.")
    return numbers


def _read(out: Path, name: str, needed: bool) -> Any:
    try:
        with full_of(out):
            return json.loads(read_whole(out / name))
    except (FileNotFoundError, NotADirectoryError):
        if not needed:
            return {}
        raise NoScoreError(f"{name} was not written.") from None
    except (ValueError, RecursionError) as error:
        if not needed:
            return {}
        raise NoScoreError(f"{name} is not JSON ({error}).") from None
    except OSError as error:
        raise NoScoreError(f"{name} cannot be read ({error.strerror}).") from None


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
