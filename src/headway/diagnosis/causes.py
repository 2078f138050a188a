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
}
assert set(_FINDINGS) == set(Cause)


def explain(cause: Cause, message: str = "") -> Finding:
    """The finding of a cause. message: what the runner said of this very end, put in front where there is any."""
    found = _FINDINGS[cause]
    if not message or cause in (Cause.DONE, Cause.STOPPED):
        return found
    return Finding(message, found.remedy)
