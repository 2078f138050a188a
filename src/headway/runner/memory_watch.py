"""A run's memory on this node: kept within its limit by the kernel where a cgroup can be made, by us elsewhere.

What follows from too much is one of two things. A run that is one thing ends. One whose processes start others and see
to their ends (`limits["oom"]` is "process") loses the largest of these and goes on; only one of its ranks that is
killed ends it, as any other kill would.

Imported after the user's processes were started.
"""

from __future__ import annotations

import os
import signal

from headway.protocol import layout
from headway.protocol.causes import Cause
from headway.runner import memory, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from headway.protocol.launch import Launch
    from headway.runner.report import Report

#: how often it is looked at while less than half is used, and while more is
SECONDS, CLOSE_SECONDS = 1.0, 0.1
#: beside the sockets, where there is no cgroup: what one would tell its processes of its kills and its limit
EVENTS, MAX = "memory.events", "memory.max"


class MemoryWatch:
    """`check` when `due`; what it gives ends the attempt."""

    def __init__(self, launch: Launch, index: int, report: Report, start: float) -> None:
        self._launch, self._index, self._report = launch, index, report
        self._single = launch.limits.get("oom") == "process"
        #: where the kernel limits it; None: not yet, or it is watched
        self._group: memory.Group | None = None
        self._grouped = False
        #: kills at the last look; those of processes that a rank had started
        self._seen = self._kills = 0
        self.due = start + CLOSE_SECONDS if launch.memory_bytes is not None else float("inf")

    def check(self, now: float, ranks: Collection[int], besides: Collection[int]) -> tuple[Cause, str] | None:
        """Cause and sentence once it ends the attempt. ranks: processes; besides: those of ours, none of the user's."""
        limit = self._launch.memory_bytes
        if limit is None:
            return None
        if not self._grouped:
            self._grouped = True
            self._make_group(limit, besides)
        if self._single:
            self.due = now + SECONDS
            return self._check_single(now, limit, ranks, besides)
        if text := self._killed():
            return Cause.OOM_KILL, text
        used = self._used(now, limit, processes.tree(os.getpid(), besides))
        text = f"used {used >> 20} MiB of memory; its spec has {limit >> 20} MiB."
        return (Cause.OOM_KILL, text) if used > limit else None

    def _used(self, now: float, limit: int, pids: list[int]) -> int:
        used = memory.resident(pids)
        if used > limit:
            # what a fork shares with its parent is there once
            used = memory.proportional(pids)
        close = used > limit // 2 and self._group is None
        self.due = now + (CLOSE_SECONDS if close else SECONDS)
        return used

    def rank_ended(self, status: int) -> tuple[Cause, str] | None:
        """Of a rank that failed with `status` (minus a signal): cause and sentence if it was for its memory."""
        if self._single and status != -signal.SIGKILL:
            return None
        text = self._killed()
        # such a rank is started anew as after any other kill
        return (Cause.KILLED if self._single else Cause.OOM_KILL, text) if text else None

    def _killed(self) -> str:
        """A sentence once the kernel has killed one of the processes for their memory; else ""."""
        if self._group is None or self._group.kills() <= self._kills:
            return ""
        return f"used more than its {(self._launch.memory_bytes or 0) >> 20} MiB of memory (killed by the kernel)."

    def close(self) -> None:
        """After the last of the user's processes."""
        if self._group is not None:
            self._group.close()
            self._group = None
            try:
                os.unlink(self._report.path(layout.CGROUP))
            except OSError:
                pass

    def _make_group(self, limit: int, besides: Collection[int]) -> None:
        """Not before they run: it takes a while, which a run that is over at once need not wait for."""
        name = f"headway-{self._launch.attempt}-{self._index}-{os.urandom(3).hex()}"
        group = memory.make(name, limit, whole=not self._single)
        if group is not None:
            # for whoever cleans up after us
            with open(self._report.path(layout.CGROUP), "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(group.path)
            self._group = group
            if not group.take(lambda: processes.tree(os.getpid(), besides)):
                self.close()
        how = f"limited by cgroup {group.path}" if self._group and group else "watched: no cgroup can be made here"
        self._report.say(f"memory: {limit >> 20} MiB, {how}.")

    # -- one process of several

    def _check_single(
        self, now: float, limit: int, ranks: Collection[int], besides: Collection[int]
    ) -> tuple[Cause, str] | None:
        if self._group is not None:
            # the kernel sees to it. A kill was no rank's when all of these are alive a look later: dying takes a while
            before, self._seen = self._seen, self._group.kills()
            if self._seen > before:
                self._report.say(f"the kernel has killed {self._seen} processes for their memory")
            if all(map(processes.stat, ranks)):
                self._kills = before
            return None
        pids = processes.tree(os.getpid(), besides)
        used = self._used(now, limit, pids)
        if used <= limit:
            return None
        text = f"used {used >> 20} MiB of memory; its spec has {limit >> 20} MiB."
        started = [pid for pid in pids if pid not in ranks]
        if not started:
            return Cause.KILLED, text
        largest = max(started, key=lambda pid: memory.resident([pid]))
        self._tell_kill(limit)
        processes.kill(largest)
        self._report.say(f"{text} Its largest process ({largest}) is killed; the run goes on")
        return None

    def _tell_kill(self, limit: int) -> None:
        """Before the kill, so that whoever sees that end finds its cause."""
        self._kills += 1
        for name, text in ((MAX, f"{limit}\n"), (EVENTS, f"oom_kill {self._kills}\n")):
            try:
                with open(os.path.join(self._report.sockets, name), "w", encoding="ascii") as file:
                    file.write(text)
            except OSError:
                pass
