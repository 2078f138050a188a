"""One attempt on one node, from claim to exit.json.

A single thread around one loop: what is readable is read, what is due is done. Every fact goes to a file at once. What
the user's first line need not wait for (metrics, samples) is imported after the user's processes were started.
"""

from __future__ import annotations

import os
import signal
import time
from types import SimpleNamespace

from headway.protocol import events, layout, names
from headway.protocol.causes import Cause
from headway.runner import asked, ending, processes
from headway.runner.gang import Gang, free_port
from headway.runner.logs import LogFile
from headway.runner.loop import Loop
from headway.runner.report import ClaimedError, Report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from headway.protocol.launch import Launch
    from headway.protocol.summaries import Finder
    from headway.runner.helper import Helper
    from headway.runner.keeper import Keeper
    from headway.runner.peers import Peers
    from headway.runner.stacks import Stacks
    from headway.runner.tracking import Tracking
    from headway.runner.watch import Ending, Watch

HEARTBEAT_SECONDS = 3.0
#: how long the output of processes that cannot be killed is waited for
DEAF_SECONDS = 5.0
#: a helper that finishes after a stop has this long, or the grace period if that is longer
FINISH_SECONDS = 10.0
#: how long the tracking endpoint may take for its last points
TRACKING_SECONDS = 2.0
#: a user who set this has an endpoint of his own
TRACKING_URI = "MLFLOW_TRACKING_URI"


def read_launch(path: str) -> Launch:
    """The launch as it was written, every field there. Raises ValueError, OSError.

    Not `Launch.from_json`: dataclasses are a tenth of a runner's start.
    """
    raw = layout.read_json(path)
    if not isinstance(raw, dict):
        raise ValueError("it is missing, or no JSON object")
    if raw.get("version") != layout.LAUNCH_VERSION:
        raise ValueError(f"it has version {raw.get('version')!r}; this runner reads {layout.LAUNCH_VERSION}")
    launch: Any = SimpleNamespace(**raw)
    return launch  # type: ignore[no-any-return]


