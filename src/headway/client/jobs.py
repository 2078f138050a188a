"""Jobs: submit a training run, see what a submit would do, make one from another, look at what it made."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from headway.client.transport import Transport, build
from headway.wire.runs import CloneRequest, DryRunView, JobRequest, JobView, RunView


class Jobs:
    def __init__(self, transport: Transport, project: str) -> None:
        self._transport = transport
        self.project = project
        self._path = f"/projects/{project}/jobs"

    def submit(self, command: list[str], **values: Any) -> RunView:
        """Submits a run; returns once it is in the record. values: the other fields of `wire.runs.JobRequest`.

        Raises UsageError (a value is wrong), RefusedError (quota, larger than the cluster), NotFoundError.
        """
        # a key of its own makes it safe to send again when the answer was lost
        values.setdefault("key", _once())
        body = build(JobRequest, {"command": command, **values})
        return RunView.model_validate(self._transport.call("POST", self._path, body=body))

    def dry_run(self, command: list[str], **values: Any) -> DryRunView:
        """What `submit` would do: the exact request, the environment of its processes, whether it would start now.

        Raises as `submit` does; keeps nothing.
        """
        body = build(JobRequest, {"command": command, **values})
        found = self._transport.call("POST", self._path, body=body, params={"dry_run": True})
        return DryRunView.model_validate(found)

    def clone(self, job: int, *, key: str | None = None, **changes: Any) -> RunView:
        """A new job with the request of another one. changes: fields of a job; see `wire.runs.CloneRequest`."""
        body = CloneRequest(job=changes, key=key or _once())
        return RunView.model_validate(self._transport.call("POST", f"/runs/{job}/clone", body=body))

    def dry_clone(self, job: int, **changes: Any) -> DryRunView:
        """What `clone` would do."""
        body = CloneRequest(job=changes)
        found = self._transport.call("POST", f"/runs/{job}/clone", body=body, params={"dry_run": True})
        return DryRunView.model_validate(found)

    def ls(
        self,
        *,
        limit: int | None = None,
        state: str | None = None,
        tags: Sequence[str] = (),
        name: str | None = None,
        before: int | None = None,
    ) -> list[JobView]:
        """Newest first. state: one, or live, ended, open; tags: "key=value" or "key", all; name: a part of it."""
        params = {"limit": limit, "state": state, "tag": list(tags) or None, "name": name, "before": before}
        return [JobView.model_validate(j) for j in self._transport.call("GET", self._path, params=params)]

    def get(self, job: int) -> JobView:
        return JobView.model_validate(self._transport.call("GET", f"{self._path}/{job}"))


def _once() -> str:
    return f"once-{uuid.uuid4().hex}"
