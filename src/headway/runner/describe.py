"""What a node is like at a run's start, one line each in the diagnostic log, with a warning where it will hurt.

Imported after the user's processes were started.
"""

from __future__ import annotations

import os
import sys

from headway.protocol import events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from headway.protocol.launch import Launch
    from headway.runner.report import Report

_GIB = 1 << 30
#: less than these is a warning
FREE_BYTES, FREE_INODES, SHM_BYTES, OPEN_FILES = _GIB, 10_000, _GIB, 1024


def describe(report: Report, launch: Launch, cwd: str, owned: list[int] | None) -> None:
    """owned: accelerators of this run here."""
    for line, warning in _lines(launch, cwd, owned):
        report.say(f"{line}{' WARNING: ' + warning if warning else ''}")
        if warning:
            report.event(events.WARNING, message=f"{line} {warning}")


def _lines(launch: Launch, cwd: str, owned: list[int] | None) -> Iterator[tuple[str, str]]:
    python = sys.version.split()[0]
    yield f"attempt {launch.attempt} on {os.uname().nodename}; runner on Python {python}.", ""
    yield _processors(), ""
    yield _memory(launch.memory_bytes)
    for name in ("OUTPUT_PATH", "CHECKPOINT_PATH"):
        if (folder := launch.environment.get(name)) and os.path.isdir(folder):
            yield _disk(name, folder)
    yield _disk("working folder", cwd)
    yield _shared()
    yield _open_files()
    if owned is not None:
        yield _accelerators(owned)


def _processors() -> str:
    usable = len(os.sched_getaffinity(0))
    return f"CPUs: {os.cpu_count()}, {usable} usable, load {os.getloadavg()[0]:.1f}."


def _memory(limit: int | None) -> tuple[str, str]:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if limit is None:
        return f"memory: {_size(total)}, not limited.", ""
    line = f"memory: {_size(total)}, of which this run may use {_size(limit)}."
    return line, "that is more than the machine has." if limit > total else ""


def _disk(name: str, folder: str) -> tuple[str, str]:
    try:
        disk = os.statvfs(folder)
    except OSError as error:
        return f"{name}: {folder}.", f"it cannot be looked at: {error.strerror}."
    free, inodes = disk.f_bavail * disk.f_frsize, disk.f_favail
    counted = f", {inodes:,} inodes" if disk.f_files else ""
    warning = "little space is left." if free < FREE_BYTES else ""
    if disk.f_files and inodes < FREE_INODES:
        warning += " few inodes are left: no more than that many files can be made."
    return f"{name}: {_size(free)}{counted} free under {folder}.", warning.strip()


def _shared() -> tuple[str, str]:
    try:
        disk = os.statvfs("/dev/shm")
    except OSError:
        return "/dev/shm: there is none.", "data loaders with worker processes will fail: set num_workers=0."
    size = disk.f_blocks * disk.f_frsize
    few = size < SHM_BYTES
    return f"/dev/shm: {_size(size)}.", "data loaders with worker processes may die of SIGBUS." if few else ""


def _open_files() -> tuple[str, str]:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    shown = ["unlimited" if value == resource.RLIM_INFINITY else str(value) for value in (soft, hard)]
    few = soft != resource.RLIM_INFINITY and soft < OPEN_FILES
    return f"open files (ulimit -n): {shown[0]}, at most {shown[1]}.", "that is few for data loaders." if few else ""


def _accelerators(owned: list[int]) -> tuple[str, str]:
    from headway.runner import usage

    mine = ", ".join(map(str, owned)) if owned else "none"
    count = usage.seen()
    if count is None:
        there = "no NVIDIA driver answers here"
        return f"accelerators: this run owns {mine}; {there}.", "CUDA will find none of them." if owned else ""
    missing = [index for index in owned if index >= count]
    line = f"accelerators: this run owns {mine} of the {count} that the driver shows."
    return line, f"{', '.join(map(str, missing))} cannot be seen." if missing else ""


def _size(count: int) -> str:
    return f"{count / _GIB:.1f} GiB" if count >= _GIB else f"{count >> 20} MiB"
