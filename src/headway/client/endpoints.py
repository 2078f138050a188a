"""Endpoints: deploy a model version, its tokens, and ask it."""

from __future__ import annotations

import time
from typing import Any

import httpx

from headway.client.transport import Transport, build, is_loopback, unreachable
from headway.wire.people import NewToken, TokenRequest, TokenView
from headway.wire.products import EndpointRequest, EndpointView


class Endpoints:
    def __init__(self, transport: Transport, project: str) -> None:
        self._transport = transport
        self._path = f"/projects/{project}/endpoints"

    def ls(self) -> list[EndpointView]:
        return [EndpointView.model_validate(e) for e in self._transport.call("GET", self._path)]

    def deploy(self, name: str, **values: Any) -> EndpointView:
        """A new endpoint, or a new revision of the one with that name. values: fields of `EndpointRequest`."""
        body = build(EndpointRequest, {"name": name, **values})
        return EndpointView.model_validate(self._transport.call("POST", self._path, body=body))

    def get(self, name: str) -> EndpointView:
        return EndpointView.model_validate(self._transport.call("GET", f"{self._path}/{name}"))

    def stop(self, name: str) -> None:
        self._transport.call("DELETE", f"{self._path}/{name}")

    def tokens(self, name: str) -> list[TokenView]:
        return [TokenView.model_validate(t) for t in self._transport.call("GET", f"{self._path}/{name}/tokens")]

    def create_token(self, name: str, token: str, *, lifetime: float | None = None) -> NewToken:
        """token: its name. lifetime: seconds; None: it does not expire. The secret is shown this once."""
        body = build(TokenRequest, {"name": token, "lifetime": lifetime})
        return NewToken.model_validate(self._transport.call("POST", f"{self._path}/{name}/tokens", body=body))

    def revoke_token(self, name: str, token: int) -> None:
        self._transport.call("DELETE", f"{self._path}/{name}/tokens/{token}")

    def wait(self, name: str, *, timeout: float = 120.0) -> EndpointView:
        """Until it is ready, failed or stopped (or `timeout` seconds have passed)."""
        deadline = time.monotonic() + timeout
        while True:
            view = self.get(name)
            if view.state != "starting" or time.monotonic() > deadline:
                return view
            time.sleep(0.1)

    def ask(self, path: str, token: str, body: Any, *, timeout: float = 60.0) -> tuple[int, Any]:
        """POSTs JSON to `path` ("/e/digits/predict") with an endpoint token: status and answer (JSON, else text)."""
        url = self._transport.url
        try:
            answer = httpx.Client(trust_env=not is_loopback(url), timeout=timeout).post(
                f"{url}{path}", json=body, headers={"Authorization": f"Bearer {token}"}
            )
        except httpx.HTTPError as error:
            raise unreachable(url, error) from error
        try:
            return answer.status_code, answer.json()
        except ValueError:
            return answer.status_code, answer.text
