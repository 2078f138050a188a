"""Whether a folder could be the target of an evaluation at all: what only waits for room or a mount is not refused."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from headway.errors import RefusedError

_ELSEWHERE = "Give another folder, such as /data/outputs."


def require(folder: str, what: str) -> None:
    """Raises RefusedError (no_target) when no remedy but another name would let `folder` be made.

    A disk that is full, away, read-only or not ours pauses the evaluation, and is told then with its figures.
    """
    path = Path(folder)
    for place in (path, *path.parents):
        try:
            mode = place.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL):
                raise _refused(what, folder, f"{error.strerror}") from error
            return
        _look(place, mode, what, folder)
        return


def _look(place: Path, mode: int, what: str, folder: str) -> None:
    """place: the part of `folder` that is there."""
    if stat.S_ISLNK(mode):
        try:
            mode = place.stat().st_mode
        except FileNotFoundError:
            raise _refused(what, folder, f"{place} is a link to nothing") from None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise _refused(what, folder, f"{place} is a link to itself") from error
            return
    if not stat.S_ISDIR(mode):
        raise _refused(what, folder, f"{place} is no folder")
    try:
        found = os.statvfs(place)
    except OSError:
        return
    # the kernel's own (proc, sysfs, cgroup) have no blocks at all; a full disk has, but none that are free
    if not found.f_blocks and not found.f_files:
        raise _refused(what, folder, f"{place} is on a file system of the kernel's, which keeps no files")


def _refused(what: str, folder: str, why: str) -> RefusedError:
    shown = folder if len(folder) < 300 else f"{folder[:300]}..."
    return RefusedError(f"{what}: {shown} cannot be made: {why}.", _ELSEWHERE, code="no_target")
