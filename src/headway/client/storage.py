"""Where a project's data lies, and the connections to object stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headway.client.transport import Transport
from headway.wire.storage import ConnectionView, StorageCheckView, StorageView

#: seconds; a store that does not answer is waited for
_LONG = 180


class Storage:
    def __init__(self, transport: Transport, project: str) -> None:
        self._transport = transport
        self._path = f"/projects/{project}/storage"

    def show(self) -> StorageView:
        """Of the project."""
        return StorageView.model_validate(self._transport.call("GET", self._path))

    def check(self, url: str = "", connection: str | None = None) -> StorageCheckView:
        """Has the server try what it does with a store, on one small object that it removes.

        url: "" is where the project's data lies; any other is for admins.
        """
        body = {"url": url, "connection": connection}
        return StorageCheckView.model_validate(
            self._transport.call("POST", f"{self._path}/check", body=body, timeout=_LONG)
        )

    def use(
        self, url: str | None = None, *, connection: str | None = None, regions: Sequence[str] | None = None
    ) -> StorageView:
        """Changes where the project's data lies; what is None stays. For admins.

        url: "" is the platform's own store. connection: "" is none. regions: that data may lie in; [] is any. Raises
        RefusedError while the project has versions of datasets (in_use), or where its data may not lie (region).
        """
        given = {"url": url, "connection": connection, "regions": None if regions is None else list(regions)}
        body = {key: value for key, value in given.items() if value is not None}
        return StorageView.model_validate(self._transport.call("PUT", self._path, body=body, timeout=_LONG))

    # connections: for admins

    def connections(self) -> list[ConnectionView]:
        """All of them, without their secrets."""
        return [ConnectionView.model_validate(c) for c in self._transport.call("GET", "/connections")]

    def connect(
        self,
        name: str,
        kind: str,
        *,
        endpoint: str = "",
        region: str = "",
        options: Mapping[str, str] | None = None,
        secret: Mapping[str, str] | None = None,
    ) -> ConnectionView:
        """Makes or changes a connection; see `wire.storage.ConnectionRequest`. Without a secret the one there stays."""
        body: dict[str, Any] = {"kind": kind, "endpoint": endpoint, "region": region, "options": dict(options or {})}
        if secret is not None:
            body["secret"] = dict(secret)
        return ConnectionView.model_validate(self._transport.call("PUT", f"/connections/{name}", body=body))

    def disconnect(self, name: str) -> None:
        """Removes a connection. Raises RefusedError (in_use) while a project's data lies behind it."""
        self._transport.call("DELETE", f"/connections/{name}")
