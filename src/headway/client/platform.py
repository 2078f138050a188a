"""Health, specs, nodes, the bill."""

from __future__ import annotations

from headway.client.transport import Transport
from headway.wire.people import Health, Me
from headway.wire.runs import Bill, NodeView, SpecView


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

    def bill(self, project: str, *, since: str | None = None, run: int | None = None) -> Bill:
        """since: ISO 8601 time with zone; run: only this run's attempts."""
        params = {"since": since, "run": run}
        return Bill.model_validate(self._transport.call("GET", f"/projects/{project}/bill", params=params))
