"""The words and facts of an end: which cause a process's status means, and what exit.json holds."""

from __future__ import annotations

import os
import signal
import time

from headway.protocol.causes import Cause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from headway.runner.gang import Gang

#: less free space than this is a full disk
FULL_BYTES = 64 << 10
#: ends of one node that end its gang at once; of all others every node is told, and has its grace period
FAILURES = (
    Cause.EXIT,
    Cause.KILLED,
    Cause.NOT_STARTED,
    Cause.PREPARE_FAILED,
    Cause.OOM_KILL,
    Cause.RUNNER_LOST,
)


def of_rank(rank: int, status: int) -> tuple[Cause, str]:
    """Of a rank that failed with an exit code, or minus a signal."""
    if status < 0:
        return Cause.KILLED, f"rank {rank} died of {_signal_name(-status)}."
    return Cause.EXIT, f"rank {rank} returned {status}."


def of_gang(gang: Gang, folder: str) -> tuple[Cause, str]:
    """Of processes that all ended by themselves. folder: whose disk may have been too full for them."""
    if gang.failure is None:
        return Cause.DONE, "every process returned 0."
    rank, status = gang.failure
    cause, message = of_rank(rank, status)
    if cause is Cause.EXIT and (words := gang.last_words(rank)):
        message = f"{message[:-1]}: {words}" if words.endswith(".") else f"{message[:-1]}: {words}."
    return cause, message if cause is Cause.KILLED else message + _full(folder)


def facts(gang: Gang | None, started: float, cause: Cause, message: str) -> dict[str, Any]:
    """An `Exit` (`protocol.exits`) as JSON."""
    launched = gang.launched if gang is not None else None
    rank, status = gang.failure if gang is not None and gang.failure is not None else (None, 0)
    return {
        "cause": cause.value,
        "code": None if launched is None else status if status >= 0 else 128 - status,
        "signal": -status if status < 0 else None,
        "rank": rank,
        "message": message,
        "started": started,
        "launched": launched,
        "ended": time.time(),
        "usage": {
            "cpu_seconds": gang.cpu_seconds if gang is not None else 0.0,
            "max_rss_bytes": gang.max_rss_bytes if gang is not None else 0.0,
        },
    }


def _full(folder: str) -> str:
    """A sentence when the disk that the attempt writes to is full: likely why a process failed."""
    disk = os.statvfs(folder)
    if disk.f_bavail * disk.f_frsize < FULL_BYTES:
        return f" No space is left under {folder}."
    if disk.f_files and disk.f_favail == 0:
        return f" No inode is left under {folder}."
    return ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
