"""Runs: look, follow, stop, retry; their logs, metrics and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Iterator

from headway.client.transport import Transport
from headway.wire.runs import CheckpointView, LogLineView, LogPage, MetricSeries, RunView, StopRequest

ENDED = frozenset({"succeeded", "failed", "stopped"})


class Runs:
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

    def retry(self, run: int) -> RunView:
        return RunView.model_validate(self._transport.call("POST", f"/runs/{run}/retry"))

    def logs(
        self,
        run: int,
        *,
        kind: str = "run",
        after: str | None = None,
        limit: int | None = None,
        tail: int | None = None,
    ) -> LogPage:
        """One page. kind: "run" or "diag"; after: a cursor; tail: only the last lines."""
        params = {"kind": kind, "after": after, "limit": limit, "tail": tail}
        return LogPage.model_validate(self._transport.call("GET", f"/runs/{run}/logs", params=params))

    def follow(self, run: int, *, kind: str = "run", after: str | None = None) -> Iterator[LogLineView]:
        """Every line, live, until the run has ended; survives restarts of the server. Raises UnreachableError."""
        cursor = after
        while True:
            moved = False
            for event in self._transport.events(f"/runs/{run}/logs/stream", params={"kind": kind, "after": cursor}):
                if event.event == "end":
                    return
                if event.data:
                    line = LogLineView.model_validate_json(event.data)
                    cursor, moved = line.cursor or event.id, True
                    yield line
            if not moved:
                time.sleep(0.2)  # a stream that ends at once must not become a busy loop

    def all_logs(self, run: int, *, kind: str = "run") -> Iterator[LogLineView]:
        """Every line that is there now, page by page."""
        cursor: str | None = None
        while True:
            page = self.logs(run, kind=kind, after=cursor)
            yield from page.lines
            if not page.lines:
                return
            cursor = page.cursor

    def metrics(self, run: int) -> list[MetricSeries]:
        return [MetricSeries.model_validate(m) for m in self._transport.call("GET", f"/runs/{run}/metrics")]

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
