"""Metric points from what a script prints: `loss=0.12`, `accuracy: 0.95`, `epoch 3/25`, JSON lines, own patterns.

A line that names no step is at the last one that was named; where none ever was, the values of each metric are counted.
"""

from __future__ import annotations

import json
import re
from math import isfinite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NAME = r"[A-Za-z_][A-Za-z0-9_./-]*"
_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|(?i:nan|inf(?:inity)?))"
#: (name, value, "", "") of a pair, (name, "", position, "") of `epoch 3/25`, the last one of a newline. The name is
#: taken whole or not at all (a look ahead is not gone back into): many lines are one cheap search
_TOKEN = re.compile(
    rf"(?<![A-Za-z0-9_])(?=({_NAME}))\1"
    rf"(?:[ \t]*[=:][ \t]*({_NUMBER})(?![\w:/-]|\.\w)|(?:[ \t]*[=:][ \t]*|[ \t]+)\[?(\d+))|(\n)"
)
#: of what looks like JSON and is none, as a printed dict
_QUOTED = re.compile(rf"""(['"])({_NAME})\1\s*:\s*(['"]?)({_NUMBER})\3\s*[,}}]""")
#: what names the step, the most exact first
_STEPS = ("step", "global_step", "iteration", "iter", "epoch")
_STEP_NAMES = frozenset(form for word in _STEPS for form in (word, word.capitalize(), word.upper()))
#: those of them that may stand without a sign: `epoch 3/25`
_POSITIONS = frozenset(("epoch", "step", "iteration", "iter"))
#: a line longer than this holds data, not a report
_LONGEST = 4096
#: a block without any of these holds no metric of the built-in forms
_SIGNS = (b"=", b":", b"poch", b"tep", b"ter", b"POCH", b"TEP", b"TER")


#: lines that make it worth while to learn their shape
_WORTH = 4
_DIGITS = re.compile(r"(?<![A-Za-z0-9_])[0-9]+")


class _Shape:
    """What lines of a training loop have in common: all but their numbers. Such lines are read much faster."""

    def __init__(self, regex: re.Pattern[str], columns: list[tuple[int, str]], step: int | None) -> None:
        #: one tuple of numbers for each line of this shape
        self.regex = regex
        #: (index in that tuple, name) of each metric; index of the step
        self.columns, self.step = columns, step

    @classmethod
    def of(cls, line: str) -> _Shape | None:
        """line: with its newline. None when it reports nothing, or nothing that is this simple."""
        parts: list[str] = []
        columns: list[tuple[int, str]] = []
        steps: list[tuple[int, str]] = []
        at = 0
        for found in _TOKEN.finditer(line):
            name, group = found[1], 2 if found[2] else 3
            if not name or (group == 3 and name.lower() not in _POSITIONS):
                continue
            start, end = found.span(group)
            is_step = name in _STEP_NAMES
            (steps if is_step else columns).append((len(parts), name))
            parts.append(_literal(line[at:start]) + (r"(\d+)" if is_step else f"({_NUMBER})"))
            at = end
        if not columns or len(parts) == 1 or len(steps) > 1 or len({name for _, name in columns}) < len(columns):
            return None
        regex = re.compile(f"(?m:^){''.join(parts)}{_literal(line[at:])}")
        return cls(regex, columns, steps[0][0] if steps else None) if regex.match(line) else None


def _literal(text: str) -> str:
    return r"\d+".join(re.escape(part) for part in _DIGITS.split(text))


