"""Jobs: submit a training run and look at what it made."""

from __future__ import annotations

import uuid
from typing import Any

from headway.client.transport import Transport, build
from headway.wire.runs import JobRequest, JobView, RunView


class Jobs:
    def __init__(self, transport: Transport, project: str) -> None:
        self._transport = transport
        self.project = project

    def submit(self, command: list[str], **values: Any) -> RunView:
        """Submits a run; returns once it is in the record. values: the other fields of `wire.runs.JobRequest`.

        Raises UsageError (a value is wrong), RefusedError (quota, larger than any node), NotFoundError.
        """
        # a key of its own makes it safe to send again when the answer was lost
        values.setdefault("key", f"once-{uuid.uuid4().hex}")
        body = build(JobRequest, {"command": command, **values})
        return RunView.model_validate(self._transport.call("POST", f"/projects/{self.project}/jobs", body=body))

    def ls(self, *, limit: int | None = None) -> list[JobView]:
        found = self._transport.call("GET", f"/projects/{self.project}/jobs", params={"limit": limit})
        return [JobView.model_validate(j) for j in found]

    def get(self, job: int) -> JobView:
        return JobView.model_validate(self._transport.call("GET", f"/projects/{self.project}/jobs/{job}"))
