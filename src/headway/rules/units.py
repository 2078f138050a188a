"""Sizes (`24GiB`), durations (`90m`) and ranges (`1..4`) as people write them, and back."""

from __future__ import annotations

import re

from headway.errors import UsageError

_SIZES = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
    "k": 2**10,
    "m": 2**20,
    "g": 2**30,
    "t": 2**40,
}
_DURATIONS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER_UNIT = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*$")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")


def parse_size(text: str | int, where: str = "") -> int:
    """Bytes of `24GiB`, `500MB`, `1024` (bytes). Raises UsageError naming the value and `where`."""
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    match = _NUMBER_UNIT.match(str(text))
    if match and match[2].lower() in _SIZES:
        return int(float(match[1]) * _SIZES[match[2].lower()])
    raise _wrong(where, f"{text!r} is not a size.", "Write a number and a unit, such as 24GiB or 500MB.")


def parse_duration(text: str | float | int, where: str = "") -> float:
    """Seconds of `90m`, `1h30m`, `45s`, `2d`; a bare number is refused, so that minutes are never taken for seconds.

    Raises UsageError naming the value and `where`.
    """
    compact = str(text).replace(" ", "")
    parts = _DURATION_PART.findall(compact)
    if parts and "".join(number + unit for number, unit in parts) == compact:
        seconds = sum(float(number) * _DURATIONS[unit] for number, unit in parts)
        if seconds > 0:
            return seconds
    raise _wrong(where, f"{text!r} is not a duration.", "Write a number and a unit, such as 45s, 90m, 2h or 1d.")


def parse_range(text: str | int, where: str = "") -> tuple[int, int]:
    """Lowest and highest of `1..4` (both inclusive), or `3` for 3..3. Raises UsageError."""
    match = re.match(r"^\s*(\d+)\s*(?:\.\.\s*(\d+)\s*)?$", str(text))
    if match:
        low, high = int(match[1]), int(match[2] or match[1])
        if low <= high:
            return low, high
    raise _wrong(where, f"{text!r} is not a range.", "Write the lowest and the highest, such as 1..4.")


def _wrong(where: str, message: str, remedy: str) -> UsageError:
    return UsageError(f"{where}: {message}" if where else message, remedy, code="wrong_unit")


def render_size(count: int) -> str:
    """`1536` -> `1.5 KiB`."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def render_duration(seconds: float) -> str:
    """`5400` -> `1h30m`; under a minute with one decimal: `4.2s`."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    total = round(seconds)
    days, rest = divmod(total, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, secs = divmod(rest, 60)
    words = [f"{n}{u}" for n, u in ((days, "d"), (hours, "h"), (minutes, "m"), (secs, "s")) if n]
    return "".join(words[:2])
