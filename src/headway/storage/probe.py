"""The probe: can so much be written there now? Asked before the first byte, and again while paused."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headway.storage import diskquota, writing
from headway.storage.full import TargetFullError, free, full_of, no_space, over_quota
from headway.storage.quota import ProjectQuota

#: what the real write writes
_SAMPLE = b"headway probe\n" * 292


@dataclass(frozen=True)
class Figures:
    """What the probe measured. None: not counted there."""

    free_bytes: int
    free_files: int | None


def probe(
    folder: Path, *, quota: ProjectQuota | None = None, bytes: int = 0, files: int = 0, write: bool = True
) -> Figures:
    """Checks that `files` files with `bytes` bytes in all can be written in `folder` (made when missing).

    Quotas of the file system must take them too, and so must `quota`, beside what others have reserved. write: also
    writes 4 KiB there with fsync and removes them again. Raises TargetFullError with the first cause found, or OSError.
    """
    with full_of(folder):
        folder.mkdir(parents=True, exist_ok=True)
        space, inodes = free(folder)
        if write:
            _write(folder)
    figures = {"free_bytes": space, "free_files": inodes, "needed_bytes": bytes, "needed_files": files}
    if inodes is not None and files > inodes:
        message = f"{folder} has {inodes} inodes free; {files} are needed."
        raise TargetFullError("no_inodes", folder, message, figures=figures)
    if bytes > space:
        raise no_space(folder, figures, f"{folder} has {space} bytes free; {bytes} are needed.", bytes)
    if diskquota.over(folder, bytes, files) is not None:
        raise over_quota(folder, figures, (bytes, files))
    if quota is not None:
        quota.check(bytes, files)
    return Figures(space, inodes)


def hindrance(
    folder: Path, *, quota: ProjectQuota | None = None, bytes: int = 0, files: int = 0, write: bool = True
) -> TargetFullError | None:
    """What keeps so much from being written there now, whatever it is; None: nothing does."""
    try:
        with full_of(folder, whatever=True):
            probe(folder, quota=quota, bytes=bytes, files=files, write=write)
    except TargetFullError as full:
        return full
    return None


def _write(folder: Path) -> None:
    # by a name that is swept where somebody is killed here
    with writing.temporary(folder / "probe") as name:
        writing.write(name, _SAMPLE, 0o600)
