"""A full target: a pause with a named cause, never a failure."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

#: errno -> cause; ENOSPC is told apart by statvfs
_CAUSES = {
    errno.ENOSPC: "no_space",
    errno.EDQUOT: "over_quota",
    errno.EROFS: "read_only",
    errno.EACCES: "no_permission",
    errno.EPERM: "no_permission",
    errno.EIO: "io_error",
}

_SAYS = {
    "no_space": "{path} has no space left ({free} bytes are free).",
    "no_inodes": "{path} has no inodes left.",
    "over_quota": "{path} is over a quota of its file system.",
    "read_only": "{path} is on a file system that is mounted read-only.",
    "no_permission": "{path} may not be written by user {uid}.",
    "io_error": "{path} gives input/output errors.",
}

REMEDIES = {
    "no_space": "Free space on that file system; work goes on by itself.",
    "no_inodes": "Remove files on that file system (bytes are free, inodes are not); work goes on by itself.",
    "over_quota": "Raise the quota or remove outputs; work goes on by itself.",
    "read_only": "Mount the file system writable again; work goes on by itself.",
    "no_permission": "Give headway's user the right to write there; work goes on by itself.",
    "io_error": "Check the disk or the network file system; work goes on by itself when it answers again.",
}


class TargetFullError(Exception):
    """Nothing can be written at `path` now. Not an OSError, so that no broad handler of those swallows it.

    cause: no_space, no_inodes, over_quota, read_only, no_permission or io_error. message and remedy: one sentence each.
    figures: what was measured (free_bytes, free_files, needed_bytes, ...), for the event and for people.
    """

    def __init__(
        self,
        cause: str,
        path: str | os.PathLike[str],
        message: str,
        remedy: str = "",
        figures: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.cause = cause
        self.path = str(path)
        self.message = message
        self.remedy = remedy or REMEDIES[cause]
        self.figures: dict[str, Any] = dict(figures or {})

    def to_json(self) -> dict[str, Any]:
        """The fields of a PAUSED event."""
        return {
            "cause": self.cause,
            "path": self.path,
            "message": self.message,
            "remedy": self.remedy,
            "figures": self.figures,
        }


def free(path: str | os.PathLike[str]) -> tuple[int, int | None]:
    """Free bytes and free inodes (None: the file system does not count them) where `path` is or will be.

    Raises OSError when it cannot be looked at.
    """
    place = Path(path)
    while True:
        try:
            found = os.statvfs(place)
            break
        except FileNotFoundError:
            if place == place.parent:
                raise
            place = place.parent
    # root is not stopped before what is reserved for it is gone too
    root = os.geteuid() == 0
    blocks = found.f_bfree if root else found.f_bavail
    files = found.f_ffree if root else found.f_favail
    return blocks * found.f_frsize, files if found.f_files else None


def is_full(number: int | None) -> bool:
    """Whether an errno can mean a full target."""
    return number in _CAUSES


def from_oserror(error: OSError, path: str | os.PathLike[str]) -> TargetFullError | None:
    """The pause that `error`, met while writing at `path`, stands for; None when it stands for none."""
    cause = _CAUSES.get(error.errno or 0)
    if cause is None:
        return None
    figures: dict[str, Any] = {"errno": errno.errorcode[error.errno or 0]}
    space = 0
    try:
        space, files = free(path)
        figures |= {"free_bytes": space, "free_files": files}
        if cause == "no_space" and files == 0:
            cause = "no_inodes"
    except OSError:
        pass
    return TargetFullError(cause, path, _SAYS[cause].format(path=path, free=space, uid=os.geteuid()), figures=figures)
