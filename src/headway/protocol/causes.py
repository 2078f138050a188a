"""Why an attempt ended: the closed list. Apart from `exits` because a runner needs no more than this."""

from __future__ import annotations

from enum import Enum


class Cause(str, Enum):
    """Why an attempt ended. Closed: a new cause is a new rule in `rules.retries`."""

    #: every user process returned 0
    DONE = "done"
    #: a user process returned something else than 0
    EXIT = "exit"
    #: a user process died of a signal that headway did not send
    KILLED = "killed"
    #: the command could not be started at all (no such program, not executable)
    NOT_STARTED = "not_started"
    #: data, code or environment could not be made ready
    PREPARE_FAILED = "prepare_failed"
    #: ended because somebody asked (`headway stop`)
    STOPPED = "stopped"
    #: ran longer than its `max_duration`
    TIME_LIMIT = "time_limit"
    #: used more memory than it may
    OOM_KILL = "oom_kill"
    #: a later attempt of the same run exists
    FENCED = "fenced"
    #: the runner died and left no exit.json (told by the engine), or its helper died again and again
    RUNNER_LOST = "runner_lost"
    #: the node does not answer any more (told by the engine)
    NODE_LOST = "node_lost"
    #: another node of the gang failed, and this one was ended with it; never the cause of a whole attempt
    PEER_FAILED = "peer_failed"
    #: its place was taken back: by an on-demand run, the price, the machine's own notice, or `headway node reclaim`
    RECLAIMED = "reclaimed"
    #: ended because somebody asked to pause it; it goes on when released
    PAUSED = "paused"
    #: printed nothing for as long as its limit allows
    IDLE_OUTPUT = "idle_output"
    #: the chosen metric became no better for as long as its limit allows
    NO_PROGRESS = "no_progress"
    #: a metric became NaN or infinite where that is not allowed
    NAN_METRIC = "nan_metric"
    #: wrote more than it may under OUTPUT_PATH, CHECKPOINT_PATH and its working folder
    DISK_LIMIT = "disk_limit"
    #: neither printed anything nor used a device (or, without one, a CPU) for too long
    HANG = "hang"
    #: waited and ran for longer than `max_wait`
    WAIT_LIMIT = "wait_limit"
    #: a run that it was to come after did not succeed
    DEPENDENCY = "dependency"
