"""What is watched while the user's processes run: limits, memory, disk, the machine's notice; and samples of usage.

Imported after the user's processes were started. Everything here holds with every server dead.
"""

from __future__ import annotations

import json
import os

from headway.protocol import layout, names
from headway.protocol.causes import Cause
from headway.runner import processes, usage
from headway.runner.limits import Limits
from headway.runner.memory_watch import MemoryWatch

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
        start = self._start = gang.launched_clock
        self.grace = launch.grace
        self._limits = Limits(launch.limits, launch.max_duration, start, judge=index == 0)
        self._told: Any = None
        self._devices = usage.accelerators(gang.accelerators() or [])
        self._sample_at, self._work_at = start + usage.interval(0.0), start
        self.memory = MemoryWatch(launch, index, report, start)
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
        at = [self._sample_at, self._look_at, self.memory.due]
        if self._work_seconds is not None:
            at.append(self._work_at)
        if self._limit_at is not None:
            at.append(self._limit_at)
        return min(at)

    def tick(self, now: float, besides: Collection[int]) -> Ending | None:
        """besides: processes of ours that are not the user's."""
        if not self._gang.pids:
            return None
        if now >= self.memory.due and (found := self.memory.check(now, self._gang.pids, besides)) is not None:
            return (*found, 0.0, False)
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