class MetricReader:
    """Reads lines in turn; remembers the last step for lines that name none."""

    def __init__(self, patterns: list[dict[str, str]]) -> None:
        """patterns: `{"name", "regex"}` with one group; `Name` and `Regex` do as well. What is none is in `refused`."""
        self._own: list[tuple[str, re.Pattern[str]]] = []
        #: one sentence for each pattern that cannot be used
        self.refused: list[str] = []
        #: name -> regular expression of own patterns that matched nothing yet
        self.unmatched: dict[str, str] = {}
        self._step: int | None = None
        #: of the last lines
        self._shape: _Shape | None = None
        #: name -> how many values it had while no step was ever named
        self._counts: dict[str, int] = {}
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
                self.unmatched[name] = compiled.pattern

    def read_block(self, block: bytes) -> list[tuple[int, str, float]]:
        """(step, name, value) of each number that whole lines report. A block without a sign of one costs nothing."""
        if not self._own and not any(sign in block for sign in _SIGNS):
            return []
        text = block.decode("utf-8", "replace")
        points: list[tuple[int, str, float]] = []
        lines = text.split("\n")
        if not self._own and "{" not in text and max(map(len, lines)) < _LONGEST:
            self._tokens(text, points)
            return points
        for line in lines:
            if len(line) < _LONGEST:
                self._read(line, points)
        return points

    def _read(self, line: str, points: list[tuple[int, str, float]]) -> None:
        if not self._own and "{" not in line:
            self._tokens(line + "\n", points)
            return
        values = self._json(line) if line.lstrip().startswith("{") else self._pairs(line)
        for name, pattern in self._own:
            if found := pattern.search(line):
                try:
                    values[name] = float(found.group(1))
                except (ValueError, TypeError):
                    continue
                self.unmatched.pop(name, None)
        if values:
            self._add(values, points)

    def _tokens(self, text: str, points: list[tuple[int, str, float]]) -> None:
        """Lines of the forms without braces, all in one search."""
        if self._shape is not None and self._shaped(self._shape, text, points):
            return
        values: dict[str, float] = {}
        for name, value, position, end in _TOKEN.findall(text):
            if value:
                values[name] = float(value)
            elif end:
                if values:
                    self._add(values, points)
                    values = {}
            elif (word := name.lower()) in _POSITIONS:
                values.setdefault(word, float(position))
        if values:
            self._add(values, points)
        if text.count("\n") >= _WORTH:
            self._shape = _Shape.of(text[text.rfind("\n", 0, -1) + 1 :])

    def _shaped(self, shape: _Shape, text: str, points: list[tuple[int, str, float]]) -> bool:
        """The same where every line has that shape; False otherwise, and nothing is added."""
        rows = shape.regex.findall(text)
        if len(rows) != text.count("\n"):
            return False
        step, columns = shape.step, shape.columns
        if step is not None:
            points += [(int(row[step]), name, float(row[n])) for row in rows for n, name in columns]
            self._step = int(rows[-1][step])
        elif self._step is not None:
            at = self._step
            points += [(at, name, float(row[n])) for row in rows for n, name in columns]
        else:
            for row in rows:
                self._add({name: float(row[n]) for n, name in columns}, points)
        return True

    @staticmethod
    def _pairs(line: str) -> dict[str, float]:
        values: dict[str, float] = {}
        for name, value, position, _ in _TOKEN.findall(line):
            if value:
                values[name] = float(value)
            elif (word := name.lower()) in _POSITIONS:
                values.setdefault(word, float(position))
        return values

    @staticmethod
    def _json(line: str) -> dict[str, float]:
        try:
            raw: Any = json.loads(line)
        except (ValueError, RecursionError):
            return {name: float(value) for _, name, _, value in _QUOTED.findall(line)}
        if not isinstance(raw, dict):
            return {}
        return {k: float(v) for k, v in raw.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}

    def _add(self, values: dict[str, float], points: list[tuple[int, str, float]]) -> None:
        """The points of one line."""
        step: int | None = None
        for name in [key for key in values if key in _STEP_NAMES]:
            if name != (word := name.lower()):
                values.setdefault(word, values.pop(name))
        for word in _STEPS if not _STEP_NAMES.isdisjoint(values) else ():
            if word in values:
                value = values[word]
                if word == "epoch" and not value.is_integer():
                    continue  # a fraction of an epoch is no position that points can be told apart by
                if step is None and isfinite(value):
                    step = int(value)
                del values[word]
        if step is not None:
            self._step = step
        if self._step is not None:
            at = self._step
            points += [(at, name, value) for name, value in values.items()]
            return
        for name, value in values.items():
            count = self._counts.get(name, 0)
            self._counts[name] = count + 1
            points.append((count, name, value))
