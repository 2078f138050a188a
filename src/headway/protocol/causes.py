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
