"""The states of everything that has states, and every legal move. Whoever changes a state asks `check` first."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar


class RunState(str, Enum):
    #: not to be placed until released by hand
    HELD = "held"
    #: waits for a place
    QUEUED = "queued"
    #: has a place; its runner is being started or makes data and code ready
    STARTING = "starting"
    #: user processes exist
    RUNNING = "running"
    #: asked to end; the grace period runs
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"


class AttemptState(str, Enum):
    #: placed in the record; the engine may or may not have started it yet
    PLACED = "placed"
    #: the engine was told to start it
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


class NodeState(str, Enum):
    UP = "up"
    #: what runs there goes on, nothing new is placed (`headway node drain`)
    DRAINED = "drained"
    #: does not answer
    LOST = "lost"


class Billing(str, Enum):
    ON_DEMAND = "on_demand"
    #: may be reclaimed; cheaper
    SPOT = "spot"
    #: on machines that are paid for anyway: costs nothing more
    SUBSCRIPTION = "subscription"


class EvaluationState(str, Enum):
    #: cells are being dealt and run
    RUNNING = "running"
    #: a target is full; the cause is named; goes on by itself
    PAUSED = "paused"
    #: every cell is valid
    SUCCEEDED = "succeeded"
    #: cells are left that could not be made valid
    FAILED = "failed"
    STOPPED = "stopped"


class CellState(str, Enum):
    WAITING = "waiting"
    RUNNING = "running"
    #: published and verified: never run again
    VALID = "valid"
    #: tried, and what came out is not valid
    INVALID = "invalid"


class VersionState(str, Enum):
    """Model versions."""

    CHECKING = "checking"
    READY = "ready"
    INVALID = "invalid"


class ObjectState(str, Enum):
    """Objects of a project's data."""

    #: may be written now; nothing counts on it
    ARRIVING = "arriving"
    HERE = "here"
    #: was found not to be what it was: nothing new counts on it, and whoever sends it again mends it
    DAMAGED = "damaged"
    #: is being removed: nothing may be registered under its name before that is done
    REMOVING = "removing"


class PushState(str, Enum):
    OPEN = "open"
    PUBLISHED = "published"


class EndpointState(str, Enum):
    #: replicas are on their way
    STARTING = "starting"
    #: at least one replica answers
    READY = "ready"
    #: replicas end again and again; see the reason
    FAILED = "failed"
    STOPPED = "stopped"


S = TypeVar("S", bound=Enum)

RUN_MOVES: dict[RunState, frozenset[RunState]] = {
    RunState.HELD: frozenset({RunState.QUEUED, RunState.STOPPED, RunState.FAILED}),
    RunState.QUEUED: frozenset({RunState.HELD, RunState.STARTING, RunState.STOPPED, RunState.FAILED}),
    RunState.STARTING: frozenset(
        {
            *(RunState.RUNNING, RunState.STOPPING, RunState.QUEUED, RunState.HELD),
            *(RunState.SUCCEEDED, RunState.FAILED, RunState.STOPPED),
        }
    ),
    RunState.RUNNING: frozenset(
        {
            *(RunState.STOPPING, RunState.QUEUED, RunState.HELD),
            *(RunState.SUCCEEDED, RunState.FAILED, RunState.STOPPED),
        }
    ),
    # a run that was asked to stop may still have finished by itself
    # queued again after its place was reclaimed; held when somebody asked to pause it
    RunState.STOPPING: frozenset(
        {RunState.STOPPED, RunState.SUCCEEDED, RunState.FAILED, RunState.QUEUED, RunState.HELD}
    ),
    RunState.SUCCEEDED: frozenset(),
    # retried by hand
    RunState.FAILED: frozenset({RunState.QUEUED}),
    RunState.STOPPED: frozenset({RunState.QUEUED}),
}

ATTEMPT_MOVES: dict[AttemptState, frozenset[AttemptState]] = {
    AttemptState.PLACED: frozenset({AttemptState.STARTING, AttemptState.ENDED}),
    AttemptState.STARTING: frozenset({AttemptState.RUNNING, AttemptState.STOPPING, AttemptState.ENDED}),
    AttemptState.RUNNING: frozenset({AttemptState.STOPPING, AttemptState.ENDED}),
    AttemptState.STOPPING: frozenset({AttemptState.ENDED}),
    AttemptState.ENDED: frozenset(),
}

EVALUATION_MOVES: dict[EvaluationState, frozenset[EvaluationState]] = {
    EvaluationState.RUNNING: frozenset(
        {EvaluationState.PAUSED, EvaluationState.SUCCEEDED, EvaluationState.FAILED, EvaluationState.STOPPED}
    ),
    EvaluationState.PAUSED: frozenset({EvaluationState.RUNNING, EvaluationState.FAILED, EvaluationState.STOPPED}),
    # an output was found damaged
    EvaluationState.SUCCEEDED: frozenset({EvaluationState.RUNNING, EvaluationState.FAILED}),
    EvaluationState.FAILED: frozenset({EvaluationState.RUNNING}),
    EvaluationState.STOPPED: frozenset({EvaluationState.RUNNING}),
}

CELL_MOVES: dict[CellState, frozenset[CellState]] = {
    CellState.WAITING: frozenset({CellState.RUNNING, CellState.VALID, CellState.INVALID}),
    CellState.RUNNING: frozenset({CellState.WAITING, CellState.VALID, CellState.INVALID}),
    # only a failed verification of its files takes a valid cell back
    CellState.VALID: frozenset({CellState.INVALID, CellState.WAITING}),
    CellState.INVALID: frozenset({CellState.WAITING, CellState.RUNNING, CellState.VALID}),
}

VERSION_MOVES: dict[VersionState, frozenset[VersionState]] = {
    VersionState.CHECKING: frozenset({VersionState.READY, VersionState.INVALID}),
    VersionState.READY: frozenset(),
    VersionState.INVALID: frozenset({VersionState.CHECKING}),
}

ENDPOINT_MOVES: dict[EndpointState, frozenset[EndpointState]] = {
    EndpointState.STARTING: frozenset({EndpointState.READY, EndpointState.FAILED, EndpointState.STOPPED}),
    EndpointState.READY: frozenset({EndpointState.STARTING, EndpointState.FAILED, EndpointState.STOPPED}),
    EndpointState.FAILED: frozenset({EndpointState.STARTING, EndpointState.STOPPED}),
    EndpointState.STOPPED: frozenset({EndpointState.STARTING}),
}

#: runs that occupy resources now
LIVE_RUNS = frozenset({RunState.STARTING, RunState.RUNNING, RunState.STOPPING})
#: runs that will not change any more by themselves
ENDED_RUNS = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.STOPPED})
OPEN_RUNS = frozenset(RunState) - ENDED_RUNS
LIVE_ATTEMPTS = frozenset(AttemptState) - {AttemptState.ENDED}


class IllegalMoveError(ValueError):
    """A state was asked to become one that cannot follow it: a fault of the program, never of its user."""


def legal(moves: dict[S, frozenset[S]], old: S, new: S) -> bool:
    return new in moves[old]


def check(moves: dict[S, frozenset[S]], old: S, new: S) -> S:
    """`new`, when it may follow `old`. Raises IllegalMoveError otherwise."""
    if not legal(moves, old, new):
        raise IllegalMoveError(f"{type(old).__name__}: {old.value} cannot become {new.value}")
    return new
