"""What an engine is: the place where attempts live. Everything else about a run goes through files.

Contract, held by `headway.testing.engines` for every implementation:

- Ownership: the engine starts runners and finds them again; it never parents them. Killing the process that holds the
  engine changes nothing for a run.
- Nodes: an attempt has one runner on each node of its launch; they are all started, stopped and swept, or none.
- `start` is idempotent by attempt: called twice, or again by another process after a crash, one runner a node exists.
  One that could start some of the runners only raises; called again, it starts those that are missing.
- `observe` is batched, cheap, and says what is so now; it never blocks for longer than a directory listing. A node
  whose runner was never started is UNKNOWN; one that wrote its exit.json is ENDED; one whose runner is gone without it
  is LOST. The attempt is LOST as soon as one of its nodes is, ENDED when all are, STARTING while a runner has not come,
  else ALIVE. A process id that was reused is never taken for the runner. Whether a runner that looks alive does
  anything is for the caller to tell, by its heartbeats.
- `stop` asks every node, and returns; the grace period is the runners'. Stopping what has ended, or stopping twice, is
  no error; asked twice, the shorter grace period holds.
- `amend` tells every node what changed of a running attempt; what was told before and is left out is as in launch.json.
- `sweep` removes what runners that do not live have left: processes (also in sessions of their own), sockets. It never
  touches a node whose runner lives, nor what that one started, unless it is said to be lost: then what it started is
  ended as far as the engine reaches it, while the runner is left to find its fence. It is called before a run is placed
  again, so that two attempts of one run never run at once; a node that was swept before its runner came stays without.
- Threads: any method may be called from any thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from headway.protocol.launch import Launch
from headway.rules.records import Node


class Presence(str, Enum):
    #: no runner was ever started for it
    UNKNOWN = "unknown"
    #: handed to the engine, no runner seen yet
    STARTING = "starting"
    ALIVE = "alive"
    #: exit.json is there
    ENDED = "ended"
    #: the runner is gone and left no exit.json
    LOST = "lost"


@dataclass(frozen=True)
class NodeObservation:
    """One node of an attempt."""

    presence: Presence
    #: last heartbeat, seconds since the epoch by that node's clock; None before the first
    heartbeat: float | None = None


@dataclass(frozen=True)
class Observation:
    """An attempt as a whole, and each of its nodes."""

    presence: Presence
    #: newest heartbeat of any node, seconds since the epoch; None before the first
    heartbeat: float | None = None
    #: in the order of the launch's nodes; empty where nothing is known of any
    nodes: tuple[NodeObservation, ...] = ()

    @classmethod
    def of(cls, nodes: Sequence[NodeObservation]) -> Observation:
        """What the nodes are together, as the contract says."""
        seen = {node.presence for node in nodes}
        if Presence.LOST in seen:
            whole = Presence.LOST
        elif len(seen) == 1:
            whole = nodes[0].presence
        elif seen & {Presence.STARTING, Presence.UNKNOWN}:
            whole = Presence.STARTING
        else:
            whole = Presence.ALIVE
        beats = [node.heartbeat for node in nodes if node.heartbeat is not None]
        return cls(whole, max(beats, default=None), tuple(nodes))


class Engine(ABC):
    """One kind of place to run on. `root` is the shared root that all its nodes see."""

    #: the word in the record and the CLI: "local", "ray", "slurm"
    name: str

    @abstractmethod
    def nodes(self, now: float) -> list[Node]:
        """The nodes as they are now, with what each really has (or declares)."""

    @abstractmethod
    def start(self, launch: Launch) -> None:
        """Writes launch.json and starts the attempt's runners. Raises OSError when one of them can't be started."""

    @abstractmethod
    def observe(self, attempts: Iterable[str]) -> Mapping[str, Observation]:
        """The state of each attempt, in one go."""

    @abstractmethod
    def stop(self, attempt: str, *, grace: float, cause: str, message: str) -> None:
        """Asks the attempt to end: SIGTERM now, SIGKILL after `grace` seconds. cause: a value of `Cause`."""

    @abstractmethod
    def amend(self, attempt: str, changes: Mapping[str, Any]) -> None:
        """Tells a running attempt what holds from now on: any of "max_duration", "grace", "limits". Raises OSError."""

    @abstractmethod
    def sweep(self, attempt: str, node: int | None = None, *, lost: bool = False) -> None:
        """Kills whatever the attempt has left behind on `node` (None: on all), where no runner is alive.

        lost: also where one looks alive, as its node was given up and the attempt is fenced.
        """
