"""One end of an attempt, made of the ends of its nodes: which of them was the first to go, and why. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headway.protocol.exits import Cause, Exit

#: ends that follow from another node's, or from a later attempt: of several nodes they explain nothing
FOLLOWERS = frozenset({Cause.DONE, Cause.PEER_FAILED, Cause.FENCED})
#: of nodes that could not say why they ended
LOSSES = frozenset({Cause.RUNNER_LOST, Cause.NODE_LOST})
#: what every node of a gang is asked to end for; a node that is lost meanwhile changes nothing about that
ASKED = frozenset(
    {
        *(Cause.STOPPED, Cause.PAUSED, Cause.RECLAIMED, Cause.TIME_LIMIT, Cause.IDLE_OUTPUT),
        *(Cause.NO_PROGRESS, Cause.NAN_METRIC, Cause.DISK_LIMIT, Cause.HANG),
    }
)
#: what ranks do whose peers on another node vanished: the connection breaks, and they raise or abort
_CONSEQUENCES = frozenset({Cause.EXIT, Cause.KILLED})
#: causes that lie with one node, whose name people want to know
_LOCAL = frozenset(
    {
        *(Cause.EXIT, Cause.KILLED, Cause.NOT_STARTED, Cause.PREPARE_FAILED),
        *(Cause.OOM_KILL, Cause.RUNNER_LOST, Cause.NODE_LOST),
    }
)


@dataclass(frozen=True)
class First:
    """The node that the end of the whole lies with."""

    node: int
    end: Exit


def combine(ends: Sequence[Exit | None], *, nodes: Sequence[str] = (), abort: Mapping[str, Any] | None = None) -> Exit:
    """The end of an attempt whose nodes ended with `ends`; None: a node that left no word.

    nodes: their names. abort: what abort.json says, if there is one. Of one node its end is that of the attempt. Of
    several the cause, code, signal and rank are those of the first to fail, which the sentence names; times span all.
    Raises ValueError without any node.
    """
    found = [_known(end, ends) for end in ends]
    if len(found) == 1:
        return found[0]
    chosen = first(ends, abort=abort)
    name = nodes[chosen.node] if chosen.node < len(nodes) else f"node {chosen.node}"
    return replace(
        chosen.end,
        message=_sentence(chosen.end, name),
        started=min(end.started for end in found),
        launched=min((end.launched for end in found if end.launched is not None), default=None),
        ended=max(end.ended for end in found),
        usage=_usage(found),
    )


def first(ends: Sequence[Exit | None], *, abort: Mapping[str, Any] | None = None) -> First:
    """The node that explains the end: that of which abort.json tells, else the earliest whose end follows no other's.

    A node that was lost before another's ranks failed comes first, as these most likely failed for want of it. Raises
    ValueError without any node.
    """
    if not ends:
        raise ValueError("an attempt has at least one node")
    found = [_known(end, ends) for end in ends]
    if (asked := _earliest(found, ASKED)) is not None and not _own_fault(found, abort):
        return asked
    causes = frozenset(Cause) - FOLLOWERS
    if (told := _told(found, abort)) is not None:
        return _lost_before(found, told, _time(abort, told.end)) or told
    if (own := _earliest(found, causes - LOSSES)) is not None:
        return _lost_before(found, own, own.end.ended) or own
    if (lost := _earliest(found, causes)) is not None:
        return lost
    if (fenced := _earliest(found, frozenset({Cause.FENCED}))) is not None:
        return fenced
    followers = [i for i, end in enumerate(found) if end.cause is Cause.PEER_FAILED]
    if not followers:
        return First(0, found[0])
    chosen = min(followers, key=lambda i: found[i].ended)
    return First(chosen, replace(found[chosen], cause=Cause.RUNNER_LOST))


def _lost_before(ends: Sequence[Exit], failed: First, at: float) -> First | None:
    """Another node that was lost before `failed` failed at `at`: its last sign of life is older."""
    if failed.end.cause not in _CONSEQUENCES:
        return None
    among = [i for i, end in enumerate(ends) if i != failed.node and end.cause in LOSSES and end.ended <= at]
    chosen = min(among, key=lambda i: (ends[i].ended, i), default=None)
    return None if chosen is None else First(chosen, ends[chosen])


def _time(abort: Mapping[str, Any] | None, end: Exit) -> float:
    at = (abort or {}).get("at")
    return float(at) if isinstance(at, (int, float)) else end.ended


def _earliest(ends: Sequence[Exit], causes: frozenset[Cause]) -> First | None:
    """The first of those that ended for one of `causes`; of two at once the one with the smaller index."""
    among = [i for i, end in enumerate(ends) if end.cause in causes]
    chosen = min(among, key=lambda i: (ends[i].ended, i), default=None)
    return None if chosen is None else First(chosen, ends[chosen])


def _own_fault(ends: Sequence[Exit], abort: Mapping[str, Any] | None) -> bool:
    """Whether something else than a request and its consequences, or the loss of a node, ended one of them."""
    cause = _cause(abort)
    if cause is not None and cause not in FOLLOWERS | LOSSES | ASKED:
        return True
    return any(end.cause not in FOLLOWERS | LOSSES | ASKED for end in ends)


def _cause(abort: Mapping[str, Any] | None) -> Cause | None:
    try:
        return Cause((abort or {}).get("cause"))
    except ValueError:
        return None


def _told(ends: Sequence[Exit], abort: Mapping[str, Any] | None) -> First | None:
    """What abort.json tells, with what that node itself says about it; None when it tells nothing of use."""
    cause = _cause(abort)
    if abort is None or cause is None or cause in FOLLOWERS:
        return None
    index = abort.get("node")
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(ends):
        return None
    own = ends[index]
    if own.cause not in FOLLOWERS and (own.cause not in LOSSES or cause in LOSSES):
        return First(index, own)
    message = str(abort.get("message") or own.message)
    code, died, rank = (_number(abort.get(name)) for name in ("code", "signal", "rank"))
    return First(index, replace(own, cause=cause, message=message, code=code, signal=died, rank=rank))


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _known(end: Exit | None, ends: Sequence[Exit | None]) -> Exit:
    """Of a node that left no word: lost, and nobody knows when."""
    if end is not None:
        return end
    started = min((e.started for e in ends if e is not None), default=0.0)
    return Exit(Cause.RUNNER_LOST, None, None, None, "its runner is gone without a word.", started, None, started)


def _sentence(end: Exit, name: str) -> str:
    if end.cause not in _LOCAL:
        return end.message
    if end.message.startswith(f"node {name} "):
        return end.message
    if end.message.startswith(f"{name} "):
        # a name that begins a sentence would get a capital letter
        return f"node {end.message}"
    text = end.message.strip() or f"{end.cause.value.replace('_', ' ')}."
    return f"On {name}: {text}"


def _usage(ends: Sequence[Exit]) -> dict[str, float]:
    """CPU time of all together; of memory the largest, as a node's is that of its largest process."""
    return {
        "cpu_seconds": sum(float(end.usage.get("cpu_seconds", 0.0)) for end in ends),
        "max_rss_bytes": max(float(end.usage.get("max_rss_bytes", 0.0)) for end in ends),
    }
