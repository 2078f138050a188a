"""Whether a folder is still on the file system that it was on.

One that is unmounted leaves the disk below, which takes writes just as well: without this nobody would notice. What is
mounted again may have another device number (a loop device, a network file system, any after a reboot): it is taken
for the same when it stands where the other one stood and carries the folder.
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

    def to_json(self) -> dict[str, Any]:
        return {"place": self.place, "device": self.device, "boot": self.boot}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Mount:
        """Raises KeyError, TypeError or ValueError."""
        return cls(str(raw["place"]), int(raw["device"]), str(raw["boot"]))


def mount_of(folder: Path) -> Mount:
    """What `folder` is on, or will be once it is made. Raises OSError.

    Told by device numbers alone: a part of a file system that is mounted inside it (bind) is not told apart.
    """
    place = folder
    while True:
        try:
            device = place.stat().st_dev
            break
        except FileNotFoundError:
            if place == place.parent:
                raise
            place = place.parent
    place = Path(os.path.realpath(place))
    while place != place.parent and place.parent.stat().st_dev == device:
        place = place.parent
    return Mount(str(place), device, identity.own().boot)


def same(known: Mount, now: Mount, *, carried: bool) -> bool:
    """Whether what is there now is what was known. carried: the folder that was on it is there."""
    if known.boot != now.boot:
        # another machine may have it mounted elsewhere
        return known.place == now.place or carried
    return known.device == now.device or (carried and Path(now.place).is_relative_to(known.place))


class Mounted:
    """Looks after one folder. Shared by threads."""

    def __init__(self, folder: Path, known: Mapping[str, Any] | None = None) -> None:
        """known: a Mount from before, as JSON; None: what it is on when it is looked at first counts."""
        self._folder = folder
        self._known = Mount.from_json(known) if known else None
        #: what it was found on here
        self._device: int | None = None

    def away(self) -> TargetFullError | None:
        """What `check` raises, if it does."""
        try:
            self.check()
        except TargetFullError as full:
            return full
        return None

    def check(self) -> None:
        """Raises TargetFullError while the folder's file system is away. Costs one os.stat while all is well."""
        with full_of(self._folder, whatever=True):
            try:
                if os.stat(self._folder).st_dev == self._device:
                    return
                carried = True
            except (FileNotFoundError, NotADirectoryError):
                carried = False
            now = mount_of(self._folder)
        if self._known is not None and not same(self._known, now, carried=carried):
            raise _away(self._folder, self._known, now)
        self._known, self._device = now, now.device


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
