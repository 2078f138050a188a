"""Checkpoints of a job: list them, verify them, and how often to save."""

from __future__ import annotations

from urllib.parse import quote

from headway.client.transport import Transport
from headway.wire.checkpoints import CheckpointProof, IntervalAdvice
from headway.wire.runs import CheckpointView


class Checkpoints:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def ls(self, job: int) -> list[CheckpointView]:
        """By step, epoch, then appearance; those that are not valid and those that were removed too."""
        return [CheckpointView.model_validate(c) for c in self._transport.call("GET", f"/runs/{job}/checkpoints")]

    def advise(self, job: int) -> IntervalAdvice:
        """Raises RefusedError when no checkpoint says how long saving it took."""
        return IntervalAdvice.model_validate(self._transport.call("GET", f"/runs/{job}/checkpoints/interval"))

    def verify(self, job: int, name: str) -> CheckpointProof:
        """Reads every byte on the server. Raises NotFoundError, RefusedError (it was removed or never valid)."""
        path = f"/runs/{job}/checkpoints/{quote(name, safe='')}/verify"
        return CheckpointProof.model_validate(self._transport.call("POST", path, timeout=3600))
