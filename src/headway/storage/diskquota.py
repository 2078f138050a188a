"""Quotas of the file system itself: of a user, a group, a project, a btrfs subvolume. They are looked at, never set.

`df` does not show them, so that a write may be refused where much seems to be free.
"""

from __future__ import annotations

import ctypes
import grp
import os
import platform
import pwd
import stat
import struct
import time
from pathlib import Path
from typing import NamedTuple

from headway.storage import ioctls

#: quotactl_fd(2) has the same number everywhere but on these
_QUOTACTL_FD = 443 if platform.machine() not in ("alpha", "ia64") else None
_GETQUOTA = 0x800007
_USER, _GROUP, _PROJECT = 0, 1, 2
#: struct if_dqblk: limits of space are in blocks of 1 KiB, what is used is in bytes
_DQBLK = struct.Struct("=8QI4x")
_BLOCK = 1024
_BTRFS = Path("/sys/fs/btrfs")

_libc = ctypes.CDLL(None, use_errno=True)


class Left(NamedTuple):
    """What a quota still allows. None: it does not count that."""

    #: "the user quota of alice", "the project quota 42"
    name: str
    free_bytes: int | None
    free_files: int | None


def left(path: str | os.PathLike[str]) -> list[Left]:
    """What each quota that counts for new files of this process at `path` still allows. Never raises.

    Quotas without a limit are left out, and those that nobody but the administrator may see.
    """
    try:
        with ioctls.opened(_folder(path)) as fd:
            return [found for found in (*_of_owners(fd), _of_subvolume(fd)) if found is not None]
    except OSError:
        return []


def _folder(path: str | os.PathLike[str]) -> Path:
    place = Path(path)
    while not place.is_dir() and place != place.parent:
        place = place.parent
    return place


def _of_owners(fd: int) -> list[Left | None]:
    found = os.fstat(fd)
    user = os.geteuid()
    # in a folder with this bit new files belong to the folder's group
    group = found.st_gid if found.st_mode & stat.S_ISGID else os.getegid()
    project = ioctls.project(fd)
    # nobody limits root, its group, or what belongs to no project
    return [
        _quota(fd, _USER, user, f"the user quota of {_user(user)}") if user else None,
        _quota(fd, _GROUP, group, f"the group quota of {_group(group)}") if group else None,
        _quota(fd, _PROJECT, project, f"the project quota {project}") if project else None,
    ]


def _quota(fd: int, kind: int, number: int, name: str) -> Left | None:
    if _QUOTACTL_FD is None:
        return None
    raw = ctypes.create_string_buffer(_DQBLK.size)
    command = ctypes.c_uint(_GETQUOTA << 8 | kind)
    if _libc.syscall(ctypes.c_long(_QUOTACTL_FD), ctypes.c_uint(fd), command, ctypes.c_uint(number), raw):
        return None
    return parsed(raw.raw, name, time.time())


def parsed(raw: bytes, name: str, now: float) -> Left | None:
    """What a `struct if_dqblk` tells; None when it has no limit. A soft limit counts once its time is over."""
    hard, soft, used, files_hard, files_soft, files, until, files_until, _ = _DQBLK.unpack(raw)
    space = _free(hard * _BLOCK, soft * _BLOCK, used, until, now)
    inodes = _free(files_hard, files_soft, files, files_until, now)
    return None if space is None and inodes is None else Left(name, space, inodes)


def _free(hard: int, soft: int, used: int, until: int, now: float) -> int | None:
    if soft and used >= soft and until and now > until:
        return 0
    return max(0, hard - used) if hard else None


def _of_subvolume(fd: int) -> Left | None:
    found = ioctls.subvolume(fd)
    if found is None:
        return None
    folder = _BTRFS / found[0] / "qgroups" / f"0_{found[1]}"
    try:
        flags = int((folder / "limit_flags").read_text(), 0)
        values = {
            what: (int((folder / what).read_text()), int((folder / f"max_{what}").read_text()))
            for bit, what in ((1, "referenced"), (2, "exclusive"))
            if flags & bit
        }
    except (OSError, ValueError):
        return None
    free = [max(0, limit - used) for used, limit in values.values()]
    return Left(f"the btrfs quota of subvolume {found[1]}", min(free), None) if free else None


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return f"group {number}"


def over(path: str | os.PathLike[str], size: int = 1, files: int = 1) -> tuple[Left, str] | None:
    """The first quota that refuses so much more, and "bytes" or "files"; None when none is known to."""
    for found in left(path):
        if found.free_bytes is not None and found.free_bytes < size:
            return found, "bytes"
        if found.free_files is not None and found.free_files < files:
            return found, "files"
    return None
