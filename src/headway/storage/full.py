"""A full target: a pause with a named cause, never a failure."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headway.rules.units import render_size
from headway.storage import diskquota, ioctls, writing
from headway.storage.holders import LEAST_BYTES, Holder, holders, sentence

#: errno -> cause; what ENOSPC stands for is found out
_CAUSES = {
    errno.ENOSPC: "no_space",
    errno.EDQUOT: "over_quota",
    errno.EROFS: "read_only",
    errno.EACCES: "no_permission",
    errno.EPERM: "no_permission",
    errno.ENAMETOOLONG: "name_too_long",
    errno.EMFILE: "too_many_open_files",
    errno.ENFILE: "too_many_open_files",
    errno.ESTALE: "stale_handle",
    errno.EMLINK: "folder_limit",
    # a disk, or a mount whose server is away
    **dict.fromkeys((errno.EIO, errno.EREMOTEIO, errno.ENXIO, errno.ENODEV), "io_error"),
    **dict.fromkeys((errno.ENOTCONN, errno.ECONNABORTED, errno.EHOSTDOWN, errno.ETIMEDOUT), "io_error"),
    # what ext4, XFS and btrfs say of damaged blocks
    **dict.fromkeys((errno.EUCLEAN, errno.EBADMSG), "io_error"),
}
#: causes that lie in one process or one name, and say nothing about what others can write
_OWN = {"name_too_long", "too_many_open_files", "folder_limit"}

#: inodes that what was removed after a refusal may have taken
_FEW_FILES = 1000

_SAYS = {
    "no_space": "{path} has no space left ({free} bytes are free).",
    "no_inodes": "{path} has no inodes left.",
    "over_quota": "{path} is over a quota of its file system.",
    "read_only": "{path} is on a file system that is mounted read-only.",
    "no_permission": "{path} may not be written by user {uid}.",
    "io_error": "{path} gives input/output errors.",
    "name_too_long": "{path} is so long that names below it are longer than its file system takes.",
    "too_many_open_files": "Nothing more can be opened to write at {path}: too many files are open.",
    "stale_handle": "{path} is a stale handle: what its server had exported there is gone.",
    "folder_limit": "{path} takes no more entries, though space and inodes are free.",
    "deleted_open": "{path} has no space left ({free} bytes are free).",
}

REMEDIES = {
    "no_space": "Free space on that file system; work goes on by itself.",
    "no_inodes": "Remove files on that file system (bytes are free, inodes are not); work goes on by itself.",
    "over_quota": "Raise the quota or remove outputs; work goes on by itself.",
    "read_only": "Mount the file system writable again; work goes on by itself.",
    "no_permission": "Give headway's user the right to write there; work goes on by itself.",
    "io_error": "Check the disk or the network file system; work goes on by itself when it answers again.",
    "name_too_long": "Send the outputs to a folder with a shorter path, or give cases and checkpoints shorter names.",
    "too_many_open_files": "Raise the limit (ulimit -n, or fs.file-max for all); work goes on by itself.",
    "stale_handle": "Mount the network file system again; work goes on by itself.",
    "folder_limit": "Move entries out of that folder, or send the outputs to another one; work goes on by itself.",
    "unmounted": "Mount it again; work goes on by itself. Or run `headway eval target` with another folder, or with "
    "the same one if what is there now is meant.",
    "taken": "Give another folder with `headway eval target`; `headway eval adopt` takes over what is there.",
    "deleted_open": "End or restart what holds the deleted files; work goes on by itself.",
}


class TargetFullError(Exception):
    """Nothing can be written at `path` now. Not an OSError, so that no broad handler of those swallows it.

    cause: one of REMEDIES. message and remedy: a sentence or two each. figures: what was measured (free_bytes,
    free_files, needed_bytes, ...), for the event and for people.
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
    found = _statvfs(path)
    # root is not stopped before what is reserved for it is gone too
    root = os.geteuid() == 0
    blocks = found.f_bfree if root else found.f_bavail
    files = found.f_ffree if root else found.f_favail
    return blocks * found.f_frsize, files if found.f_files else None


def _statvfs(path: str | os.PathLike[str]) -> os.statvfs_result:
    place = Path(path)
    while True:
        try:
            return os.statvfs(place)
        except FileNotFoundError:
            if place == place.parent:
                raise
            place = place.parent


def is_full(number: int | None) -> bool:
    """Whether an errno that another process met can mean a full target, and not a fault of its own."""
    return _CAUSES.get(number or 0, "name_too_long") not in _OWN


def from_oserror(error: OSError, path: str | os.PathLike[str]) -> TargetFullError | None:
    """The pause that `error`, met while writing at `path`, stands for; None when it stands for none."""
    cause = _CAUSES.get(error.errno or 0)
    if cause is None:
        return None
    figures: dict[str, Any] = {"errno": errno.errorcode[error.errno or 0]}
    try:
        space, files = free(path)
        figures |= {"free_bytes": space, "free_files": files}
    except OSError:
        pass
    if cause == "no_space":
        return no_space(path, figures)
    if cause == "over_quota":
        return over_quota(path, figures)
    if cause == "no_permission":
        return _no_permission(path, figures)
    if cause == "read_only":
        figures["mount"] = _mount(path)
    if cause == "too_many_open_files" and error.errno == errno.EMFILE:
        figures["limit_open_files"] = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if cause == "name_too_long":
        figures["path_length"] = len(os.fsencode(error.filename or path))
    return TargetFullError(cause, path, _SAYS[cause].format(path=path), figures=figures)


