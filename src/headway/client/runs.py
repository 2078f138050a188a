"""Runs: look, follow, stop, pause, change, retry; their logs, metrics and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from headway.client.logs import Logs
from headway.client.transport import Transport, build
from headway.wire.metrics import MetricSeries, UsageSeries
from headway.wire.runs import AttemptView, ChangeRequest, CheckpointView, RunView, StopRequest

ENDED = frozenset({"succeeded", "failed", "stopped"})


class Runs(Logs):
    def __init__(self, transport: Transport, project: str) -> None:
        self._transport = transport
        self.project = project

    def ls(
        self,
        *,
        state: str | None = None,
        owner: str | None = None,
        owner_id: int | None = None,
        before: int | None = None,
        limit: int | None = None,
    ) -> list[RunView]:
        """Newest first. state: one state, or "live"; before: only ids smaller than this."""
        params = {"state": state, "owner": owner, "owner_id": owner_id, "before": before, "limit": limit}
        found = self._transport.call("GET", f"/projects/{self.project}/runs", params=params)
        return [RunView.model_validate(r) for r in found]

    def get(self, run: int) -> RunView:
        return RunView.model_validate(self._transport.call("GET", f"/runs/{run}"))

    def stop(self, run: int, *, reason: str = "", grace: float | None = None) -> RunView:
        """Asks the run to end. grace: seconds from SIGTERM to SIGKILL; None: the run's own."""
        body = StopRequest(reason=reason, grace=grace)
        return RunView.model_validate(self._transport.call("POST", f"/runs/{run}/stop", body=body))

    def hold(self, run: int) -> RunView:
        return RunView.model_validate(self._transport.call("POST", f"/runs/{run}/hold"))

    def release(self, run: int) -> RunView:
        return RunView.model_validate(self._transport.call("POST", f"/runs/{run}/release"))

    def pause(self, run: int) -> RunView:
        """Has it save and leave its place; `resume` lets it go on from there."""
        return RunView.model_validate(self._transport.call("POST", f"/runs/{run}/pause"))

    def resume(self, run: int) -> RunView:
        return self.release(run)

    def change(self, run: int, **changes: Any) -> RunView:
        """Changes a job that waits or runs. changes: fields of `wire.runs.ChangeRequest`; others stay."""
        body = build(ChangeRequest, changes)
        return RunView.model_validate(self._transport.call("PATCH", f"/runs/{run}", body=body))

    def attempts(self, run: int) -> list[AttemptView]:
        """Every placement and how it ended, first one first."""
        return [AttemptView.model_validate(a) for a in self._transport.call("GET", f"/runs/{run}/attempts")]

    def retry(self, run: int) -> RunView:
        return RunView.model_validate(self._transport.call("POST", f"/runs/{run}/retry"))

    def metrics(
        self,
        run: int,
        names: Sequence[str] = (),
        *,
        first: float | None = None,
        last: float | None = None,
        points: int | None = None,
        by: str = "step",
    ) -> list[MetricSeries]:
        """Every metric's points, or those of `names`, from `first` to `last` (both included).

        by: "step", or "time" in seconds since the epoch. points: most of each metric (None: 10,000); of more the lowest
        and the highest of each stretch are given.
        """
        query = {"name": list(names) or None, "first": first, "last": last, "points": points, "by": by}
        given = {key: value for key, value in query.items() if value is not None}
        found = self._transport.call("GET", f"/runs/{run}/metrics", params=given)
        return [MetricSeries.model_validate(m) for m in found]

    def usage(
        self, run: int, *, first: float | None = None, last: float | None = None, points: int | None = None
    ) -> list[UsageSeries]:
        """What each attempt and node used. first, last: seconds since the epoch; points: most samples of each."""
        query = {"first": first, "last": last, "points": points}
        given = {key: value for key, value in query.items() if value is not None}
        return [UsageSeries.model_validate(m) for m in self._transport.call("GET", f"/runs/{run}/usage", params=given)]

    def checkpoints(self, run: int) -> list[CheckpointView]:
        return [CheckpointView.model_validate(c) for c in self._transport.call("GET", f"/runs/{run}/checkpoints")]

    def wait(self, run: int, *, timeout: float | None = None) -> RunView:
        """Until the run has ended. timeout: seconds; the run as it is then is returned. Polls with a growing pause."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = 0.02
        while True:
            view = self.get(run)
            if view.state in ENDED or (deadline is not None and time.monotonic() > deadline):
                return view
            time.sleep(pause)
            pause = min(0.5, pause * 1.5)
