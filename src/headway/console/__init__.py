"""Web pages that use only the public client, as any outside program would.
`app.create_app` makes the ASGI application, `run` serves it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway.console.app import create_app, run

__all__ = ["create_app", "run"]


def __getattr__(name: str) -> object:
    # NiceGUI takes a second and 40 MB: loaded only by who serves the console
    if name in __all__:
        from headway.console import app

        return getattr(app, name)
    raise AttributeError(name)
