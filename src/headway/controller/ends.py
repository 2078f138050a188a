"""How attempts end: what their nodes left, who is given up, and the one end that all that makes.

A node is given up when its heartbeat has not changed for `node_patience` seconds of our monotonic clock while we looked
regularly: then its attempt is fenced, so that a runner which comes back finds that it may not go on. Of a gang that
lost a node the others are asked to end at once; its end is known when none of them is left.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headway.controller.loop import Desk
from headway.engines.base import NodeObservation, Observation, Presence
from headway.protocol import events
from headway.protocol.exits import Cause, Exit
from headway.protocol.files import AttemptFolder, read_json, read_records, write_first, write_whole
from headway.rules import gangs
from headway.rules.records import Attempt
from headway.rules.states import AttemptState

#: a node whose heartbeat has not changed for that long is given up
NODE_PATIENCE = 30.0
#: after a longer pause between two looks a silence counts anew: it was us who slept
GAP_SECONDS = 10.0
#: an attempt whose folder is gone for that long has ended: its runner has seen it too, and used up its grace period
REMOVED_PATIENCE = 60.0
#: an exit.json that cannot be read for that long never will be: its node is lost
READ_PATIENCE = 10.0
#: from SIGTERM to SIGKILL for what is left of a gang that lost a node; none can go on without it
OTHERS_GRACE = 5.0

_GONE = "its runner is gone without a word."
_log = logging.getLogger(__name__)


class Since:
    """How long something has been so without a break, by the monotonic clock."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], float] = {}

    def lasts(self, attempt: str, trouble: str, so: bool, patience: float) -> bool:
        """Whether `trouble` has now been so for `patience` seconds."""
        if not so:
            self._since.pop((attempt, trouble), None)
            return False
        now = time.monotonic()
        return now - self._since.setdefault((attempt, trouble), now) >= patience

    def keep(self, attempts: Collection[str]) -> None:
        self._since = {key: at for key, at in self._since.items() if key[0] in attempts}


@dataclass(frozen=True)
class Ended:
    end: Exit
    #: names of the nodes that it lies with
    nodes: tuple[str, ...] = ()


