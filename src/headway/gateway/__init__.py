"""The public port: a client of the api that lives on its last routes while the api is away.

`run` serves it; `create_app` is the ASGI application.
"""

from __future__ import annotations

from headway.gateway.app import GatewaySettings, create_app, run

__all__ = ["GatewaySettings", "create_app", "run"]
