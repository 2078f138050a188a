"""Metric points from what a script prints: `loss=0.12`, `accuracy: 0.95`, `epoch 3/25`, JSON lines, own patterns."""

from __future__ import annotations

import json
import math
import re
from typing import Any

_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf)"
_PAIR = re.compile(rf"([A-Za-z_][A-Za-z0-9_./-]*)\s*[=:]\s*({_NUMBER})(?![\w.:/-])")
_POSITION = re.compile(r"\b(epoch|step|iter|iteration)\s*[=: ]\s*\[?(\d+)", re.IGNORECASE)
_STEPS = ("step", "global_step", "iteration", "iter", "epoch")


class MetricReader:
    """Reads lines in turn; remembers the last step for lines that name none."""

    def __init__(self, patterns: list[dict[str, str]]) -> None:
        """patterns: `{"name", "regex"}` with one group; `Name` and `Regex` do as well. Raises re.error on a bad one."""
        self._own = [(p.get("name") or p["Name"], re.compile(p.get("regex") or p["Regex"])) for p in patterns]
        self._step = 0

    def read(self, line: str) -> list[tuple[int, str, float]]:
        """(step, name, value) of each number that the line reports."""
        if not any(c.isdigit() for c in line):
            return []
        values = self._json(line) if line.lstrip().startswith("{") else self._pairs(line)
        for name, pattern in self._own:
            if found := pattern.search(line):
                try:
                    values[name] = float(found.group(1))
                except (ValueError, IndexError):
                    continue
        for key in _STEPS:
            if key in values:
                self._step = int(values.pop(key)) if math.isfinite(values[key]) else self._step
                for other in _STEPS:
                    values.pop(other, None)
                break
        return [(self._step, name, value) for name, value in values.items()]

    @staticmethod
    def _json(line: str) -> dict[str, float]:
        try:
            raw: Any = json.loads(line)
        except ValueError:
            return {}
        if not isinstance(raw, dict):
            return {}
        return {k: float(v) for k, v in raw.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}

    @staticmethod
    def _pairs(line: str) -> dict[str, float]:
        values = {name: float(value) for name, value in _PAIR.findall(line)}
        for name, value in _POSITION.findall(line):
            values.setdefault(name.lower(), float(value))
        return values