class Runner:
    """`Runner(folder, index, keeper).main()` returns when exit.json is there (or another runner has the attempt)."""

    def __init__(self, folder: str, index: int, keeper: Keeper) -> None:
        self.folder = folder
        self.keeper = keeper
        self.index = index
        self.loop = Loop()
        self.cause: Cause | None = None
        self.message = ""
        #: monotonic time after which everything left is killed
        self.kill_at: float | None = None
        self.deaf_at: float | None = None
        self.stop_seen = False
        #: something may have ended
        self.signalled = False
        self.helper: Helper | None = None
        #: looks for TensorBoard's files, which call for the helper too
        self.finder: Finder | None = None
        self.gang: Gang | None = None
        self.peers: Peers | None = None
        #: all is ready here, and node 0 has not told where the ranks meet
        self.meeting = False
        self.watch: Watch | None = None
        self.tracking: Tracking | None = None
        #: prints stacks before the run is asked to end for this reason
        self.stacks: Stacks | None = None
        self.ending: tuple[Cause, str, float] | None = None

    # -- beginning

    def main(self) -> None:
        self._take_signals()
        try:
            self.report = Report(os.path.join(self.folder, layout.node(self.index)), self.keeper.identity())
        except ClaimedError:
            return
        try:
            self._detach()
            self._read_and_run()
        finally:
            self.report.close()

    def _take_signals(self) -> None:
        """Before the claim: whoever reads our identity may ask us to stop from then on."""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        self.loop.add(read, self._on_signals)

    def _detach(self) -> None:
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        processes.adopt_orphans()

    def _read_and_run(self) -> None:
        report = self.report
        try:
            self.launch = read_launch(os.path.join(self.folder, layout.LAUNCH))
        except (ValueError, OSError) as error:
            report.event(events.STARTED)
            self._end(Cause.NOT_STARTED, f"launch.json cannot be read: {error}.")
            return
        report.hints, report.attempt = self.launch.hints, self.launch.attempt
        known = {"attempt": self.launch.attempt, "hints": self.launch.hints, "nodes": self.launch.nodes}
        self.keeper.tell({**known, "sockets": report.sockets}, [])
        report.event(events.STARTED)
        report.beat()
        try:
            self._run()
        except Exception as error:
            # a fault of ours, or a disk that takes no more files: the attempt ends with a word, never silently
            import traceback

            report.say(traceback.format_exc())
            self._kill_tree()
            self._end(
                self.cause or (Cause.RUNNER_LOST if self.gang and self.gang.launched else Cause.PREPARE_FAILED),
                self.message or f"the runner could not go on: {type(error).__name__}: {error}.",
            )

    # -- the loop

    def _run(self) -> None:
        now = time.monotonic()
        self.beat_at = now + HEARTBEAT_SECONDS
        run_log = LogFile(self.report.path(layout.RUN_LOG), self.launch.log_limit)
        self.gang = Gang(self.launch, self.index, self.loop, self.report, run_log)
        if len(self.launch.nodes) > 1:
            from headway.runner.peers import Peers

            self.peers = Peers(self.folder, self.index, self.launch.nodes, now)
        self._check_asked()
        #: folder whose first file calls for the helper; None: it is needed at once, or not at all
        self.helper_waits_for: str | None = self.launch.plan.get("wait_for") if self.launch.helper else None
        if self.cause is None and self.launch.helper and self.helper_waits_for is None:
            self._start_helper()
        elif self.cause is None:
            if self.helper_waits_for is not None:
                os.makedirs(self.helper_waits_for, exist_ok=True)
            self._launch()
        while not self._over():
            self._turn()
        self._finish()

    def _over(self) -> bool:
        assert self.gang is not None
        if self.gang.pids or self.gang.outputs:
            return False
        return self.cause is not None or self.gang.launched is not None

    def _turn(self) -> None:
        assert self.gang is not None
        due = [self.beat_at]
        due += [at for at in (self.kill_at, self.deaf_at) if at is not None]
        if self.watch is not None and self._goes_on():
            due.append(self.watch.due)
        if self.stacks is not None:
            due.append(self.stacks.due)
        if self.helper is not None and self.helper.again_at is not None:
            due.append(self.helper.again_at)
        if self.peers is not None:
            due.append(self.peers.look_at)
        self.loop.turn(min(due))
        if self.signalled:
            self.signalled = False
            self._reap()
        self._tick(time.monotonic())

    def _goes_on(self) -> bool:
        """Whether the user's processes run, and nothing has ended them yet."""
        return self.cause is None and self.ending is None and self.gang is not None and bool(self.gang.pids)

    def _tick(self, now: float) -> None:
        if now >= self.beat_at:
            self.beat_at = now + HEARTBEAT_SECONDS
            self.signalled = True
            self.report.beat()
            self.report.flush()
            self._check_asked()
            self._check_amended()
            self._check_folder()
            self._call_helper()
            if self.gang is not None:
                self.gang.check_patterns(now)
        if self.watch is not None and self._goes_on() and now >= self.watch.due:
            self._end_for(self.watch.tick(now, self._besides()))
        if self.stacks is not None:
            self.stacks.tick(now)
            self._look_at_stacks(self.stacks)
        if self.kill_at is not None and now >= self.kill_at:
            self.kill_at, self.deaf_at = None, time.monotonic() + DEAF_SECONDS
            self._kill_tree()
        if self.deaf_at is not None and now >= self.deaf_at and self.gang is not None:
            self.deaf_at = None
            self.gang.deafen()
        if self.peers is not None and now >= self.peers.look_at:
            self._look_at_peers(self.peers, now)
        if self.helper is not None:
            self.helper.tick(now)
            self._look_at_helper(self.helper)

    def _on_signals(self, fd: int) -> None:
        numbers = os.read(fd, 4096)
        # something may have ended: what it said last is wanted now
        self.signalled = True
        self.loop.wake()
        if signal.SIGTERM in numbers or signal.SIGINT in numbers:
            self._check_asked(signalled=True)

    # -- the user's processes

    def _launch(self) -> None:
        """Starts them, once it is known where the ranks meet."""
        assert self.gang is not None
        meeting: tuple[str, int] | None = None
        if self.peers is not None:
            meeting = self.peers.meet(free_port("") if self.index == 0 else 0)
            self.meeting = meeting is None
            if self.meeting:
                return
        elif self.gang.several:
            nodes = self.launch.nodes
            meeting = (nodes and nodes[0].get("address")) or "127.0.0.1", free_port("127.0.0.1")
        self._prepare_place(self.gang)
        try:
            self.gang.start(meeting, self.keeper)
        except OSError as error:
            self._fail(Cause.NOT_STARTED, f"{error.filename!r} could not be started: {error.strerror}.")
            self.report.say(self.message)
            self._kill_tree()
            return
        self.report.event(events.LAUNCHED, pids=list(self.gang.pids))
        self._start_watch(self.gang)

    def _prepare_place(self, gang: Gang) -> None:
        """What the user's processes find when they start: the limit of their memory, the tracking endpoint."""
        from headway.runner import memory

        gang.enter = memory.volunteer
        if self.launch.tracking and TRACKING_URI not in self.launch.environment:
            from headway.runner.tracking import Tracking

            self.tracking = Tracking(self.launch, self.index, self.folder, self.loop, self.report)
            gang.extra = self.tracking.environment

    def _start_watch(self, gang: Gang) -> None:
        from headway.runner.describe import describe
        from headway.runner.watch import Watch

        self.watch = Watch(self.launch, self.index, self.report, gang, self.peers)
        self._check_amended()
        describe(self.report, self.launch, self.launch.cwd, gang.accelerators())

    def _fail(self, cause: Cause, message: str) -> None:
        """This node cannot go on, and so its gang cannot."""
        self.cause, self.message = cause, message
        if self.peers is not None:
            self.peers.abort(cause, message)

    def _look_at_peers(self, peers: Peers, now: float) -> None:
        self._check_asked()
        if (ended := peers.look(now)) is not None and self.cause is None:
            self._ask_to_end(*ended, Gang.GRACE)
        elif self.meeting and self.cause is None:
            self._launch()

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self.helper is not None and pid == self.helper.pid:
                self.helper.ended(status)
            elif self.stacks is not None and pid == self.stacks.pid:
                self.stacks.ended()
            elif self.tracking is not None and pid == self.tracking.pid:
                self.tracking.ended(os.waitstatus_to_exitcode(status))
            elif self.gang is not None:
                if status and pid in self.gang.pids:
                    # whoever took over may have ended it
                    self._check_fence()
                self._follow(self.gang, self.gang.ended(pid, os.waitstatus_to_exitcode(status), usage))

    def _follow(self, gang: Gang, failed: bool) -> None:
        """After a process ended: the others of a gang in which one failed, and what the last one left, are ended."""
        if failed and self.cause is None and self.watch is not None and gang.failure is not None:
            self.cause, self.message = self.watch.memory.rank_ended(gang.failure[1]) or (None, "")
        if failed and self.peers is not None and gang.failure is not None:
            self._tell_peers(self.peers, *gang.failure)
        if failed and gang.pids and self.kill_at is None:
            self.report.say(f"rank {gang.failure and gang.failure[0]} failed; the other ranks are ended")
            gang.signal(signal.SIGTERM)
            self._kill_by(gang.GRACE)
        if gang.launched is not None and not gang.pids and gang.outputs and self.deaf_at is None:
            # a process in the background holds our pipes open; it must not outlive the run
            self._kill_by(0.0)

    def _tell_peers(self, peers: Peers, rank: int, status: int) -> None:
        """A rank failed here. Unless we ended it, the others end with it, or it failed because another node had."""
        if self.cause not in (None, Cause.OOM_KILL):
            return
        cause, message = (self.cause, self.message) if self.cause is not None else ending.of_rank(rank, status)
        first = peers.abort(cause, message, rank, status)
        if first != self.index and (told := peers.look(time.monotonic())):
            self.cause, self.message = told

    def _besides(self) -> set[int]:
        """Processes of ours that are not the user's."""
        ours = (self.helper, self.stacks, self.tracking)
        return {one.pid for one in ours if one is not None and one.pid is not None}

    def _kill_by(self, seconds: float) -> None:
        at = time.monotonic() + seconds
        self.kill_at = at if self.kill_at is None else min(self.kill_at, at)

    def _kill_tree(self) -> None:
        """Kills what the user's processes started to the last one, whatever group or session it is in."""
        for _ in range(200):
            besides = self._besides()
            left = processes.tree(os.getpid(), besides)
            if not left and (besides or not processes.childless()):
                left = processes.tree(os.getpid(), besides, thorough=True)
            if not left:
                return
            for pid in left:
                processes.kill(pid)
            time.sleep(0.002)
            self._reap()
        self.report.say(f"processes {left} do not end")

    # -- asked to end

    def _check_asked(self, *, signalled: bool = False) -> None:
        """Looks at the fence and at stop.json. Several nodes are not signalled all: they look again and again."""
        self._check_fence()
        if self.stop_seen and not signalled and self.peers is None:
            return
        if (found := asked.to_end(self.folder, self.grace, signalled=signalled)) is None:
            return
        if self.stop_seen:
            # asked once more: only a shorter grace period changes anything
            if self.kill_at is not None:
                self._kill_by(found[2])
            return
        self.stop_seen = True
        # where our ranks stand is wanted too when another node of our gang found that it hangs
        self._end_here(*found, dump=found[0] in (Cause.HANG, Cause.IDLE_OUTPUT))

    def _check_fence(self) -> None:
        if (later := asked.later(self.folder)) > self.launch.number:
            self._ask_to_end(Cause.FENCED, f"attempt {later} of this run has taken over.", 0.0)

    def _end_for(self, ended: Ending | None) -> None:
        """Ends it here and, for what is not this node's own fault, on all nodes; prints the stacks before."""
        if ended is None:
            return
        cause, message, grace, dump = ended
        if self.peers is not None and cause is not Cause.OOM_KILL:
            self.peers.ask_all(cause, message, grace)
        elif self.peers is not None:
            self.peers.abort(cause, message)
        self._end_here(cause, message, grace, dump=dump)

    def _end_here(self, cause: Cause, message: str, grace: float, *, dump: bool) -> None:
        if not dump or not self._goes_on():
            self._ask_to_end(cause, message, grace)
            return
        from headway.runner.stacks import Stacks

        self.report.say(f"{message} Where each rank stands:")
        assert self.watch is not None
        pids = {pid: rank for pid, rank in self.watch.ranks(self._besides()).items() if rank is not None}
        self.ending = cause, message, grace
        self.stacks = Stacks(self.launch.stacks, pids, self.loop, self.report)
        self._look_at_stacks(self.stacks)

    def _look_at_stacks(self, stacks: Stacks) -> None:
        if stacks.done and self.ending is not None:
            found, self.ending, self.stacks = self.ending, None, None
            self._ask_to_end(*found)

    def _check_amended(self) -> None:
        """Limits that were changed while it runs."""
        if self.watch is not None and (changes := asked.amended(self.folder)) is not None:
            self.watch.amend(changes)

    @property
    def grace(self) -> float:
        return self.watch.grace if self.watch is not None else self.launch.grace

    def _check_folder(self) -> None:
        """An attempt whose folder was removed can be neither seen nor stopped any more: it ends by itself."""
        if not os.path.isdir(self.folder):
            self._ask_to_end(Cause.STOPPED, "the attempt's folder was removed.", self.grace)

    def _ask_to_end(self, cause: Cause, message: str, grace: float) -> None:
        gang = self.gang
        if self.cause is not None or gang is None or gang.failure is not None:
            return
        if gang.launched is not None and not gang.pids:
            return  # it ended by itself; only its outputs are being published
        self.cause, self.message = cause, message
        self.report.say(f"{message} SIGTERM now, SIGKILL after {grace:g} s")
        with open(os.path.join(self.report.sockets, "stop"), "wb"):
            pass
        self.report.event(events.STOPPING, cause=cause.value, grace=grace)
        gang.signal(signal.SIGTERM)
        self._kill_by(grace)

    # -- the helper

    def _appeared(self) -> bool:
        assert self.helper_waits_for is not None
        try:
            if os.listdir(self.helper_waits_for):
                return True
        except FileNotFoundError:
            pass
        if self.finder is None:
            from headway.protocol.summaries import Finder

            places = (self.launch.environment.get(names.OUTPUT_PATH), self.launch.cwd)
            self.finder = Finder(place for place in places if place)
        return bool(self.finder.look())

    def _call_helper(self) -> None:
        """Starts the helper that was waited with, once there is work for it."""
        if self.helper_waits_for is not None and self.helper is None and self._appeared():
            self._start_helper()

    def _start_helper(self) -> None:
        from headway.runner.helper import Helper

        assert self.launch.helper is not None
        environment = {
            **os.environ,
            names.ATTEMPT: self.launch.attempt,
            names.NODE_RANK: str(self.index),
            names.ATTEMPT_PATH: os.path.realpath(self.folder),
            names.HELPER: os.path.join(self.report.sockets, "helper"),
            names.NODE_RANK: str(self.index),
        }
        command = [*self.launch.helper, self.folder]
        assert self.gang is not None
        self.helper = Helper(command, environment, self.folder, self.loop, self.report, self.gang.channel.take)
        self._look_at_helper(self.helper)

    def _look_at_helper(self, helper: Helper) -> None:
        assert self.gang is not None
        if helper.failure is not None and self.cause is None:
            cause, message = helper.failure
            if self.gang.launched is not None:
                if self.peers is not None:
                    self.peers.ask_all(cause, message, self.grace)
                self._ask_to_end(cause, message, self.grace)
            else:
                self._fail(cause, message)
        elif helper.prepared and self.gang.launched is None and self.cause is None and not self.meeting:
            self.report.event(events.PREPARED)
            self._launch()

    def _finish_helper(self, helper: Helper) -> None:
        """Lets it publish what is left. After a stop it does not wait for ever."""
        helper.finish()
        patience = max(FINISH_SECONDS, self.grace)
        until = time.monotonic() + patience if self.cause is not None else None
        while helper.busy:
            self._turn()
            if self.stop_seen and until is None:
                until = time.monotonic() + patience
            if until is not None and time.monotonic() >= until and helper.pid is not None:
                self.report.say("the helper did not finish in time and is ended")
                helper.kill()
                until += patience

    # -- the end

    def _finish(self) -> None:
        assert self.gang is not None
        self.stacks = None  # if it still prints, it is killed with the others
        self._kill_tree()
        if self.watch is not None:
            self.watch.memory.close()
        self._finish_tracking()
        self.gang.channel.drain()
        self.gang.check_patterns(time.monotonic(), ended=True)
        if self.gang.launched is not None:
            self._call_helper()
        if self.helper is not None:
            if self.helper.prepared or self.gang.launched is not None:
                self._finish_helper(self.helper)
            else:
                self.helper.kill()
        failure = self.gang.failure
        if failure is None and self.cause is None and self.helper is not None and self.helper.failure is not None:
            # the user's part is done, but what it made could not be published
            self.cause, self.message = self.helper.failure
        if self.cause is None:
            self.cause, self.message = ending.of_gang(self.gang, self.folder)
        if self.gang.missed:
            text = f"The last {self.gang.missed} lines of the log are missing: the disk took none."
            self.report.say(text)
            self.message = f"{self.message.rstrip()} {text}"
        self._end(self.cause, self.message)

    def _finish_tracking(self) -> None:
        """Lets the tracking endpoint hand over what it has."""
        tracking = self.tracking
        if tracking is None:
            return
        tracking.finish()
        until = time.monotonic() + TRACKING_SECONDS
        while tracking.pid is not None:
            if time.monotonic() >= until:
                tracking.kill()
                until += TRACKING_SECONDS
            self.loop.turn(time.monotonic() + 0.02)
            self._reap()

    def _end(self, cause: Cause, message: str) -> None:
        """Writes an `Exit` (`protocol.exits`)."""
        if self.peers is not None and cause in ending.FAILURES:
            rank, status = self.gang.failure if self.gang is not None and self.gang.failure else (None, 0)
            self.peers.abort(cause, message, rank, status)
        self.report.say(f"ended: {cause.value}: {message}")
        self.report.end(ending.facts(self.gang, self.report.started, cause, message))
