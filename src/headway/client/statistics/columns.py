"""What a column of a table holds, told value by value."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from headway.client.statistics.texts import Lengths

#: what stands for no value in CSV, in any case of letters
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none"})
#: columns that are taken for classes, in any case of letters
_LABELS = frozenset(
    {"label", "labels", "label_id", "class", "classes", "class_id", "target", "y", "category", "category_id"}
)
#: different values of such a column that are counted; one with more is no class
_VALUES = 1000
#: numbers from here on, and infinite ones, count as numbers alone: their sum would be none
_MOST = 1e300
_BOOLEANS = frozenset({"true", "false"})
#: characters of the longest word of both
_WORD = 5
_NUMERIC = frozenset("0123456789+-.")
_INT = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,400})")
_FLOAT = re.compile(r"[+-]?(?:[0-9]{1,400}[.][0-9]*|[.][0-9]+|[0-9]{1,400}(?=[eE]))(?:[eE][+-]?[0-9]{1,5})?")
#: what values are called
_TYPES: dict[type, str] = {
    bool: "bool",
    int: "int",
    float: "float",
    str: "text",
    dict: "object",
    list: "list",
    bytes: "bytes",
}


def is_label(name: str) -> bool:
    return name.casefold() in _LABELS


def read_cell(text: str) -> Any:
    """A CSV cell as the value that it is meant as: None, bool, int, float or str. 007 is a name."""
    plain = text.strip()
    if plain[:1] in _NUMERIC:
        if _INT.fullmatch(plain):
            return int(plain)
        if _FLOAT.fullmatch(plain):
            return float(plain)
    if len(plain) <= _WORD:
        folded = plain.casefold()
        if folded in MISSING:
            return None
        if folded in _BOOLEANS:
            return folded == "true"
    return text


class Column:
    def __init__(self, name: str) -> None:
        self.name = name
        self.types = Counter[str]()
        self.missing = 0
        self.values: Counter[Any] | None = Counter() if is_label(name) else None
        self._numbers = 0
        self._low: float | None = None
        self._high: float | None = None
        self._sum = 0.0
        self._characters = Lengths()

    def add(self, value: Any) -> None:
        # a number that is none, as Parquet and JSON may hold it
        if value is None or value != value:
            self.missing += 1
            return
        kind = _TYPES.get(type(value)) or type(value).__name__
        self.types[kind] += 1
        if kind in ("int", "float") and -_MOST < value < _MOST:
            self._numbers += 1
            self._sum += value
            self._low = value if self._low is None else min(self._low, value)
            self._high = value if self._high is None else max(self._high, value)
        elif kind == "text":
            self._characters.add(len(value))
        if self.values is not None:
            self.values = self._counted(self.values, value, kind)

    def _counted(self, values: Counter[Any], value: Any, kind: str) -> Counter[Any] | None:
        """None: these are no classes."""
        if kind not in ("int", "text", "bool"):
            return None
        values[value] += 1
        return values if len(values) <= _VALUES else None

    def view(self) -> dict[str, Any]:
        """{"name", "type", "missing"}, "min", "max", "mean" of numbers, "characters" of texts.

        type: int, float, bool, text, list, object, bytes, "mixed", or "empty" where no row has a value. int and float
        together are float.
        """
        found: dict[str, Any] = {"name": self.name, "type": self.type, "missing": self.missing}
        if self.type == "mixed":
            found["types"] = dict(self.types)
        if self._numbers and self.type in ("int", "float"):
            found |= {"min": self._low, "max": self._high, "mean": self._sum / self._numbers}
        if self.type == "text":
            found["characters"] = self._characters.view()
        return found

    @property
    def type(self) -> str:
        kinds = set(self.types)
        if kinds == {"int", "float"}:
            return "float"
        if len(kinds) > 1:
            return "mixed"
        return next(iter(kinds), "empty")
