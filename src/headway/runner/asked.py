"""What others ask of an attempt that runs, read from its folder: to end, to give way to a later one, other limits."""

from __future__ import annotations

import os

from headway.protocol import layout
from headway.protocol.causes import Cause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def later(folder: str) -> int:
    """Number of the attempt that has taken over; 0 when none has."""
    try:
        with open(os.path.join(folder, layout.FENCE), encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0


def to_end(folder: str, grace: float, *, signalled: bool) -> tuple[Cause, str, float] | None:
    """(cause, message, grace period) of stop.json; None when nobody asks.

    grace: where none is given. signalled: a signal came, which asks by itself, whatever stop.json says.
    """
    asked = _read(folder, layout.STOP)
    if asked is None:
        if not signalled:
            return None
        asked = {}
    given = asked.get("grace")
    try:
        cause = Cause(asked.get("cause"))
    except ValueError:
        cause = Cause.STOPPED
    seconds = float(given) if isinstance(given, (int, float)) else grace
    return cause, str(asked.get("message") or "asked to stop."), seconds


def amended(folder: str) -> dict[str, Any] | None:
    """What was changed of the attempt while it runs."""
    return _read(folder, layout.AMENDED)


def _read(folder: str, name: str) -> dict[str, Any] | None:
    try:
        found = layout.read_json(os.path.join(folder, name))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
