"""What an attempt costs: every second of it at its spec's price."""

from __future__ import annotations

_HOUR = 3600.0


def amount(seconds: float, price_hour: int) -> int:
    """Micros for `seconds` at `price_hour` micros an hour, rounded to the nearest micro; never below zero.

    What ran at a price costs one micro at least: a short run is on the bill too.
    """
    least = 1 if seconds > 0 and price_hour > 0 else 0
    return max(least, round(seconds * price_hour / _HOUR))


def seconds(started: float, ended: float) -> float:
    """Billed seconds between two moments; none when a clock went back."""
    return max(0.0, ended - started)
