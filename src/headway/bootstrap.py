"""The only place that names implementations and wires them: `python -m headway.bootstrap PART`.

PART is api, controller, gateway or console. A part ends when its lifeline does (see `headway.supervisor`), says on its
ready pipe when it serves, and logs JSON lines to stderr.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway import config
from headway.errors import HeadwayError, RefusedError, UsageError

if TYPE_CHECKING:
    from headway.engines.base import Engine
    from headway.services.context import Services
    from headway.storage.cache import Cache
    from headway.store.base import Store

PARTS = ("api", "controller", "gateway", "console")
#: seconds that a part waits for what another one makes on the first start
FIRST_START_PATIENCE = 60.0

_log = logging.getLogger("headway")


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {"text": record.getMessage(), "level": record.levelname, "logger": record.name}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def _set_up_logging() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    logging.basicConfig(level=os.environ.get("HEADWAY_LOG", "INFO"), handlers=[handler], force=True)
    for noisy in ("httpx", "httpcore", "uvicorn.access", "alembic"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


# -- implementations


def open_store(settings: config.Settings) -> Store:
    """The record that `settings.database` names. Raises UsageError for a kind that headway does not know."""
    kind, _, rest = settings.database.partition("://")
    if kind == "sqlite":
        from headway.store.sqlite import SqliteStore

        # sqlite:///relative and sqlite:////absolute, as SQLAlchemy has it
        return SqliteStore(Path(rest[1:]))
    if kind.startswith("postgres"):
        from headway.store.postgres import PostgresStore

        return PostgresStore(settings.database)
    raise UsageError(f"database {kind!r} is not known.", "Give sqlite:///PATH or postgresql://USER@HOST/NAME.")


def open_engine(settings: config.Settings) -> Engine:
    from headway.engines.local import LocalEngine

    return LocalEngine(settings.root, node_file=settings.node_file)


def open_services(settings: config.Settings, store: Store | None = None) -> Services:
    from headway.services.context import Services
    from headway.storage.objects import open_objects
    from headway.storage.prices import open_prices

    return Services(
        store=store or open_store(settings),
        root=settings.root,
        objects=open_objects(settings.objects),
        hints=settings.hints,
        currency=settings.currency,
        region=settings.region,
        prices=open_prices(settings.prices),
        objects_url=settings.objects,
        secret_key=settings.secret_key_file,
    )


def first_start(settings: config.Settings, services: Services) -> None:
    """Brings the record to this version and makes the first tokens, kept readable by the owner alone. Idempotent.

    Raises RefusedError (code newer_home) when the record is of a newer headway; nothing is changed then.
    """
    from headway.services import first_start as first
    from headway.storage import secrets
    from headway.store import migrate

    migrate.upgrade(services.store)
    secrets.ensure_key(settings.secret_key_file)
    first.ensure(services, admin_file=settings.admin_token_file, gateway_file=settings.gateway_token_file)


def _wait_for_schema(store: Store) -> None:
    """Until the record is at this version: on a first start the api makes it so meanwhile."""
    from headway.store import migrate

    _wait(lambda: migrate.at_head(store), "the record to be brought to this version by the api")


def _wait(done: Any, what: str) -> None:
    deadline = time.monotonic() + FIRST_START_PATIENCE
    while not done():
        if time.monotonic() > deadline:
            raise RefusedError(f"Waited {FIRST_START_PATIENCE:.0f} s for {what}.", "See the api's log.")
        time.sleep(0.02)


# -- parts


class Seat:
    """What the supervisor gave this part: its lifeline, ready pipe and socket. Each may be missing."""

    def __init__(self, flags: argparse.Namespace) -> None:
        self.flags = flags
        self._ready_fd: int | None = flags.ready_fd
        for fd in (flags.ready_fd, flags.lifeline_fd, flags.listen_fd):
            if fd is not None:
                os.set_inheritable(fd, False)
        if flags.lifeline_fd is not None:
            threading.Thread(target=self._hold_on, name="lifeline", daemon=True).start()

    def _hold_on(self) -> None:
        os.read(self.flags.lifeline_fd, 1)
        # the supervisor is gone: every part is crash-safe, so the quickest end is the cleanest
        os._exit(1)

    def tell(self, word: dict[str, Any]) -> None:
        """Told once; later words are dropped."""
        if self._ready_fd is not None:
            fd, self._ready_fd = self._ready_fd, None
            os.write(fd, json.dumps(word).encode() + b"\n")
            os.close(fd)

    def ready(self) -> None:
        self.tell({"ready": True})

    def listener(self, settings: config.Settings) -> socket.socket:
        if self.flags.listen_fd is not None:
            return socket.socket(fileno=self.flags.listen_fd)
        from headway import asgi

        host, port = self.flags.host or settings.host, self.flags.port or settings.port
        try:
            return asgi.listen(host, port)
        except OSError as error:
            raise RefusedError(
                f"Port {port} on {host} cannot be had: {error.strerror}.",
                "Give another one with --port.",
                code="port_in_use",
            ) from error


def serve(app: Any, seat: Seat, settings: config.Settings, *, websockets: bool = False) -> None:
    """Serves an ASGI app on the part's socket until SIGTERM or SIGINT."""
    from headway import asgi

    # streams (logs, events) are cut at a stop: their readers come back with a cursor
    asgi.serve(app, seat.listener(settings), ready=seat.ready, websockets=websockets, drain=1.0)


