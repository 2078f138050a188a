"""One mapping of a file, read key by key; every error names the file and the key's path."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from headway.errors import UsageError
from headway.rules.nearest import unknown
from headway.rules.units import parse_duration, parse_size

NAME = re.compile(r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$")
ENTRY = re.compile(r"^[^:]+\.py:[A-Za-z_][A-Za-z0-9_]*$")


class Section:
    """One mapping of the file, read key by key; every error names the file and the key's path."""

    def __init__(self, raw: Any, file: str, path: str, keys: Iterable[str], required: Iterable[str] = ()) -> None:
        """Raises UsageError when `raw` is no mapping, has a key that is not among `keys`, or lacks a required one."""
        self.file, self.path = file, path
        if not isinstance(raw, dict):
            raise UsageError(f"{file}: {path or 'the file'} is {_kind(raw)}, not keys with values.", _like(path))
        self.raw: dict[str, Any] = {k: v for k, v in raw.items() if v is not None}
        known = list(keys)
        for key in raw:
            if key not in known:
                raise unknown("key", f"{path}.{key}" if path else str(key), _with(path, known), file)
        for key in required:
            if key not in self.raw:
                raise UsageError(f"{file}: {path} has no {key}.", f"Add {path}.{key}.", code="missing_key")

    def where(self, key: str) -> str:
        return f"{self.file}: {self.path}.{key}" if self.path else f"{self.file}: {key}"

    def wrong(self, key: str, should: str) -> UsageError:
        return UsageError(f"{self.where(key)} is {self.raw[key]!r}.", f"It should be {should}.")

    def text(self, key: str, default: str = "") -> str:
        value = self.raw.get(key, default)
        if not isinstance(value, str):
            raise self.wrong(key, "text")
        return value

    def name(self, key: str, default: str = "") -> str:
        value = self.text(key, default)
        if not NAME.match(value):
            raise self.wrong(key, "a name of small letters, digits, '.', '_' and '-'")
        return value

    def entry(self, key: str) -> str:
        value = self.text(key)
        if not ENTRY.match(value):
            raise self.wrong(key, "FILE.py:CLASS")
        return value

    def integer(self, key: str, default: int, low: int, high: int) -> int:
        value = self.raw.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.wrong(key, f"a whole number from {low} to {high}")
        return value

    def number(self, key: str) -> float | None:
        value = self.raw.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value <= 0):
            raise self.wrong(key, "a number above 0")
        return value

    def duration(self, key: str, default: float | None = None) -> float | None:
        return parse_duration(self.raw[key], self.where(key)) if key in self.raw else default

    def size(self, key: str) -> int | None:
        return parse_size(self.raw[key], self.where(key)) if key in self.raw else None

    def words(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """One text or a list of them."""
        value = self.raw.get(key, default)
        value = (value,) if isinstance(value, str) else value
        if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
            raise self.wrong(key, "text, or a list of texts")
        return tuple(value)

    def mapping(self, key: str) -> dict[str, Any]:
        value = self.raw.get(key, {})
        if not isinstance(value, dict) or not all(isinstance(k, str) for k in value):
            raise self.wrong(key, "keys with values")
        return value

    def texts(self, key: str) -> dict[str, str]:
        """Keys with plain values, as text: for an environment."""
        found = self.mapping(key)
        for value in found.values():
            if not isinstance(value, str | int | float):
                raise self.wrong(key, "keys with plain values")
        return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in found.items()}


def _kind(raw: object) -> str:
    return "empty" if raw is None else f"a {type(raw).__name__}"


def _like(path: str) -> str:
    return (
        f"Write it like `{path.rsplit('.', 1)[-1]}: {{name: digits}}`." if path else "Write lines like `train: {...}`."
    )


def _with(path: str, keys: list[str]) -> list[str]:
    return [f"{path}.{k}" for k in keys] if path else keys
