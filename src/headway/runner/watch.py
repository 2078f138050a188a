"""What is watched while the user's processes run: limits, memory, disk, the machine's notice; and samples of usage.

Imported after the user's processes were started. Everything here holds with every server dead.
"""

from __future__ import annotations

import json
import os

from headway.protocol import layout, names
from headway.protocol.causes import Cause
from headway.runner import memory, processes, usage
from headway.runner.limits import Limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from headway.protocol.launch import Launch
    from headway.runner.disk import Disk
    from headway.runner.gang import Gang
    from headway.runner.notice import Notice
    from headway.runner.peers import Peers
    from headway.runner.report import Report

    #: cause, sentence, grace period; whether the stacks are printed before
    Ending = tuple[Cause, str, float, bool]

#: how often limits are looked at that lines and points put off, and the machine's notice
LOOK_SECONDS = 3.0
#: a limit that was reached here, but not by the whole gang, is looked at again after this
AGAIN_SECONDS = 0.25
#: how often memory is looked at while less than half is used, and while more is
MEMORY_SECONDS, CLOSE_SECONDS = 1.0, 0.1
#: seconds between two samples for whether it hangs; at most a quarter of that limit
WORK_SECONDS = 5.0
#: grace period after the machine's own notice where none is given
NOTICE_GRACE = 120.0
#: of these a hang says where each rank stands
_DUMPED = (Cause.HANG, Cause.IDLE_OUTPUT)


