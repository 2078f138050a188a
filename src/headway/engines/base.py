"""What an engine is: the place where attempts live. Everything else about a run goes through files.

Contract, held by `headway.testing.engines` for every implementation:

- Ownership: the engine starts runners and finds them again; it never parents them. Killing the process that holds the
  engine changes nothing for a run.
- `start` is idempotent by attempt: called twice, or again by another process after a crash, one runner exists.
- `observe` is batched, cheap, and says what is so now; it never blocks for longer than a directory listing. An attempt
  that was never started is UNKNOWN; one that wrote its exit.json is ENDED; one whose runner is gone without it is LOST.
  A process id that was reused is never taken for the runner.
- `stop` asks, and returns; the grace period is the runner's. Stopping what has ended, or stopping twice, is no error.
- `sweep` removes what an attempt without a living runner has left: processes (also in sessions of their own), sockets.
  It is called before a run is placed again, so that two attempts of one run never run at once.
- Threads: any method may be called from any thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

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
class Observation:
    presence: Presence
    #: last heartbeat, seconds since the epoch; None before the first
    heartbeat: float | None = None


class Engine(ABC):
    """One kind of place to run on. `root` is the shared root that all its nodes see."""

    #: the word in the record and the CLI: "local", "ray", "slurm"
    name: str

    @abstractmethod
    def nodes(self, now: float) -> list[Node]:
        """The nodes as they are now, with what each really has (or declares)."""

    @abstractmethod
    def start(self, launch: Launch) -> None:
        """Writes launch.json and starts the attempt's runners. Raises OSError when it can't be started at all."""

    @abstractmethod
    def observe(self, attempts: Iterable[str]) -> Mapping[str, Observation]:
        """The state of each attempt, in one go."""

    @abstractmethod
    def stop(self, attempt: str, *, grace: float, cause: str, message: str) -> None:
        """Asks the attempt to end: SIGTERM now, SIGKILL after `grace` seconds. cause: a value of `Cause`."""

    @abstractmethod
    def sweep(self, attempt: str) -> None:
        """Kills whatever the attempt has left behind. Only for an attempt whose runner is not alive."""
