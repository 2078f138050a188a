"""Pins: which units the live runs of a node use. What is pinned is not evicted."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from headway.protocol import identity
from headway.protocol.files import write_json


class Pin:
    """One run's, of one of its helpers on a node. Locked until it is let go or the process ends.

    While the helper is away the runner speaks for it: a helper that was killed comes back.
    """

    def __init__(self, cache: Path, name: str, runner: identity.Identity | None = None) -> None:
        """name: "<attempt>.<node>". Waits for a helper of the same name to end. Raises OSError."""
        folder = cache / "pins"
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self._note = folder / f"{name}.json"
        self._lock = folder / f"{name}.lock"
        self._runner = runner
        self.units: set[str] = set()
        self._fd = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def add(self, units: Iterable[str]) -> None:
        """Under the cache's lock. Raises OSError."""
        self.units.update(units)
        self._write()

    def drop(self, units: Iterable[str]) -> None:
        self.units.difference_update(units)
        self._write()

    def _write(self) -> None:
        runner = self._runner.to_json() if self._runner else None
        write_json(self._note, {"units": sorted(self.units), "runner": runner})

    def let_go(self) -> None:
        """The run has ended."""
        self._note.unlink(missing_ok=True)
        self._lock.unlink(missing_ok=True)
        os.close(self._fd)


def names(cache: Path) -> list[str]:
    try:
        return sorted(n.removesuffix(".lock") for n in os.listdir(cache / "pins") if n.endswith(".lock"))
    except FileNotFoundError:
        return []


def live(cache: Path, name: str) -> bool:
    """Whether a helper holds the pin, or the runner is there that will start one again."""
    with contextlib.suppress(FileNotFoundError):
        fd = os.open(cache / "pins" / f"{name}.lock", os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
    runner = _read(cache, name).get("runner")
    return isinstance(runner, dict) and identity.alive(identity.Identity.from_json(runner))


def pinned(cache: Path) -> set[str]:
    """The units of all live pins."""
    found: set[str] = set()
    for name in names(cache):
        if live(cache, name):
            found.update(_read(cache, name).get("units") or ())
    return found


def dead(cache: Path) -> Iterator[str]:
    """Pins that nobody will come back for."""
    return (name for name in names(cache) if not live(cache, name))


def forget(cache: Path, name: str) -> None:
    for suffix in ("json", "lock"):
        (cache / "pins" / f"{name}.{suffix}").unlink(missing_ok=True)


def _read(cache: Path, name: str) -> dict[str, Any]:
    try:
        found = json.loads((cache / "pins" / f"{name}.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