class Watch:
    """`tick` when `due`; what it gives ends the attempt."""

    def __init__(
        self,
        launch: Launch,
        index: int,
        report: Report,
        gang: Gang,
        peers: Peers | None,
    ) -> None:
        self._launch, self._index, self._report = launch, index, report
        self._gang, self._peers = gang, peers
        #: where the kernel limits their memory; None: not yet, or it is watched
        self._group: memory.Group | None = None
        start = self._start = gang.launched_clock
        self.grace = launch.grace
        self._limits = Limits(launch.limits, launch.max_duration, start, judge=index == 0)
        self._told: Any = None
        self._grouped = False
        self._devices = usage.accelerators(gang.accelerators() or [])
        self._sample_at, self._work_at = start + usage.interval(0.0), start
        self._memory_at = start + CLOSE_SECONDS
        self._look_at = start + LOOK_SECONDS
        self._disk: Disk | None = None
        self._notice: Notice | None = None
        nodes = launch.nodes
        if index < len(nodes) and (where := nodes[index].get("notice")):
            from headway.runner.notice import Notice

            self._notice = Notice(str(where))
        self._set_up()

    def _set_up(self) -> None:
        """What depends on the limits."""
        limits = self._limits
        self._gang.hear_points = self._hear if limits.wants_points or limits.hang is not None else None
        self._gang.channel.hears_values = limits.wants_points
        self._limit_at = limits.due()
        self._work_seconds = min(WORK_SECONDS, limits.hang / 4) if limits.hang is not None else None
        if limits.disk is not None and self._disk is None:
            from headway.runner.disk import Disk

            environment = self._launch.environment
            folders = [environment.get(names.OUTPUT_PATH), environment.get(names.CHECKPOINT_PATH), self._launch.cwd]
            self._disk = Disk([folder for folder in folders if folder])

    def _hear(self, points: list[tuple[int, str, float]], now: float) -> None:
        self._limits.points(points, now)
        if self._limits.spoilt:
            self._limit_at = now

    def amend(self, changes: dict[str, Any]) -> None:
        """What amended.json says. Told again, it changes nothing."""
        if changes == self._told:
            return
        self._told = changes
        limits = changes.get("limits", self._launch.limits)
        duration = changes.get("max_duration", self._launch.max_duration)
        self.grace = float(changes.get("grace", self._launch.grace))
        self._limits.amend(limits if isinstance(limits, dict) else {}, duration)
        self._set_up()
        self._report.say(f"limits changed: {json.dumps(changes)}")

    # -- when

    @property
    def due(self) -> float:
        at = [self._sample_at, self._look_at, self._memory_at]
        if self._work_seconds is not None:
            at.append(self._work_at)
        if self._limit_at is not None:
            at.append(self._limit_at)
        return min(at)

    def tick(self, now: float, besides: Collection[int]) -> Ending | None:
        """besides: processes of ours that are not the user's."""
        if not self._gang.pids:
            return None
        if now >= self._memory_at and (text := self._check_memory(now, besides)) is not None:
            return Cause.OOM_KILL, text, 0.0, False
        if self._work_seconds is not None and now >= self._work_at:
            self._work_at = now + self._work_seconds
            self._look_for_work(now, besides)
        if now >= self._sample_at:
            self._sample_at = now + usage.interval(now - self._start)
            self._sample(besides)
        if now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            if self._notice is not None and self._notice.come():
                own = self._launch.nodes[self._index].get("notice_grace")
                grace = float(own or self.grace or NOTICE_GRACE)
                return Cause.RECLAIMED, "the machine gave notice that it is taken back.", grace, False
            if self._disk is not None:
                self._disk.tick(now)
                self._limits.measured(self._disk.bytes)
            self._limit_at = now
        return self._check_limits(now) if self._limit_at is not None and now >= self._limit_at else None

    # -- what

    def _check_limits(self, now: float) -> Ending | None:
        limits, peers = self._limits, self._peers
        limits.line(self._gang.line_at)
        if peers is not None:
            limits.line(peers.line_at)
        quiet = limits.quiet(now)
        hangs = peers.all_quiet(quiet) if peers is not None and limits.hang is not None else quiet
        found = limits.check(now, hangs=hangs)
        if found is not None:
            return (*found, self.grace, found[0] in _DUMPED)
        # lines may have put it off; a gang of which one node still works is asked again in a moment
        due = limits.due()
        self._limit_at = max(due, now + AGAIN_SECONDS) if due is not None else None
        return None

    def _check_memory(self, now: float, besides: Collection[int]) -> str | None:
        """A sentence once it used too much."""
        if (limit := self._launch.memory_bytes) is None:
            self._memory_at = float("inf")
            return None
        if not self._grouped:
            self._grouped = True
            self._make_group(limit, besides)
        if text := self.killed():
            return text
        pids = processes.tree(os.getpid(), besides)
        used = memory.resident(pids)
        if used > limit:
            # what a fork shares with its parent is there once
            used = memory.proportional(pids)
        close = used > limit // 2 and self._group is None
        self._memory_at = now + (CLOSE_SECONDS if close else MEMORY_SECONDS)
        return f"used {used >> 20} MiB of memory; its spec has {limit >> 20} MiB." if used > limit else None

    def _make_group(self, limit: int, besides: Collection[int]) -> None:
        """Not before they run: it takes a while, which a run that is over at once need not wait for."""
        name = f"headway-{self._launch.attempt}-{self._index}-{os.urandom(3).hex()}"
        group = memory.make(name, limit)
        if group is not None:
            # for whoever cleans up after us
            with open(self._report.path(layout.CGROUP), "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(group.path)
            self._group = group
            if not group.take(lambda: processes.tree(os.getpid(), besides)):
                self.close()
        how = f"limited by cgroup {group.path}" if self._group and group else "watched: no cgroup can be made here"
        self._report.say(f"memory: {limit >> 20} MiB, {how}.")

    def killed(self) -> str:
        """A sentence once the kernel has killed one of the processes for their memory; else ""."""
        if self._group is None or not self._group.kills():
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

    def _look_for_work(self, now: float, besides: Collection[int]) -> None:
        cpu = self._gang.cpu_seconds
        for pid in processes.tree(os.getpid(), besides):
            cpu += usage.cpu_seconds(pid)
        self._limits.sampled(cpu, [device.sample().get("busy_percent", 0) for device in self._devices], now)

    def ranks(self, besides: Collection[int]) -> dict[int, int | None]:
        """Each living process with its rank; None where it left its rank."""
        found: dict[int, int | None] = dict.fromkeys(processes.tree(os.getpid(), besides))
        for pid, rank in self._gang.ranks().items():
            found[pid] = rank
            for below in processes.tree(pid):
                found[below] = rank
        return found

    def _sample(self, besides: Collection[int]) -> None:
        line = usage.sample(self.ranks(besides), self._gang.cpu_seconds, self._report.folder, self._devices)
        try:
            with open(self._report.path(layout.USAGE), "a", encoding="ascii") as file:
                file.write(json.dumps(line) + "\n")
        except OSError:
            pass
