"""The console as an ASGI application: routes, settings of NiceGUI, the start alone."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from headway import config
from headway.errors import RefusedError

_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="#2f6f5e"/>'
    '<path d="M9 7v18M9 16h14M23 7v18" stroke="#fff" stroke-width="3.4" stroke-linecap="round" fill="none"/></svg>'
)


def create_app(api_url: str, storage_folder: Path | None = None) -> Any:
    """The application; one for each process, as NiceGUI has it.

    api_url: of the api, e.g. http://127.0.0.1:8401. storage_folder: sessions and the key that signs their cookies,
    readable by the owner alone; default HOME/console. What browsers upload lies beside it, in `uploads`. Raises
    RefusedError when it cannot be written.
    """
    folder = storage_folder or config.load().settings.home / "console"
    from fastapi import FastAPI
    from nicegui import app as nicegui_app
    from nicegui import core, storage, ui

    from headway.console import dataset_pages, pages, session
    from headway.console.guard import Guard

    try:
        secret = session.load_secret(folder)
    except OSError as error:
        raise RefusedError(
            f"{folder} cannot be written: {error.strerror}.", "Give headway's user the right to write there."
        ) from error
    # NiceGUI may have been imported before, with its files in the working directory
    storage.Storage.path = folder.resolve()
    nicegui_app.storage._general = storage.Storage._create_persistent_dict(storage.GENERAL_ID)
    nicegui_app.storage._general.initialize_sync()
    # its line for each WebSocket has the page's number in it, which is nobody else's business
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    pages.register(api_url)
    dataset_pages.register(api_url, folder.parent / "uploads")
    outer = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    ui.run_with(
        outer,
        title="headway",
        favicon=_ICON,
        dark=None,
        tailwind=False,
        # nothing is bound to values that must be looked at all the time
        binding_refresh_interval=None,
        reconnect_timeout=10.0,
        message_history_length=200,
        storage_secret=secret,
        session_middleware_kwargs={
            "session_cookie": session.COOKIE,
            "max_age": session.COOKIE_LIFETIME,
            "same_site": "lax",
        },
        show_welcome_message=False,
    )
    core.sio.eio.max_http_buffer_size = 1 << 20
    nicegui_app.add_static_files("/static", Path(__file__).parent / "static", max_cache_age=300)
    return Guard(outer)


def run(api_url: str, host: str = "127.0.0.1", port: int = 8402, storage_folder: Path | None = None) -> None:
    """Serves the console until SIGINT or SIGTERM. Raises RefusedError (code port_in_use) and as `create_app` does."""
    from headway import asgi

    app = create_app(api_url, storage_folder)
    try:
        listener = asgi.listen(host, port)
    except OSError as error:
        raise RefusedError(
            f"Port {port} on {host} cannot be had: {error.strerror}.", "Give another one.", code="port_in_use"
        ) from error
    asgi.serve(app, listener, websockets=True, drain=1.0)
