"""What ends a run besides its processes: pure rules over times, lines, points and samples. No clock, no files.

Imported after the user's processes were started. Times are monotonic seconds.
"""

from __future__ import annotations

from math import isfinite

from headway.protocol.causes import Cause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

#: less than this of one CPU is no work
WORK_SHARE = 0.01


class Limits:
    """Told what happens; `check` says when one is reached. A limit that is not given is never reached."""

    def __init__(
        self, limits: dict[str, Any], max_duration: float | None, started: float, *, judge: bool = True
    ) -> None:
        """limits: as `Launch.limits`. judge: False on a gang's other nodes, where no metric is expected."""
        self._started, self._judge = started, judge
        self._line_at = self._work_at = self._best_at = started
        self._best: tuple[float, int] | None = None
        self._bad: tuple[str, float, int] | None = None
        self._disk = 0
        self._cpu: tuple[float, float] | None = None
        self._progress: tuple[Any, Any] = (None, None)
        self.amend(limits, max_duration)

    def amend(self, limits: dict[str, Any], max_duration: float | None) -> None:
        """Other limits from now on. What was seen so far counts for them too, but for another chosen metric."""
        self._limits, self.max_duration = limits, max_duration
        self.idle, self.hang = _seconds(limits.get("idle_output")), _seconds(limits.get("hang"))
        self.disk = _seconds(limits.get("disk_bytes"))
        progress = limits.get("no_progress")
        progress = progress if isinstance(progress, dict) else {}
        self._patience = _seconds(progress.get("seconds"))
        chosen = progress.get("metric"), progress.get("mode") or "min"
        if chosen != self._progress:
            self._progress, self._best, self._best_at = chosen, None, max(self._started, self._best_at)
        names = limits.get("nan")
        self._finite: frozenset[str] | bool = names is True if not isinstance(names, list) else frozenset(names)

    @property
    def wants_points(self) -> bool:
        return bool(self._finite) or self._patience is not None

    @property
    def spoilt(self) -> bool:
        """Whether a metric was not finite that has to be."""
        return self._bad is not None

    # -- what happens

    def line(self, at: float) -> None:
        """A line was printed at `at`."""
        self._line_at = max(self._line_at, at)

    def points(self, points: Iterable[tuple[int, str, float]], now: float) -> None:
        """(step, name, value) of metrics."""
        self._work_at = now
        metric, mode = self._progress
        for step, name, value in points:
            if not isfinite(value):
                if self._finite and self._bad is None and (self._finite is True or name in self._finite):
                    self._bad = name, value, step
            elif name == metric and self._patience is not None:
                best = self._best
                if best is None or (value < best[0] if mode == "min" else value > best[0]):
                    self._best, self._best_at = (value, step), now

    def sampled(self, cpu_seconds: float, devices: Iterable[int], now: float) -> None:
        """CPU time of all processes since the start, ended ones too, and how busy each device is in per cent."""
        before, self._cpu = self._cpu, (cpu_seconds, now)
        if before is None or any(devices):
            self._work_at = now
        elif abs(cpu_seconds - before[0]) >= WORK_SHARE * (now - before[1]):
            # less than before: one ended whose time nobody told us
            self._work_at = now

    def measured(self, disk_bytes: int) -> None:
        """What it has under its folders."""
        self._disk = disk_bytes

    # -- what follows

    def due(self) -> float | None:
        """When `check` may say something new, if nothing happens until then; None: never."""
        at = [
            start + seconds
            for start, seconds in (
                (self._started, self.max_duration),
                (self._line_at, self.idle),
                (max(self._line_at, self._work_at), self.hang),
                (self._best_at, self._patience if self._judged() else None),
            )
            if seconds is not None
        ]
        return min(at, default=None)

    def quiet(self, now: float) -> bool:
        """Whether neither a line nor work was seen for as long as a hang takes."""
        return self.hang is not None and now - max(self._line_at, self._work_at) >= self.hang

    def check(self, now: float, *, hangs: bool) -> tuple[Cause, str] | None:
        """The cause and a sentence once a limit is reached. hangs: whether `quiet` holds for the whole gang."""
        if self.max_duration is not None and now - self._started >= self.max_duration:
            return Cause.TIME_LIMIT, f"ran for its limit of {spoken(self.max_duration)}."
        if self._bad is not None:
            name, value, step = self._bad
            return Cause.NAN_METRIC, f"{name} is {'NaN' if value != value else value} at step {step}."
        if self.disk is not None and self._disk > self.disk:
            text = f"has {self._disk >> 20} MiB in its own folders; its limit is {int(self.disk) >> 20} MiB."
            return Cause.DISK_LIMIT, text
        if hangs and self.hang is not None:
            return Cause.HANG, f"printed nothing and did no work for {spoken(self.hang)}."
        if self.idle is not None and now - self._line_at >= self.idle:
            return Cause.IDLE_OUTPUT, f"printed nothing for {spoken(self.idle)}."
        if self._patience is not None and self._judged() and now - self._best_at >= self._patience:
            return Cause.NO_PROGRESS, self._stuck(self._patience)
        return None

    def _judged(self) -> bool:
        return self._judge or self._best is not None

    def _stuck(self, seconds: float) -> str:
        metric, time = self._progress[0], spoken(seconds)
        if self._best is None:
            return f"{metric} was not reported for {time}."
        return f"{metric} became no better for {time}: {self._best[0]:g} at step {self._best[1]} is its best."


def _seconds(raw: Any) -> float | None:
    return float(raw) if isinstance(raw, (int, float)) and not isinstance(raw, bool) and raw > 0 else None


def spoken(seconds: float) -> str:
    """For people: 0.3 s, 45 s, 30 min, 1 h 30 min."""
    if seconds < 10:
        return f"{round(seconds, 1):g} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{minutes} min {rest} s" if rest and minutes < 10 else f"{minutes} min"
