"""Health, specs and their prices, nodes, the queue, limits of projects, the bill."""

from __future__ import annotations

from urllib.parse import quote

from headway.client.transport import Transport, build
from headway.wire.people import Health, Me
from headway.wire.platform import (
    DrainRequest,
    LimitsRequest,
    LimitsView,
    MoveRequest,
    NodeView,
    PriceView,
    QueueView,
    ReclaimRequest,
    ReclaimView,
)
from headway.wire.runs import Bill, RunView, SpecView


class Platform:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def health(self) -> Health:
        return Health.model_validate(self._transport.call("GET", "/health"))

    def me(self) -> Me:
        return Me.model_validate(self._transport.call("GET", "/me"))

    def specs(self) -> list[SpecView]:
        return [SpecView.model_validate(s) for s in self._transport.call("GET", "/specs")]

    def nodes(self) -> list[NodeView]:
        return [NodeView.model_validate(n) for n in self._transport.call("GET", "/nodes")]

    def drain(self, node: str, *, reason: str = "") -> NodeView:
        """Places nothing new on the node; what runs there goes on."""
        body = build(DrainRequest, {"reason": reason})
        return NodeView.model_validate(self._transport.call("POST", f"/nodes/{quote(node)}/drain", body=body))

    def undrain(self, node: str) -> NodeView:
        return NodeView.model_validate(self._transport.call("POST", f"/nodes/{quote(node)}/undrain"))

    def reclaim(
        self, node: str, *, grace: float | None = None, run: int | None = None, reason: str = ""
    ) -> ReclaimView:
        """Asks the spot runs on the node (or one) to save and leave. grace: seconds; None: as each run says."""
        body = build(ReclaimRequest, {"grace": grace, "run": run, "reason": reason})
        return ReclaimView.model_validate(self._transport.call("POST", f"/nodes/{quote(node)}/reclaim", body=body))

    def prices(self) -> list[PriceView]:
        return [PriceView.model_validate(p) for p in self._transport.call("GET", "/prices")]

    def queue(self, project: str, *, limit: int | None = None) -> QueueView:
        """What waits in the project, next first."""
        found = self._transport.call("GET", f"/projects/{project}/queue", params={"limit": limit})
        return QueueView.model_validate(found)

    def move(self, run: int, *, before: int | None = None, first: bool = False, last: bool = False) -> RunView:
        """Puts a waiting run before another one, or first or last, of its project and priority. One of the three."""
        body = build(MoveRequest, {"before": before, "first": first, "last": last})
        return RunView.model_validate(self._transport.call("POST", f"/runs/{run}/move", body=body))

    def limits(self, project: str) -> LimitsView:
        return LimitsView.model_validate(self._transport.call("GET", f"/projects/{project}/limits"))

    def set_limits(self, project: str, **limits: float | None) -> LimitsView:
        """limits: `weight`, `cpus`, `memory_bytes`, `accelerators`, `nodes`, `runs`; None takes one away."""
        body = build(LimitsRequest, limits)
        return LimitsView.model_validate(self._transport.call("PUT", f"/projects/{project}/limits", body=body))

    def bill(self, project: str, *, since: str | None = None, run: int | None = None) -> Bill:
        """since: ISO 8601 time with zone; run: only this run's attempts."""
        params = {"since": since, "run": run}
        return Bill.model_validate(self._transport.call("GET", f"/projects/{project}/bill", params=params))
