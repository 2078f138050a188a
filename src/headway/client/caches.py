"""The nodes' caches of data: what they hold, and filling them ahead of time."""

from __future__ import annotations

from collections.abc import Sequence

from headway.client.transport import Transport, build
from headway.wire.caches import CacheView, WarmRequest
from headway.wire.runs import RunView


class Caches:
    def __init__(self, transport: Transport, project: str) -> None:
        self._transport = transport
        self.project = project

    def ls(self) -> list[CacheView]:
        """By node, as the last run there left it."""
        return [CacheView.model_validate(c) for c in self._transport.call("GET", "/caches")]

    def warm(
        self, dataset: str, *, nodes: Sequence[str] = (), mode: str = "cache", spec: str = "small"
    ) -> list[RunView]:
        """Starts a short run on each of `nodes` (all that are up when empty) that fetches the version there.

        dataset: "digits" or "digits@3". mode: "cache" or "stream". Raises NotFoundError, RefusedError, UsageError.
        """
        body = build(WarmRequest, {"dataset": dataset, "nodes": list(nodes), "mode": mode, "spec": spec})
        found = self._transport.call("POST", f"/projects/{self.project}/caches/warm", body=body)
        return [RunView.model_validate(r) for r in found]
