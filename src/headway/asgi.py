"""A uvicorn server that costs nothing while nothing happens.

Uvicorn's own loop wakes ten times a second to look at a flag and to renew the Date header; with four parts of headway
idle on a machine that is most of what they burn. Here the loop sleeps until a signal, and Date is made when asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from typing import Any

import uvicorn
from uvicorn.server import ServerState


class _State(ServerState):
    """Makes the Date header on demand, once a second at most."""

    _second = 0
    _headers: list[tuple[bytes, bytes]] = []  # noqa: RUF012

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:
        now = int(time.time())
        if now != self._second:
            self._second = now
            self._headers = [(b"date", formatdate(now, usegmt=True).encode())]
        return self._headers

    @default_headers.setter
    def default_headers(self, value: list[tuple[bytes, bytes]]) -> None:
        pass


class QuietServer(uvicorn.Server):
    """Ends in good order on SIGINT or SIGTERM, and then returns: whoever runs it decides the exit code."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None] | None = None) -> None:
        """ready: called once connections are accepted."""
        super().__init__(config)
        self.server_state = _State()
        self._ready = ready
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        if self._ready is not None and self.started:
            self._ready()

    async def main_loop(self) -> None:
        await self._ended.wait()

    def stop(self) -> None:
        """Begins the end; from any thread. A second call does not wait for requests in flight."""
        self.force_exit = self.should_exit
        self.should_exit = True
        if self._loop is not None:
            # a loop that is closed already has ended already
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._ended.set)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = self._loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on host and port (0: a free one). Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except OSError:
        listener.close()
        raise
    return listener


def serve(
    app: Any,
    listener: socket.socket,
    *,
    ready: Callable[[], None] | None = None,
    websockets: bool = False,
    drain: float = 3.0,
    lifespan: bool = True,
) -> None:
    """Serves an ASGI application on `listener` until SIGINT or SIGTERM, then closes it and returns.

    drain: seconds that requests in flight get after the signal; they are cancelled afterwards.
    """

    def started() -> None:
        # what the application is made of stays: looking through it for garbage takes longer than many a request
        gc.freeze()
        if ready is not None:
            ready()

    QuietServer(config(app, websockets=websockets, drain=drain, lifespan=lifespan), started).run([listener])


def config(app: Any, *, websockets: bool = False, drain: float = 3.0, lifespan: bool = True) -> uvicorn.Config:
    """What `serve` serves with."""
    return uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        ws="websockets-sansio" if websockets else "none",
        lifespan="on" if lifespan else "off",
        log_config=None,
        access_log=False,
        server_header=False,
        ws_per_message_deflate=False,
        ws_max_size=64 << 20,
        backlog=2048,
        timeout_graceful_shutdown=drain,  # type: ignore[arg-type]  # wait_for takes fractions
    )
