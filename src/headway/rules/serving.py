"""How many replicas an endpoint has and should have, and what state that makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headway.protocol.exits import Cause
from headway.rules.records import Endpoint, Revision, Run
from headway.rules.states import ENDED_RUNS, EndpointState, RunState

#: crashes in a row after which the endpoint says so
CRASHES = 5
_LONGEST_PAUSE = 60.0


@dataclass(frozen=True)
class Replica:
    run: Run
    revision: int
    ready: bool


@dataclass(frozen=True)
class Step:
    start: int = 0
    stop: list[Run] = field(default_factory=list)
    state: EndpointState | None = None
    reason: str = ""


def decide(endpoint: Endpoint, revision: Revision, replicas: Sequence[Replica], now: float) -> Step:
    """replicas: every run of the endpoint, newest first."""
    mine = [r for r in replicas if r.revision == revision.number and r.run.created_at >= revision.created_at]
    live = [r for r in mine if r.run.state not in ENDED_RUNS]
    ready = [r for r in live if r.ready]
    older = [r for r in replicas if r.revision != revision.number and r.run.state not in ENDED_RUNS]
    expired = [r for r in mine if r.run.cause is Cause.TIME_LIMIT]
    if expired and not live:
        return Step(0, [r.run for r in older], EndpointState.STOPPED, f"Its replica {expired[0].run.reason}")
    state = EndpointState.READY if ready or any(r.ready for r in older) else EndpointState.STARTING
    reason = ""
    crashes = _crashes(mine)
    missing = 0 if expired else revision.replicas - len(live)
    if crashes and missing > 0:
        last = max(r.run.ended_at or 0.0 for r in mine)
        reason = f"Replica {mine[0].run.id} ended: {mine[0].run.reason}"
        if not ready and crashes >= CRASHES:
            state = EndpointState.FAILED
        if now < last + min(_LONGEST_PAUSE, 2.0 ** (crashes - 1)):
            missing = 0
    surplus = [r.run for r in sorted(live, key=lambda r: r.ready)][: max(0, len(live) - revision.replicas)]
    stop = surplus + ([r.run for r in older] if len(ready) >= revision.replicas else [])
    return Step(max(0, missing), stop, state, reason)


def _crashes(mine: Sequence[Replica]) -> int:
    """Replicas that failed in a row, newest first; one that lives ends the row only once it is ready."""
    count = 0
    for replica in mine:
        if replica.ready and replica.run.state not in ENDED_RUNS:
            break
        if replica.run.state is RunState.FAILED:
            count += 1
        elif replica.run.state in ENDED_RUNS:
            break
    return count
