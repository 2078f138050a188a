"""A project's storage quota: exact over processes and over kills.

`quota.json` holds the limits, `data.json` what the project's datasets take of them (both written by the api, out of
the record), and `usage.json` what its outputs use and are about to use:

    {"bytes": int, "files": int, "pending": {TARGET: {"bytes", "files", "old": [bytes, files, inode] | null,
                                                      "owners": [{"pid", "started", "boot", "host", "at"}]}}}

They lie in the project's folder; usage and data are changed under a lock (flock of `usage.lock`). A publisher reserves
before it renames. Whoever takes the lock next settles: a pending target that is there counts as used, at the size that
it really has, whether its publisher lived to say so or not; one that is missing and whose owners are dead is dropped.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from headway.protocol import identity
from headway.protocol.files import read_json, write_json
from headway.rules import outputkinds
from headway.storage.full import TargetFullError, full_of

#: a reservation of another machine, whose processes cannot be seen from here, is dropped after so many seconds
FOREIGN_SECONDS = 900.0
#: the file in a published folder that tells what was published
MANIFEST = outputkinds.MANIFEST

Usage = tuple[int, int]
_Limits = tuple[int | None, int | None]


class ProjectQuota:
    """The quota of the project whose outputs lie under `folder`. Cheap to make; holds nothing open."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self._usage = self.folder / "usage.json"
        self._limits = self.folder / "quota.json"
        self._data = self.folder / "data.json"

    def limits(self) -> tuple[int | None, int | None]:
        """(bytes, files) that may be used; None: no limit. Read anew each time."""
        raw = read_json(self._limits) or {}
        return raw.get("bytes"), raw.get("files")

    def set_limits(self, bytes: int | None, files: int | None) -> None:
        """Raises OSError when the file cannot be written; the limits are then as before."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self._limits, {"bytes": bytes, "files": files})

    def data(self) -> Usage:
        """(bytes, files) that the project's datasets take in its store, as the api last wrote it."""
        raw = read_json(self._data) or {}
        return raw.get("bytes", 0), raw.get("files", 0)

    def set_data(self, count: Callable[[], Usage]) -> None:
        """Writes what `count` says down; of several who do so at once the one who counts last also writes last.

        Raises OSError when the file cannot be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._locked(write=True):
            size, files = count()
            write_json(self._data, {"bytes": size, "files": files})

    def usage(self) -> Usage:
        """(bytes, files) that published outputs take now; what is only reserved does not count."""
        if not self.folder.is_dir():
            return 0, 0
        with self._locked(write=False) as state:
            return state["bytes"], state["files"]

    def check(self, bytes: int = 0, files: int = 0) -> Usage:
        """Usage, when so much more (at least one byte and one file) would fit now beside what others have reserved.

        Raises TargetFullError as `reserve` does; nothing is reserved.
        """
        with full_of(self.folder):
            if not self.folder.is_dir():
                return 0, 0
            return self._checked(bytes, files)

    def _checked(self, bytes: int, files: int) -> Usage:
        with self._locked(write=False) as state:
            self._fit(state, max(bytes, 1), max(files, 1), self.limits(), None, None)
            return state["bytes"], state["files"]

    @contextlib.contextmanager
    def reserve(self, target: Path, bytes: int, files: int) -> Iterator[None]:
        """Inside, so much may be published at `target`; afterwards it counts as used if `target` is there.

        A target that is there already is being replaced: its own size is given back. Raises TargetFullError: over_quota
        when it does not fit (`figures["waiting"]` true: only because of what others have reserved), or another cause
        when usage.json cannot be written.
        """
        with self.reserve_group([(target, bytes, files)]):
            yield

    @contextlib.contextmanager
    def reserve_group(self, wanted: Sequence[tuple[Path, int, int]]) -> Iterator[tuple[int, TargetFullError | None]]:
        """`reserve` for several (target, bytes, files) at the price of one.

        Tells how many of them fit, from the first on, and what hinders the next one. Raises as `reserve` does, and
        over_quota only where not even the first one fits.
        """
        with full_of(self.folder):
            mine = _owner()
        keys = [os.path.relpath(target, self.folder) for target, _, _ in wanted]
        taken, hinders = 0, None
        with full_of(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._locked(write=True) as state:
                limits = self.limits()
                for key, (target, size, files) in zip(keys, wanted, strict=True):
                    try:
                        self._take(state, key, target, (size, files), limits, mine)
                    except TargetFullError as full:
                        if not taken:
                            raise
                        hinders = full
                        break
                    taken += 1
        try:
            yield taken, hinders
        finally:
            # where this cannot be written the entries stay, and are settled by whoever comes next
            with contextlib.suppress(OSError), self._locked(write=True) as state:
                for key in keys[:taken]:
                    if found := state["pending"].get(key):
                        found["owners"] = [o for o in found["owners"] if o != mine]
                self._settle(state)

    def covers(self, target: Path) -> bool:
        """Whether what is published at `target` counts here: only what lies in the project's folder does."""
        return Path(target).is_relative_to(self.folder)

    def release(self, target: Path) -> None:
        """Gives back what `target` takes; call it before `target` is removed."""
        size, files = measure(target)
        with self._locked(write=True) as state:
            state["bytes"] = max(0, state["bytes"] - size)
            state["files"] = max(0, state["files"] - files)

    def recount(self) -> Usage:
        """Counts what is there: cells of evaluations and checkpoints of jobs. Also done when usage.json is lost."""
        with self._locked(write=True) as state:
            state["bytes"], state["files"] = self._count()
            return state["bytes"], state["files"]

    # -- inside

    @contextlib.contextmanager
    def _locked(self, *, write: bool) -> Iterator[dict[str, Any]]:
        """The settled state under the lock; written back when it changed. write: raises OSError when it cannot be."""
        try:
            fd = os.open(self.folder / "usage.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            if write:
                raise
            fd = -1  # a reader may look where it may not write
        try:
            if fd >= 0:
                fcntl.flock(fd, fcntl.LOCK_EX)
            state = self._load()
            before = json.dumps(state, sort_keys=True)
            self._settle(state)
            yield state
            if fd >= 0 and (json.dumps(state, sort_keys=True) != before or (write and not self._usage.exists())):
                # a reader writes down what it settled, where it can
                with contextlib.nullcontext() if write else contextlib.suppress(OSError):
                    write_json(self._usage, state)
        finally:
            if fd >= 0:
                os.close(fd)

    def _take(
        self, state: dict[str, Any], key: str, target: Path, size: Usage, limits: _Limits, owner: dict[str, Any]
    ) -> None:
        entry = state["pending"].get(key) or {"bytes": 0, "files": 0, "old": _old(target), "owners": []}
        self._fit(state, *size, limits, key, entry["old"])
        state["pending"][key] = {
            "bytes": max(size[0], entry["bytes"]),
            "files": max(size[1], entry["files"]),
            "old": entry["old"],
            "owners": [*entry["owners"], owner],
        }

    def _load(self) -> dict[str, Any]:
        try:
            raw = read_json(self._usage)
            if raw is not None:
                return {"bytes": int(raw["bytes"]), "files": int(raw["files"]), "pending": dict(raw["pending"])}
        except (ValueError, KeyError, TypeError):
            pass
        size, files = self._count()
        return {"bytes": size, "files": files, "pending": {}}

    def _count(self) -> Usage:
        found = [p for p in self.folder.glob("jobs/*/checkpoints/*") if not p.name.startswith(".")]
        for outputs in self.folder.glob("evaluations/*/outputs"):
            found += _published(outputs)
        sizes = [measure(path) for path in found]
        return sum(s for s, _ in sizes), sum(f for _, f in sizes)

    def _settle(self, state: dict[str, Any]) -> None:
        for key, entry in list(state["pending"].items()):
            target = self.folder / key
            old = entry["old"] or [0, 0, None]
            try:
                inode = _inode(target)
                size, files = _measured(target) if inode is not None and inode != old[2] else (0, 0)
            except OSError:
                continue  # what cannot be looked at is settled another time
            if inode is None or inode == old[2]:
                if any(_lives(o) for o in entry["owners"]):
                    continue
                # what was to be replaced is there still, or was set aside just before its publisher died
                size, files = (old[0], old[1]) if inode is not None else (0, 0)
            state["bytes"] = max(0, state["bytes"] + size - old[0])
            state["files"] = max(0, state["files"] + files - old[1])
            del state["pending"][key]

    def _fit(
        self,
        state: dict[str, Any],
        bytes: int,
        files: int,
        allowed: _Limits,
        key: str | None,
        old: list[Any] | None,
    ) -> None:
        if allowed == (None, None):
            return
        others = [e for k, e in state["pending"].items() if k != key]
        limits = dict(zip(("bytes", "files"), allowed, strict=True))
        data_bytes, data_files = self.data()
        figures = {
            "limit_bytes": limits["bytes"],
            "limit_files": limits["files"],
            "used_bytes": state["bytes"] + data_bytes,
            "used_files": state["files"] + data_files,
            "data_bytes": data_bytes,
            "data_files": data_files,
            "reserved_bytes": sum(e["bytes"] - (e["old"][0] if e["old"] else 0) for e in others),
            "reserved_files": sum(e["files"] - (e["old"][1] if e["old"] else 0) for e in others),
            "needed_bytes": bytes - (old[0] if old else 0),
            "needed_files": files - (old[1] if old else 0),
        }
        for what in ("files", "bytes"):
            limit, used, data = limits[what], figures[f"used_{what}"], figures[f"data_{what}"]
            reserved, needed = figures[f"reserved_{what}"], figures[f"needed_{what}"]
            # what makes things no worse is let through: a damaged output is repaired over the limit too
            if limit is not None and needed > 0 and used + reserved + needed > limit:
                raise TargetFullError(
                    "over_quota",
                    self.folder,
                    f"Project {self.folder.name} may have {limit} {what}: {used} are used"
                    f"{f' ({data} by datasets)' if data else ''}, {needed} more are needed.",
                    f"Raise it (`headway project quota {self.folder.name}` with --{what}) or remove outputs"
                    f"{' or datasets' if data else ''}; work goes on by itself.",
                    {**figures, "waiting": used + needed <= limit},
                )


def measure(target: Path) -> Usage:
    """(bytes, files) of a published file, or of a published folder: what its manifest says, and the manifest."""
    try:
        return _measured(target)
    except OSError:
        return 0, 0


def _measured(target: Path) -> Usage:
    """Raises OSError."""
    if not target.is_dir():
        return target.stat().st_size, 1
    try:
        raw = (target / MANIFEST).read_bytes()
        listed = [int(f["bytes"]) for f in json.loads(raw)["files"]]
        return sum(listed) + len(raw), len(listed) + 1
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        sizes = [p.stat().st_size for p in target.rglob("*") if p.is_file()]
        return sum(sizes), len(sizes)


def _published(folder: Path) -> Iterator[Path]:
    """The published folders below, at whatever depth; what is hidden is nobody's yet."""
    for at, folders, files in os.walk(folder):
        if MANIFEST in files and at != str(folder):
            yield Path(at)
            folders.clear()
        folders[:] = [name for name in folders if not name.startswith(".")]


def _inode(target: Path) -> int | None:
    """None: nothing is there. Raises OSError where that cannot be told."""
    try:
        return os.lstat(target).st_ino
    except (FileNotFoundError, NotADirectoryError):
        return None


def _old(target: Path) -> list[Any] | None:
    inode = _inode(target)
    return None if inode is None else [*_measured(target), inode]


def _owner() -> dict[str, Any]:
    """This publication of this process."""
    who = identity.own().to_json()
    return {**who, "host": socket.gethostname(), "at": time.time(), "turn": os.urandom(4).hex()}


def _lives(owner: dict[str, Any]) -> bool:
    """Whether the owner may still publish. Processes of another machine cannot be looked up from here."""
    if owner.get("host") == socket.gethostname():
        return identity.alive(identity.Identity.from_json(owner))
    # one of a time to come was made before a clock was set back
    return abs(time.time() - float(owner.get("at", 0))) < FOREIGN_SECONDS
