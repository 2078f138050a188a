"""Evaluations: every checkpoint on every case."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from headway.client.transport import Transport, build
from headway.rules.evalform import default_name
from headway.rules.states import EvaluationState
from headway.wire.evaluations import (
    Adopted,
    AdoptRequest,
    CellView,
    EvaluationPlan,
    EvaluationProof,
    EvaluationReport,
    EvaluationRequest,
    EvaluationView,
)

ENDED = frozenset({"succeeded", "failed", "stopped"})
#: cells asked for at once
_PAGE = 5000
#: seconds for one answer about very many cells
_PATIENT = 600.0
#: seconds that the api may hold an answer back
_HELD = 20.0

#: told what is read or registered so far, and how many cells there are
Progress = Callable[[int, int], None]


class Evaluations:
    def __init__(self, transport: Transport, project: str) -> None:
        self._transport = transport
        self._path = f"/projects/{project}/evaluations"

    def create(self, **values: Any) -> EvaluationView:
        """values: the fields of `wire.evaluations.EvaluationRequest`; a name is made where there is none.

        Asked for again as it was, it is the same one.
        """
        values.setdefault("name", default_name(values))
        values.setdefault("key", f"once-{uuid.uuid4().hex}")
        body = build(EvaluationRequest, values)
        return EvaluationView.model_validate(self._transport.call("POST", self._path, body=body, timeout=_PATIENT))

    def plan(self, **values: Any) -> EvaluationPlan:
        """What `create` with the same values would make, and how much of it is done already."""
        values.setdefault("name", default_name(values))
        body = build(EvaluationRequest, values)
        found = self._transport.call("POST", f"{self._path}/plan", body=body, timeout=_PATIENT)
        return EvaluationPlan.model_validate(found)

    def ls(self) -> list[EvaluationView]:
        return [EvaluationView.model_validate(e) for e in self._transport.call("GET", self._path)]

    def get(self, evaluation: int) -> EvaluationView:
        return EvaluationView.model_validate(self._transport.call("GET", f"{self._path}/{evaluation}"))

    def cells(self, evaluation: int, *, states: Sequence[str] = ()) -> list[CellView]:
        """Every cell, or those in one of the states."""
        found: list[CellView] = []
        while True:
            after = found[-1].id if found else 0
            params = {"after": after, "limit": _PAGE, "state": list(states) or None}
            page = self._transport.call("GET", f"{self._path}/{evaluation}/cells", params=params)
            found += [CellView.model_validate(c) for c in page]
            if len(page) < _PAGE:
                return found

    def report(self, evaluation: int) -> EvaluationReport:
        """All that a report shows, from one moment."""
        found = self._transport.call("GET", f"{self._path}/{evaluation}/report", timeout=_PATIENT)
        return EvaluationReport.model_validate(found)

    def file(self, evaluation: int, cell: int, name: str) -> bytes:
        """An output file of a valid cell. Raises NotFoundError."""
        path = f"{self._path}/{evaluation}/cells/{cell}/files/{quote(name)}"
        return self._transport.response("GET", path).content

    def stop(self, evaluation: int) -> EvaluationView:
        return EvaluationView.model_validate(self._transport.call("POST", f"{self._path}/{evaluation}/stop"))

    def retry(self, evaluation: int) -> EvaluationView:
        """Tries the cells that are not valid again. Raises RefusedError when all are."""
        return EvaluationView.model_validate(self._transport.call("POST", f"{self._path}/{evaluation}/retry"))

    def target(self, evaluation: int, folder: str | None) -> EvaluationView:
        """Sends outputs that are still to come to another absolute folder of the server; None: the evaluation's own."""
        found = self._transport.call("POST", f"{self._path}/{evaluation}/target", body={"folder": folder})
        return EvaluationView.model_validate(found)

    def verify(
        self, evaluation: int, *, again: bool = False, progress: Progress = lambda done, total: None
    ) -> EvaluationProof:
        """Reads all outputs again. again: what is damaged is run again, and not only told."""
        whole: EvaluationProof | None = None
        while whole is None or whole.next is not None:
            body = {"after": whole.next if whole else 0, "again": again}
            part = EvaluationProof.model_validate(
                self._transport.call("POST", f"{self._path}/{evaluation}/verify", body=body, timeout=_PATIENT)
            )
            if whole is not None:
                part.checked, part.bytes, part.total = (
                    part.checked + whole.checked,
                    part.bytes + whole.bytes,
                    whole.total,
                )
                part.faults = [*whole.faults, *part.faults]
            whole = part
            progress(whole.checked, whole.total)
        return whole

    def adopt(
        self,
        evaluation: int,
        folder: str,
        layout: Mapping[str, str] | None = None,
        *,
        move: bool = False,
        dry_run: bool = False,
        progress: Progress = lambda done, total: None,
    ) -> Adopted:
        """Registers outputs from before that are valid; see `wire.evaluations.AdoptRequest` for folder and layout."""
        body = build(
            AdoptRequest, {"folder": folder, "layout": dict(layout or {}), "move": move, "dry_run": dry_run}
        ).model_dump()
        whole: Adopted | None = None
        while whole is None or whole.next is not None:
            body["after"] = whole.next if whole else 0
            part = Adopted.model_validate(
                self._transport.call("POST", f"{self._path}/{evaluation}/adopt", body=body, timeout=_PATIENT)
            )
            if whole is not None:
                part.found, part.adopted = part.found + whole.found, part.adopted + whole.adopted
                part.missing, part.total = part.missing + whole.missing, whole.total
                part.faults = [*whole.faults, *part.faults]
            whole = part
            progress(whole.found + whole.missing, whole.total)
        return whole

    def wait(self, evaluation: int, *, states: frozenset[str] = ENDED, timeout: float | None = None) -> EvaluationView:
        """Until its state is one of `states` (or `timeout` seconds have passed)."""
        deadline = None if timeout is None else time.monotonic() + timeout
        others = [state.value for state in EvaluationState if state.value not in states]
        while True:
            left = _HELD if deadline is None else max(0.0, min(_HELD, deadline - time.monotonic()))
            params = {"wait": left, "while": others}
            found = self._transport.call("GET", f"{self._path}/{evaluation}", params=params, timeout=_HELD + 30)
            view = EvaluationView.model_validate(found)
            if view.state in states or (deadline is not None and time.monotonic() >= deadline):
                return view
