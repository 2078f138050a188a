"""Job templates: saved forms, and jobs made of them."""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import quote

from headway.client.transport import Transport, build
from headway.wire.runs import DryRunView, RunView
from headway.wire.templates import TemplateRequest, TemplateUse, TemplateView


class Templates:
    def __init__(self, transport: Transport, project: str) -> None:
        self._transport = transport
        self._path = f"/projects/{project}/templates"

    def ls(self) -> list[TemplateView]:
        """The newest version of each: the project's own, then those that headway ships."""
        return [TemplateView.model_validate(t) for t in self._transport.call("GET", self._path)]

    def get(self, reference: str) -> TemplateView:
        """reference: "ddp", or "mine@2"."""
        return TemplateView.model_validate(self._transport.call("GET", self._one(reference)))

    def versions(self, name: str) -> list[TemplateView]:
        """Newest first."""
        return [TemplateView.model_validate(t) for t in self._transport.call("GET", f"{self._one(name)}/versions")]

    def save(self, name: str, **values: Any) -> TemplateView:
        """A new version. values: the fields of `wire.templates.TemplateRequest`."""
        body = build(TemplateRequest, values)
        return TemplateView.model_validate(self._transport.call("PUT", self._one(name), body=body))

    def rm(self, name: str) -> None:
        """Removes all versions; jobs that were made of it stay."""
        self._transport.call("DELETE", self._one(name))

    def submit(self, reference: str, parameters: dict[str, Any] | None = None, **job: Any) -> RunView:
        """Submits a job made of the template. job: fields of `wire.runs.JobRequest` instead of the template's."""
        # a key of its own makes it safe to send again when the answer was lost
        job.setdefault("key", f"once-{uuid.uuid4().hex}")
        body = build(TemplateUse, {"parameters": parameters or {}, "job": job})
        return RunView.model_validate(self._transport.call("POST", f"{self._one(reference)}/jobs", body=body))

    def dry_run(self, reference: str, parameters: dict[str, Any] | None = None, **job: Any) -> DryRunView:
        """What `submit` would do."""
        body = build(TemplateUse, {"parameters": parameters or {}, "job": job})
        found = self._transport.call("POST", f"{self._one(reference)}/jobs", body=body, params={"dry_run": True})
        return DryRunView.model_validate(found)

    def _one(self, reference: str) -> str:
        return f"{self._path}/{quote(reference, safe='@')}"
