"""Memory of a run on one node: limited by the kernel in a cgroup where we may make one, watched elsewhere."""

from __future__ import annotations

import os
import time

from headway.protocol import cgroups
from headway.runner import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_PAGE = os.sysconf("SC_PAGE_SIZE")
#: what a full machine ends first: the runs, not headway nor anybody's shell
OOM_SCORE = b"800"
#: how long a cgroup is tried to be removed whose last process is just ending
REMOVE_SECONDS = 1.0
#: how often new processes are looked for that others started while they were moved
TURNS = 10


def volunteer() -> None:
    """In a process that is about to become the user's: if the machine runs out of memory, this one goes first."""
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        try:
            os.write(fd, OOM_SCORE)
        finally:
            os.close(fd)
    except OSError:
        pass


class Group:
    """A cgroup (version 2, or the memory controller of version 1) that holds one node's user processes."""

    def __init__(self, path: str, limit: int, version: int, whole: bool) -> None:
        """Makes it. whole: see `make`. Raises OSError where that is not allowed; nothing is left then."""
        self.path, self._version = path, version
        os.mkdir(path)
        try:
            if version == 2:
                _write(f"{path}/memory.max", limit)
                _try(f"{path}/memory.swap.max", 0)
                _try(f"{path}/memory.oom.group", int(whole))
            else:
                _write(f"{path}/memory.limit_in_bytes", limit)
                _try(f"{path}/memory.memsw.limit_in_bytes", limit)
                _try(f"{path}/memory.move_charge_at_immigrate", 3)
        except OSError:
            os.rmdir(path)
            raise

    def take(self, tree: Callable[[], list[int]]) -> bool:
        """Moves the processes that `tree` gives into it, and what they start meanwhile; False where that is refused.

        The kernel takes some 10 ms for the first, in which nothing else is done.
        """
        taken: set[int] = set()
        for _ in range(TURNS):
            if not (left := set(tree()) - taken):
                break
            for pid in left:
                try:
                    _write(f"{self.path}/cgroup.procs", pid)
                except ProcessLookupError:
                    pass
                except OSError:
                    return False
            taken |= left
        return True

    def kills(self) -> int:
        """How many of its processes the kernel has killed for their memory."""
        name = "memory.events" if self._version == 2 else "memory.oom_control"
        try:
            with open(f"{self.path}/{name}", "rb") as file:
                return next((int(line.split()[1]) for line in file if line.startswith(b"oom_kill ")), 0)
        except OSError:
            return 0

    def close(self) -> None:
        """Removes it. Its processes were killed before."""
        remove(self.path)


def remove(path: str) -> None:
    """Removes a cgroup, and kills what is still in it."""
    until = time.monotonic() + REMOVE_SECONDS
    while True:
        try:
            os.rmdir(path)
            return
        except FileNotFoundError:
            return
        except OSError:
            pass
        try:
            with open(f"{path}/cgroup.procs", "rb") as file:
                for pid in map(int, file.read().split()):
                    processes.kill(pid)
        except OSError:
            pass
        if time.monotonic() >= until:
            return
        time.sleep(0.01)


def make(name: str, limit: int, *, whole: bool = True) -> Group | None:
    """A cgroup for processes that may use `limit` bytes together; None where none can be made.

    whole: one that uses too much has all of them killed, where the kernel can do that.
    """
    for parent, version in _parents():
        try:
            return Group(os.path.join(parent, name), limit, version, whole)
        except OSError:
            continue
    return None


def _parents() -> Iterable[tuple[str, int]]:
    """Where our own cgroup may have a sibling or a child whose memory is limited."""
    for mount, path, version in cgroups.memory_groups():
        here = mount + path
        if version == 1:
            yield here, 1
        else:
            # a group with processes has no children with limits: ours is then a sibling
            for parent in (here, os.path.dirname(here)):
                if parent.startswith(mount) and _passes_on(parent):
                    yield parent, 2


def _passes_on(group: str) -> bool:
    try:
        with open(f"{group}/cgroup.subtree_control", "rb") as file:
            return b"memory" in file.read().split()
    except OSError:
        return False


def _write(path: str, value: int) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, str(value).encode())
    finally:
        os.close(fd)


def _try(path: str, value: int) -> None:
    try:
        _write(path, value)
    except OSError:
        pass


def resident(pids: Iterable[int]) -> int:
    """Their resident memory together, in bytes. Pages that they share count for each: quick, and never too little."""
    return sum(int(fields[21]) * _PAGE for pid in pids if (fields := processes.stat(pid)))


def proportional(pids: Iterable[int]) -> int:
    """The same with each shared page counted once: a millisecond for each, and more for large ones."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
                total += next(int(line.split()[1]) << 10 for line in file if line.startswith(b"Pss:"))
        except (OSError, StopIteration):
            total += resident([pid])
    return total
