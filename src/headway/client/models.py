"""Models and their versions."""

from __future__ import annotations

import time
import uuid
from typing import Any

from headway.client.transport import Transport, build
from headway.wire.products import ModelRequest, ModelVersionView


class Models:
    def __init__(self, transport: Transport, project: str) -> None:
        self._transport = transport
        self._path = f"/projects/{project}/models"

    def ls(self) -> list[ModelVersionView]:
        """The newest version of each model."""
        return [ModelVersionView.model_validate(m) for m in self._transport.call("GET", self._path)]

    def register(self, name: str, **values: Any) -> ModelVersionView:
        """values: the fields of `wire.products.ModelRequest`. The version is "checking" at first; see `wait`."""
        values.setdefault("key", f"once-{uuid.uuid4().hex}")
        body = build(ModelRequest, values)
        return ModelVersionView.model_validate(self._transport.call("POST", f"{self._path}/{name}/versions", body=body))

    def versions(self, name: str) -> list[ModelVersionView]:
        return [
            ModelVersionView.model_validate(m) for m in self._transport.call("GET", f"{self._path}/{name}/versions")
        ]

    def wait(self, name: str, version: int, *, timeout: float = 300.0) -> ModelVersionView:
        """Until the version is checked: "ready" or "invalid" (or still "checking" after `timeout` seconds)."""
        deadline = time.monotonic() + timeout
        while True:
            found = next(v for v in self.versions(name) if v.version == version)
            if found.state != "checking" or time.monotonic() > deadline:
                return found
            time.sleep(0.1)
