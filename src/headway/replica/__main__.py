"""What a replica's run executes. Everything comes from the environment:

HEADWAY_PREDICTOR       "predictor.py:Digits", in the working folder
HEADWAY_MODEL_PATH      path of the model version's weights
HEADWAY_REPLICA_SECRET  what the gateway must send; unset: anybody may ask
HEADWAY_CHANNEL         the runner's socket; unset: nobody is told
HEADWAY_REPLICA_HOST, HEADWAY_REPLICA_PORT  where to listen; default 127.0.0.1 and a free port

It binds, reports `listening`, loads the model, reports `ready`, answers, and on SIGTERM finishes what it has begun.
Exit codes: 0 after a signal, 1 when the model cannot be loaded, 2 when the environment is wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

from headway import asgi
from headway.errors import HeadwayError, UsageError
from headway.protocol import events, names
from headway.replica.core import Core, find_predictor
from headway.replica.rest import Rest

PREDICTOR = "HEADWAY_PREDICTOR"
HOST = "HEADWAY_REPLICA_HOST"
PORT = "HEADWAY_REPLICA_PORT"
#: seconds for requests in flight after SIGTERM; the run's own grace period may end it earlier
DRAIN = 25.0


def main() -> int:
    """Runs a replica until it is told to stop; the process's exit code."""
    try:
        predictor, model = _wanted(PREDICTOR), _wanted(names.MODEL_PATH)
        listener = asgi.listen(os.environ.get(HOST, "127.0.0.1"), int(os.environ.get(PORT, "0")))
    except (UsageError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 2
    address = "{}:{}".format(*listener.getsockname()[:2])
    _report({"event": events.LISTENING, "address": address})
    print(f"Listening on {address}; loading {predictor} with {model}.", flush=True)
    return asyncio.run(_serve(listener, predictor, model))


async def _serve(listener: socket.socket, predictor: str, model: str) -> int:
    rest = Rest(os.environ.get(names.REPLICA_SECRET))
    server = _Draining(rest)
    serving = asyncio.create_task(server.serve([listener]))
    # in a thread: /health/live answers, and SIGTERM is heard, while a large model is being read
    loading = asyncio.create_task(asyncio.to_thread(_load, predictor, model))
    await asyncio.wait([serving, loading], return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        # asked to stop while loading; a thread cannot be stopped, and its result is not wanted
        sys.stdout.flush()
        os._exit(0)
    core = loading.result()
    if core is None:
        server.stop()
        await serving
        return 1
    rest.core = core
    _report({"event": events.READY})
    print("Ready.", flush=True)
    await serving
    core.close()
    return 0


def _load(predictor: str, model: str) -> Core | None:
    """In a thread. None when it failed, which is then said on stderr."""
    try:
        found = find_predictor(predictor, Path.cwd())
        found.load(model)
        return Core(found)
    except HeadwayError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
    except BaseException as error:
        # SystemExit too: users' code may call sys.exit
        traceback.print_exc()
        print(f"error: {predictor} could not load the model: {error!r}", file=sys.stderr, flush=True)
    return None


class _Draining(asgi.QuietServer):
    """Refuses new requests from the moment that it is told to stop."""

    def __init__(self, rest: Rest) -> None:
        super().__init__(asgi.config(rest, drain=DRAIN, lifespan=False))
        self._rest = rest

    def stop(self) -> None:
        self._rest.ending = True
        super().stop()


def _wanted(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise UsageError(f"{name} is not set.", "A replica is started by `headway endpoint deploy`.")
    return value


def _report(event: dict[str, Any]) -> None:
    channel = os.environ.get(names.CHANNEL)
    if not channel:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(json.dumps({"event": event}).encode(), channel)


if __name__ == "__main__":
    sys.exit(main())
