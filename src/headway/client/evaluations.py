"""Evaluations: every checkpoint of a job on every case."""

from __future__ import annotations

import time
import uuid
from typing import Any

from headway.client.transport import Transport, build
from headway.wire.products import CellView, EvaluationRequest, EvaluationView

ENDED = frozenset({"succeeded", "failed", "stopped"})


class Evaluations:
    def __init__(self, transport: Transport, project: str) -> None:
        self._transport = transport
        self._path = f"/projects/{project}/evaluations"

    def create(self, **values: Any) -> EvaluationView:
        """values: the fields of `wire.products.EvaluationRequest`."""
        values.setdefault("key", f"once-{uuid.uuid4().hex}")
        body = build(EvaluationRequest, values)
        return EvaluationView.model_validate(self._transport.call("POST", self._path, body=body))

    def ls(self) -> list[EvaluationView]:
        return [EvaluationView.model_validate(e) for e in self._transport.call("GET", self._path)]

    def get(self, evaluation: int) -> EvaluationView:
        return EvaluationView.model_validate(self._transport.call("GET", f"{self._path}/{evaluation}"))

    def cells(self, evaluation: int) -> list[CellView]:
        return [CellView.model_validate(c) for c in self._transport.call("GET", f"{self._path}/{evaluation}/cells")]

    def stop(self, evaluation: int) -> EvaluationView:
        return EvaluationView.model_validate(self._transport.call("POST", f"{self._path}/{evaluation}/stop"))

    def retry(self, evaluation: int) -> EvaluationView:
        return EvaluationView.model_validate(self._transport.call("POST", f"{self._path}/{evaluation}/retry"))

    def wait(self, evaluation: int, *, states: frozenset[str] = ENDED, timeout: float | None = None) -> EvaluationView:
        """Until its state is one of `states` (or `timeout` seconds have passed)."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            view = self.get(evaluation)
            if view.state in states or (deadline is not None and time.monotonic() > deadline):
                return view
            time.sleep(0.2)
