"""Metric points from what a script prints: `loss=0.12`, `accuracy: 0.95`, `epoch 3/25`, JSON lines, own patterns."""

from __future__ import annotations

import json
import math
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf)"
_PAIR = re.compile(rf"([A-Za-z_][A-Za-z0-9_./-]*)\s*[=:]\s*({_NUMBER})(?![\w.:/-])")
#: looked for at the words of `_POSITIONS` alone: a search over the whole line would cost more than all else here
_POSITION = re.compile(r"\s*[=: ]\s*\[?(\d+)")
_POSITIONS = ("epoch", "step", "iteration", "iter")
#: what names the step, the most exact first
_STEPS = ("step", "global_step", "iteration", "iter", "epoch")
#: a line longer than this holds data, not a report
_LONGEST = 4096
#: a block without any of these holds no metric of the built-in forms
_SIGNS = (b"=", b":", b"poch", b"tep", b"ter", b"POCH", b"TEP", b"TER")


class MetricReader:
    """Reads lines in turn; remembers the last step for lines that name none."""

    def __init__(self, patterns: list[dict[str, str]]) -> None:
        """patterns: `{"name", "regex"}` with one group; `Name` and `Regex` do as well. What is none is in `refused`."""
        self._own: list[tuple[str, re.Pattern[str]]] = []
        #: one sentence for each pattern that cannot be used
        self.refused: list[str] = []
        self._step = 0
        for pattern in patterns:
            name, regex = pattern.get("name", pattern.get("Name")), pattern.get("regex", pattern.get("Regex"))
            try:
                compiled = re.compile(regex or "")
            except re.error as error:
                self.refused.append(f"metric pattern {name}: {regex!r} is no regular expression: {error}")
                continue
            if not name or compiled.groups != 1:
                self.refused.append(f"metric pattern {name}: {regex!r} must have exactly one group")
            else:
                self._own.append((name, compiled))

    def read_all(self, lines: list[bytes]) -> list[tuple[int, str, float]]:
        """(step, name, value) of each number that the lines report. A block without a sign of one costs nothing."""
        if not self._own:
            block = b"\n".join(lines)
            if not any(sign in block for sign in _SIGNS):
                return []
        return [point for line in lines if len(line) < _LONGEST for point in self.read(line.decode("utf-8", "replace"))]

    def read(self, line: str) -> list[tuple[int, str, float]]:
        """The same for one line."""
        values = self._json(line) if line.lstrip().startswith("{") else self._pairs(line)
        for name, pattern in self._own:
            if found := pattern.search(line):
                try:
                    values[name] = float(found.group(1))
                except (ValueError, TypeError):
                    continue
        if not values:
            return []
        named = [key for key in _STEPS if key in values]
        if named and math.isfinite(values[named[0]]):
            self._step = int(values[named[0]])
        return [(self._step, name, value) for name, value in values.items() if name not in named]

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
        values = {}
        if "=" in line or ":" in line:
            values = {name: float(value) for name, value in _PAIR.findall(line)}
        lower = line.lower()
        for name in _POSITIONS:
            at = lower.find(name)
            if at < 0 or name in values or (at > 0 and (lower[at - 1].isalnum() or lower[at - 1] == "_")):
                continue
            if found := _POSITION.match(line, at + len(name)):
                values[name] = float(found[1])
        return values
