"""What each cause means for people, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

from headway.protocol.exits import Cause


@dataclass(frozen=True)
class Finding:
    #: one sentence each; the remedy is empty where nothing is wrong
    sentence: str
    remedy: str


_FINDINGS = {
    Cause.DONE: Finding("Every process returned 0.", ""),
    Cause.EXIT: Finding("The command failed.", "Read the last lines of the run log: `headway logs RUN`."),
    Cause.KILLED: Finding(
        "A process died of a signal that headway did not send.",
        "Look whether the machine was short of memory (`dmesg`), or whether somebody killed it.",
    ),
    Cause.NOT_STARTED: Finding(
        "The command could not be started.", "Check that the program exists in the environment and is executable."
    ),
    Cause.PREPARE_FAILED: Finding(
        "Code or data could not be made ready.", "Read the diagnostic log: `headway logs RUN --kind diag`."
    ),
    Cause.STOPPED: Finding("It was stopped by request.", ""),
    Cause.TIME_LIMIT: Finding("It ran longer than its max_duration.", "Give it a longer one, or less to do."),
    Cause.OOM_KILL: Finding(
        "It used more memory than its spec has.", "Choose a spec with more memory, or a smaller batch."
    ),
    Cause.FENCED: Finding("A later attempt of the run had begun.", ""),
    Cause.RUNNER_LOST: Finding(
        "The runner died without a word.", "It is placed again up to `retries` times; look whether the node restarted."
    ),
    Cause.NODE_LOST: Finding("The node does not answer any more.", "It is placed again; look after the node."),
    Cause.PEER_FAILED: Finding("Another node of the gang failed.", "See what that one says."),
    Cause.RECLAIMED: Finding("Its place was taken back.", ""),
    Cause.PAUSED: Finding("It was paused by request.", ""),
    Cause.IDLE_OUTPUT: Finding(
        "It printed nothing for as long as its limit allows.",
        "Read its last lines with `headway logs RUN`; let it print now and then, or raise limits.idle_output.",
    ),
    Cause.NO_PROGRESS: Finding(
        "The chosen metric became no better for as long as its limit allows.",
        "Take its best checkpoint (`headway job checkpoints RUN`), or raise limits.no_progress.",
    ),
    Cause.NAN_METRIC: Finding(
        "A metric became NaN or infinite.",
        "Lower the learning rate or clip gradients, then go on from the last checkpoint: `headway job retry RUN`.",
    ),
    Cause.DISK_LIMIT: Finding(
        "It wrote more than its disk limit allows.",
        "Keep fewer checkpoints (keep_last), write less, or raise limits.disk_bytes.",
    ),
    Cause.HANG: Finding(
        "It neither printed anything nor did any work.",
        "The stacks of its ranks are in the diagnostic log: `headway logs RUN --kind diag`.",
    ),
    Cause.WAIT_LIMIT: Finding(
        "It waited and ran for longer than its max_wait.",
        "Give it a longer max_wait, a higher priority, or ask for less.",
    ),
    Cause.DEPENDENCY: Finding(
        "A job that it was to come after did not succeed.",
        "Run that one again, then this one: `headway job retry RUN`.",
    ),
}
assert set(_FINDINGS) == set(Cause)
#: ends by which nothing went wrong
_WANTED = (Cause.DONE, Cause.STOPPED, Cause.PAUSED)


def explain(cause: Cause, message: str = "") -> Finding:
    """The finding of a cause. message: what the runner said of this very end, put in front where there is any."""
    found = _FINDINGS[cause]
    if not message or cause in _WANTED:
        return found
    return Finding(message, found.remedy)