class Ends:
    """One a controller. Not for several threads."""

    def __init__(self, desk: Desk, *, node_patience: float = NODE_PATIENCE) -> None:
        self.desk, self.node_patience = desk, node_patience
        self._since = Since()
        #: attempt -> monotonic time of the last look at it
        self._looked: dict[str, float] = {}
        #: (attempt, node) -> its heartbeat and since when it is the same
        self._beats: dict[tuple[str, int], tuple[float | None, float]] = {}
        #: attempt -> nodes that were given up, with a sentence
        self._given_up: dict[str, dict[int, str]] = {}
        #: gangs of which the others were asked to end
        self._told: set[str] = set()

    def keep(self, attempts: Collection[str]) -> None:
        """Forgets all but these."""
        self._since.keep(attempts)
        self._looked = {a: at for a, at in self._looked.items() if a in attempts}
        self._beats = {key: beat for key, beat in self._beats.items() if key[0] in attempts}
        self._given_up = {a: nodes for a, nodes in self._given_up.items() if a in attempts}
        self._told &= set(attempts)

    def look(self, attempt: Attempt, observation: Observation) -> Ended | None:
        """The attempt's end; None while it goes on, or while that is not known for sure. Raises LeaseLostError."""
        folder = AttemptFolder.of(self.desk.services.root, attempt.id)
        nodes = observation.nodes or (NodeObservation(observation.presence, observation.heartbeat),) * _count(attempt)
        if observation.presence is Presence.UNKNOWN:
            removed = self._removed(attempt)
            if not self._since.lasts(attempt.id, "folder", removed, REMOVED_PATIENCE):
                return None
            return Ended(_lost(attempt, nodes[0], Cause.RUNNER_LOST, "its folder was removed."))
        self._since.lasts(attempt.id, "folder", False, REMOVED_PATIENCE)
        self._find_silent(attempt, nodes, folder)
        given_up = self._given_up.get(attempt.id, {})
        lost = {i for i, node in enumerate(nodes) if node.presence is Presence.LOST} | set(given_up)
        left = [i for i, node in enumerate(nodes) if i not in lost and node.presence is not Presence.ENDED]
        if left:
            if lost:
                self._end_others(attempt, folder, min(lost), given_up)
            return None
        return self._combine(attempt, observation, nodes, folder, lost)

    def _removed(self, attempt: Attempt) -> bool:
        """Whether the folder of an attempt that ran is gone, while the root that it lay in is there."""
        return attempt.started_at is not None and (self.desk.services.root / "attempts").is_dir()

    # -- nodes that are silent

    def _find_silent(self, attempt: Attempt, nodes: Sequence[NodeObservation], folder: AttemptFolder) -> None:
        now = time.monotonic()
        regular = now - self._looked.get(attempt.id, -math.inf) < GAP_SECONDS
        self._looked[attempt.id] = now
        for index, node in enumerate(nodes):
            key = attempt.id, index
            known = self._beats.get(key)
            if node.presence is not Presence.ALIVE:
                self._beats.pop(key, None)
            elif not regular or known is None or known[0] != node.heartbeat:
                self._beats[key] = node.heartbeat, now
            elif now - known[1] >= self.node_patience and index not in self._given_up.get(attempt.id, {}):
                with self.desk.isolated(f"node {index} of attempt {attempt.id}, which does not answer"):
                    self._give_up(attempt, index, now - known[1], folder)

    def _give_up(self, attempt: Attempt, index: int, silent: float, folder: AttemptFolder) -> None:
        name = _name(attempt, index)
        self.desk.assure()
        # first the fence: whatever comes back from there finds it. Where it cannot be written nobody is given up:
        # it may well be the shared root that is away, and not the node
        write_whole(folder.fence, str(attempt.number + 1).encode())
        sentence = f"node {name} is lost: no heartbeat for {silent:.0f} s."
        _log.warning("attempt %s: %s", attempt.id, sentence)
        self._given_up.setdefault(attempt.id, {})[index] = sentence

    def _end_others(self, attempt: Attempt, folder: AttemptFolder, index: int, given_up: Mapping[int, str]) -> None:
        """Of a gang that lost a node: nobody waits for it. Once an attempt."""
        if attempt.id in self._told:
            return
        name = _name(attempt, index)
        cause = Cause.NODE_LOST if index in given_up else Cause.RUNNER_LOST
        message = given_up.get(index, _GONE)
        self.desk.assure()
        # who was first may stand there already
        facts = {"node": index, "rank": None, "code": None, "signal": None, "cause": cause.value}
        write_first(folder.abort, {**facts, "message": message, "at": time.time(), "by": "controller"})
        text = message if index in given_up else f"{name}: {message}"
        self.desk.engine.stop(attempt.id, grace=OTHERS_GRACE, cause=Cause.PEER_FAILED.value, message=text)
        self._told.add(attempt.id)

    # -- the end

    def _combine(
        self,
        attempt: Attempt,
        observation: Observation,
        nodes: Sequence[NodeObservation],
        folder: AttemptFolder,
        lost: Collection[int],
    ) -> Ended | None:
        given_up = self._given_up.get(attempt.id, {})
        found: dict[int, Exit] = {}
        wrong: dict[int, str] = {}
        for index, node in enumerate(nodes):
            if index in given_up:
                found[index] = _lost(attempt, node, Cause.NODE_LOST, given_up[index], folder, index)
            elif index not in lost:
                try:
                    found[index] = _exit(read_json(folder.node(index).exit))
                except (OSError, ValueError, TypeError, LookupError) as error:
                    if self.desk.quiet.due(f"exit of {attempt.id}"):
                        _log.error("exit.json of attempt %s cannot be read: %r", attempt.id, error)
                    wrong[index] = f"its end is not known: exit.json cannot be read ({error})."
        if not self._since.lasts(attempt.id, "exit", bool(wrong), READ_PATIENCE) and wrong:
            return None
        if (lost or wrong) and not self._sweep(attempt, observation, bool(given_up)):
            return None
        for index, node in enumerate(nodes):
            if index not in found:
                found[index] = _lost(attempt, node, Cause.RUNNER_LOST, wrong.get(index, _GONE), folder, index)
        return self._ended(attempt, [found[index] for index in range(len(nodes))], folder)

    def _sweep(self, attempt: Attempt, observation: Observation, given_up: bool) -> bool:
        """Whether nothing is left that may go on: it must be gone before anybody takes its place."""
        self.desk.assure()
        if given_up:
            with self.desk.isolated(f"sweep of attempt {attempt.id}, of which a node is lost"):
                self.desk.engine.sweep(attempt.id, lost=True)
            return True
        self.desk.engine.sweep(attempt.id)
        # a runner that was slow to come, or only seemed to be gone, ends in its own time
        return self.desk.engine.observe([attempt.id])[attempt.id].presence is observation.presence

    def _ended(self, attempt: Attempt, ends: Sequence[Exit], folder: AttemptFolder) -> Ended:
        abort = None
        if len(ends) > 1:
            try:
                abort = read_json(folder.abort)
            except (OSError, ValueError):
                pass
        names = [_name(attempt, index) for index in range(len(ends))]
        abort = abort if isinstance(abort, dict) else None
        end = gangs.combine(ends, nodes=names, abort=abort)
        first = gangs.first(ends, abort=abort)
        gone = [names[i] for i, e in enumerate(ends) if e.cause is Cause.NODE_LOST]
        if attempt.reclaim_at is not None and end.cause in (Cause.RUNNER_LOST, Cause.NODE_LOST):
            # it was to leave, and its machine went first
            words = attempt.reclaim_reason.strip() or "its place was taken back."
            end = replace(end, cause=Cause.RECLAIMED, message=words)
        return Ended(end, tuple(gone) if end.cause is Cause.NODE_LOST and gone else (names[first.node],))