def open_cache(settings: config.Settings) -> Cache:
    """This machine's cache of data."""
    from headway.storage.cache import Cache, Limits

    return Cache(settings.cache, Limits.from_json(settings.cache_limits))


def verify_cache(settings: config.Settings) -> list[str]:
    """SHA-256 of what was removed because it was damaged."""
    from headway.storage.cache.told import tell_again

    cache = open_cache(settings)
    removed = cache.verify()
    tell_again(settings.root, cache)
    return removed


def clear_cache(settings: config.Settings) -> tuple[int, int]:
    """Units and bytes that were removed."""
    from headway.storage.cache.told import tell_again

    cache = open_cache(settings)
    removed = cache.clear()
    tell_again(settings.root, cache)
    return removed


def _run_api(settings: config.Settings, seat: Seat) -> None:
    services = open_services(settings)
    first_start(settings, services)
    from headway.api.app import create_app

    serve(create_app(services), seat, settings)


def _run_controller(settings: config.Settings, seat: Seat) -> None:
    from headway.controller.main import Controller

    engine = open_engine(settings)
    engine.nodes(time.time())  # a node file that cannot be understood is refused before anything is started
    store = open_store(settings)
    _wait_for_schema(store)
    controller = Controller(
        open_services(settings, store),
        engine,
        objects_url=settings.objects,
        cache=settings.cache,
        cache_limits=settings.cache_limits,
    )
    done = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: done.set())
    controller.start()
    seat.ready()
    done.wait()
    controller.stop()


def _run_gateway(settings: config.Settings, seat: Seat) -> None:
    from headway.gateway.app import GatewaySettings, create_app

    file = settings.gateway_token_file
    _wait(file.exists, f"{file} to be made by the api")
    app = create_app(
        GatewaySettings(
            api_url=seat.flags.api_url,
            console_url=seat.flags.console_url,
            service_token=file.read_text().strip(),
            hints=settings.hints,
        )
    )
    serve(app, seat, settings, websockets=True)


def _run_console(settings: config.Settings, seat: Seat) -> None:
    try:
        import nicegui  # noqa: F401
    except ImportError:
        seat.tell({"absent": "The console is not installed; `pip install headway[console]` adds it."})
        return
    from headway.console.app import create_app

    serve(create_app(seat.flags.api_url), seat, settings, websockets=True)


def run_part(part: str, settings: config.Settings, seat: Seat) -> None:
    """Runs one part until it is told to stop. Raises HeadwayError when it cannot run here."""
    {"api": _run_api, "controller": _run_controller, "gateway": _run_gateway, "console": _run_console}[part](
        settings, seat
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="headway.bootstrap")
    parser.add_argument("part", choices=PARTS)
    for name in ("--lifeline-fd", "--ready-fd", "--listen-fd", "--port"):
        parser.add_argument(name, type=int)
    for name in ("--host", "--api-url", "--console-url"):
        parser.add_argument(name)
    flags = parser.parse_args(arguments)
    seat = Seat(flags)
    _set_up_logging()
    try:
        run_part(flags.part, config.load().settings, seat)
    except HeadwayError as error:
        # a refusal is final: starting again would not change it
        if isinstance(error, (RefusedError, UsageError)):
            seat.tell({"refused": error.as_dict(), "exit": error.exit_code})
        if flags.ready_fd is None:
            print(f"error: {error}", file=sys.stderr)
        else:
            _log.error("%s", error)
        return error.exit_code
    except Exception as error:
        _log.exception("%s: %s", type(error).__name__, error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
