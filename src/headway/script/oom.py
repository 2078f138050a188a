"""Whether a process that was killed was killed for its memory: the kernel counts these kills, in cgroups and in all."""

from __future__ import annotations

import os

from headway.protocol import cgroups, names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

CAUSE = "oom_kill"
_MACHINE = "/proc/vmstat"
#: what version 1 has for no limit is about this, in bytes
_UNLIMITED = 1 << 60
_REMEDY = "Load less at once, or give the workers a spec with more memory."


def go_first(pid: int) -> None:
    """When memory runs out, this process is killed before the one that started it."""
    try:
        with open(f"/proc/{pid}/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")
    except OSError:
        pass


class Kills:
    """From its making on."""

    def __init__(self) -> None:
        self._before = {place: _kills(place) for place in _counters()}

    def sentence(self, who: str, status: int, used: int) -> str:
        """What is to be said of a process that ended with `status` (minus a signal) if it was its memory; else "".

        used: bytes, at most, of that process.
        """
        # a shell tells the signal of what it ran as 128 and more
        if status not in (-9, 137):
            return ""
        # a group that was not there before is one that we were moved into, and counts from nothing
        killed = [place for place in _counters() if _kills(place) > self._before.get(place, 0)]
        if not killed:
            return ""
        most = f"It used up to {used >> 20} MiB."
        limit = min((_limit(place) for place in _counters()), default=_UNLIMITED)
        if limit >= _UNLIMITED or killed == [_MACHINE]:
            return f"{who} was killed by the kernel: the machine had no memory left. {most} {_REMEDY}"
        return f"{who} was killed for its memory: it may use {limit >> 20} MiB of memory in all. {most} {_REMEDY}"


def _counters() -> Iterator[str]:
    """The files in which kills are counted: of our own cgroup, of those around it, of the runner, of the machine."""
    for folder, version in _groups():
        yield f"{folder}/{'memory.events' if version == 2 else 'memory.oom_control'}"
    if helper := os.environ.get(names.HELPER):
        # as in a cgroup, where the runner could make none
        yield os.path.join(os.path.dirname(helper), "memory.events")
    yield _MACHINE


def _groups() -> Iterator[tuple[str, int]]:
    for mount, path, version in cgroups.memory_groups():
        # in a container only the last of these may be there
        while path.strip("/"):
            yield mount + path, version
            path = os.path.dirname(path)
        yield mount, version


def _kills(place: str) -> int:
    try:
        with open(place, "rb") as file:
            return next((int(line.split()[1]) for line in file if line.startswith(b"oom_kill ")), 0)
    except (OSError, ValueError):
        return 0


def _limit(place: str) -> int:
    folder = os.path.dirname(place)
    for name in ("memory.max", "memory.limit_in_bytes"):
        try:
            with open(f"{folder}/{name}", "rb") as file:
                return int(file.read())
        except (OSError, ValueError):
            # none: "max"
            continue
    return _UNLIMITED