def _count(attempt: Attempt) -> int:
    return max(1, len(attempt.placement))


def _name(attempt: Attempt, index: int) -> str:
    placed = attempt.placement[index] if index < len(attempt.placement) else {}
    return str(placed.get("node") or f"node {index}")


def _lost(
    attempt: Attempt,
    node: NodeObservation,
    cause: Cause,
    message: str,
    folder: AttemptFolder | None = None,
    index: int = 0,
) -> Exit:
    """The end of a node that cannot tell it. What it was about to end for, if it had said so, is what it ended for."""
    began = attempt.started_at or attempt.created_at
    end = Exit(cause, None, None, None, message, began, attempt.launched_at, max(began, node.heartbeat or began))
    asked = _was_ending(folder, index) if folder is not None else None
    if asked is None:
        return end
    try:
        told = read_json(folder.stop) if folder is not None else None
    except (OSError, ValueError):
        told = None
    words = str(told.get("message") or "") if isinstance(told, dict) and told.get("cause") == asked.value else ""
    text = words or f"it had to end ({asked.value.replace('_', ' ')}) and was gone before that was done."
    return replace(end, cause=asked, message=text)


def _was_ending(folder: AttemptFolder, index: int) -> Cause | None:
    """What the runner last said that it ends for, where that is something that all nodes are asked to end for."""
    cause: Cause | None = None
    cursor, after = -1, 0
    while cursor != after:
        cursor = after
        try:
            block, after = read_records(folder.node(index).events, cursor)
        except OSError:
            break
        for event in block:
            if event.get("event") == events.STOPPING:
                try:
                    cause = Cause(event.get("cause"))
                except ValueError:
                    cause = None
    return cause if cause in gangs.ASKED else None


def _exit(raw: Any) -> Exit:
    """The content of an exit.json. Raises ValueError, TypeError or LookupError when it is none."""
    end = Exit.from_json(raw)
    if not (math.isfinite(end.started) and math.isfinite(end.ended)):
        raise ValueError("a time in it is no number")
    codes = [None if n is None else int(n) for n in (end.code, end.signal)]
    return replace(end, code=codes[0], signal=codes[1], message=str(end.message))


def starting(attempt: Attempt, observation: Observation) -> bool:
    """Whether a runner of an attempt that was started has not come."""
    if attempt.state is AttemptState.STARTING:
        return observation.presence in (Presence.STARTING, Presence.UNKNOWN)
    # of a gang the first runner may be there long before the last
    return attempt.state is AttemptState.RUNNING and observation.presence is Presence.STARTING