@contextlib.contextmanager
def full_of(path: str | os.PathLike[str], *, whatever: bool = False) -> Iterator[None]:
    """Inside, an OSError that stands for a pause at `path` becomes one.

    whatever: so does any other one (a name in the way, a dead mount): nothing can be written there either.
    """
    try:
        yield
    except OSError as error:
        full = from_oserror(error, path)
        if full is None and whatever:
            full = TargetFullError("io_error", path, f"{path} takes no writes: {error}.")
        if full is None:
            raise
        raise full from error


def no_space(
    path: str | os.PathLike[str], figures: dict[str, Any], message: str = "", needed: int = 1
) -> TargetFullError:
    """What it is when `needed` bytes do not fit: inodes, a quota, the folder, files that are deleted, or the space.

    figures: free_bytes and free_files where they are known.
    """
    space = figures.get("free_bytes", 0)
    if _lacks_inodes(path, figures.get("free_files"), asked=bool(message)):
        return TargetFullError("no_inodes", path, _SAYS["no_inodes"].format(path=path), figures=figures)
    if not message:
        # some file systems call their quota so
        if diskquota.over(path) is not None:
            return over_quota(path, figures)
        if space and _takes_no_names(path):
            return TargetFullError("folder_limit", path, _SAYS["folder_limit"].format(path=path), figures=figures)
    message = message or _SAYS["no_space"].format(path=path, free=space)
    found = holders(path)
    held = sum(holder.bytes for holder in found)
    if held < LEAST_BYTES:
        return TargetFullError("no_space", path, message, figures=figures)
    return _held(path, figures, message, needed - space, found, held)


def _lacks_inodes(path: str | os.PathLike[str], files: int | None, *, asked: bool) -> bool:
    """asked: nothing was refused yet. After a refusal what had been written is removed again: a few are free then."""
    if asked or not files or files > _FEW_FILES:
        return files == 0
    try:
        found = _statvfs(path)
    except OSError:
        return False
    return files / found.f_files < found.f_bfree / max(1, found.f_blocks)


def _held(
    path: str | os.PathLike[str], figures: dict[str, Any], message: str, missing: int, found: list[Holder], held: int
) -> TargetFullError:
    figures = {**figures, "deleted_bytes": held, "holders": [holder.to_json() for holder in found[:10]]}
    message = f"{message} {sentence(found, render_size(held))}"
    try:
        whole = _statvfs(path)
        # on a large disk a few MiB are not what it lacks
        is_it = held >= max(missing, whole.f_blocks * whole.f_frsize // 100)
    except OSError:
        is_it = False
    return TargetFullError("deleted_open" if is_it else "no_space", path, message, figures=figures)


def over_quota(
    path: str | os.PathLike[str], figures: dict[str, Any], needed: tuple[int, int] = (1, 1)
) -> TargetFullError:
    """The pause of a quota of the file system, named where it can be told."""
    quotas = diskquota.left(path)
    if quotas:
        figures = {**figures, "quotas": [quota._asdict() for quota in quotas]}
    # a quota says so before its last byte is used: the tightest one, if none is used up
    found = diskquota.over(path, *needed)
    if found is None:
        tight = sorted((q for q in quotas if q.free_bytes is not None), key=lambda q: q.free_bytes or 0)
        found = (tight[0], "bytes") if tight else None
    if found is None:
        return TargetFullError("over_quota", path, _SAYS["over_quota"].format(path=path), figures=figures)
    quota, what = found
    left = render_size(quota.free_bytes or 0) if what == "bytes" else f"{quota.free_files} files"
    message = f"{path} is over a quota of its file system: {quota.name} has {left} left."
    return TargetFullError("over_quota", path, message, figures=figures)


def _no_permission(path: str | os.PathLike[str], figures: dict[str, Any]) -> TargetFullError:
    place = Path(path)
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    flag = ioctls.frozen(place)
    if flag is None:
        says = _SAYS["no_permission"].format(path=path, uid=os.geteuid())
        return TargetFullError("no_permission", path, says, figures=figures)
    what = "immutable" if flag == "i" else "append-only"
    remedy = f"Run `chattr -{flag} {place}`; work goes on by itself."
    message = f"{place} is marked as {what} (chattr +{flag}): not even root may change it."
    return TargetFullError("no_permission", path, message, remedy, {**figures, "flag": flag})


def _takes_no_names(path: str | os.PathLike[str]) -> bool:
    """Whether a file can be written there that has no name, but none that has one."""
    content = bytes(4096)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, content)
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError:
        return False
    # as long as names of temporaries are: a longer one needs more of the folder than a short one
    name = writing.temporary_name(Path(path, "probe".ljust(80, "-")))
    try:
        os.mkdir(name)
    except OSError as error:
        return error.errno in (errno.ENOSPC, errno.EMLINK)
    os.rmdir(name)
    return False


def _mount(path: str | os.PathLike[str]) -> str:
    place = Path(os.path.realpath(path))
    while not os.path.ismount(place) and place != place.parent:
        place = place.parent
    return str(place)
