"""Whether a folder is still on the file system that it was on.

One that is unmounted leaves the disk below, which takes writes just as well: without this nobody would notice. What is
mounted again may have another device number (a loop device, a network file system, any after a reboot): it is taken
for the same when it stands where the other one stood and carries the folder. A part of a file system that is mounted
once more (bind) has the device of the whole: the kernel's number of the mount tells it apart.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.protocol import identity
from headway.storage.full import TargetFullError, full_of

#: the cause of the pause
UNMOUNTED = "unmounted"


@dataclass(frozen=True)
class Mount:
    """Where a file system is mounted; device: its number while this machine, in this boot, has it mounted so."""

    place: str
    device: int
    boot: str
    #: of mounts: processes in another one (a container) have others at the same paths
    namespace: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"place": self.place, "device": self.device, "boot": self.boot, "namespace": self.namespace}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Mount:
        """Raises KeyError, TypeError or ValueError."""
        return cls(str(raw["place"]), int(raw["device"]), str(raw["boot"]), str(raw.get("namespace") or ""))


def mount_of(folder: Path) -> Mount:
    """What `folder` is on, or will be once it is made. Raises OSError."""
    place = folder
    while True:
        try:
            seen = _seen(place)
            break
        except FileNotFoundError:
            if place == place.parent:
                raise
            place = place.parent
    place = Path(os.path.realpath(place))
    while place != place.parent and _seen(place.parent) == seen:
        place = place.parent
    return Mount(str(place), seen[0], identity.own().boot, _namespace())


def _seen(path: Path) -> tuple[int, str]:
    """(device, the kernel's number of the mount; "" where it does not tell)."""
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        device = os.fstat(fd).st_dev
        try:
            with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as file:
                return device, next((line[7:].strip() for line in file if line.startswith("mnt_id:")), "")
        except FileNotFoundError:
            return device, ""
    finally:
        os.close(fd)


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/mnt")
    except OSError:
        return ""


def same(known: Mount, now: Mount, *, carried: bool) -> bool:
    """Whether what is there now is what was known. carried: the folder that was on it is there."""
    if known.boot != now.boot:
        # another machine may have it mounted elsewhere
        return known.place == now.place or carried
    if known.namespace != now.namespace:
        return known.device == now.device or carried
    if (known.place, known.device) == (now.place, now.device):
        return True
    return carried and Path(now.place).is_relative_to(known.place)


class Mounted:
    """Looks after one folder. Shared by threads."""

    def __init__(self, folder: Path, known: Mapping[str, Any] | None = None) -> None:
        """known: a Mount from before, as JSON; None: what it is on when it is looked at first counts."""
        self._folder = folder
        self._known = Mount.from_json(known) if known else None
        #: what it was found on here
        self._seen: tuple[int, str] | None = None

    def away(self) -> TargetFullError | None:
        """What `check` raises, if it does."""
        try:
            self.check()
        except TargetFullError as full:
            return full
        return None

    def check(self) -> None:
        """Raises TargetFullError while the folder's file system is away. Costs one look while all is well."""
        with full_of(self._folder, whatever=True):
            try:
                seen = _seen(self._folder)
                if seen == self._seen:
                    return
            except (FileNotFoundError, NotADirectoryError):
                seen = None
            now = mount_of(self._folder)
        if self._known is not None and not same(self._known, now, carried=seen is not None):
            raise _away(self._folder, self._known, now)
        self._known, self._seen = now, seen


def remember(folder: Path) -> Mount:
    """Makes the folder, by which its file system is known again, and says which one that is. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    return mount_of(folder)


def _away(folder: Path, known: Mount, now: Mount) -> TargetFullError:
    if now.place == known.place:
        message = f"What is mounted at {known.place} now has no {folder}: it is not what was mounted there before."
    elif Path(now.place).is_relative_to(known.place):
        message = f"{now.place} was mounted over {folder}, which is not there any more."
    else:
        message = f"{folder} is away: nothing is mounted at {known.place} any more."
    figures = {"mount": known.place, "found": now.place}
    return TargetFullError(UNMOUNTED, folder, message, figures=figures)
