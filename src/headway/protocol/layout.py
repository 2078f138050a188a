"""Names of the files in an attempt's folder, and the few functions over them that a runner needs at its start.

No import here costs anything: `pathlib` and `dataclasses` alone would double the time that a runner takes to start.
`headway.protocol.files` has the same as paths, for everybody else.
"""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LAUNCH = "launch.json"
FENCE = "fence"
STOP = "stop.json"
#: what was changed of a running attempt: `{"max_duration", "grace", "limits"}`, each only when changed
AMENDED = "amended.json"
#: of several nodes: where the ranks meet, `{"address", "port"}`, written by node 0
RENDEZVOUS = "rendezvous.json"
#: of several nodes: the first that failed, `{"node", "rank", "code", "signal", "cause", "message", "at"}`, written once
ABORT = "abort.json"

RUNNER = "runner.json"
DIAG_LOG = "diag.log"
RUN_LOG = "run.log"
EVENTS = "events.jsonl"
METRICS = "metrics.jsonl"
USAGE = "usage.jsonl"
HEARTBEAT = "heartbeat"
EXIT = "exit.json"
#: of several nodes: there while this one has neither printed nor worked for as long as its limit "hang" allows
QUIET = "quiet"
#: path of the cgroup that limits this node's memory, while there is one
CGROUP = "cgroup"

#: of launch.json; raised when a runner finds one that it cannot understand
LAUNCH_VERSION = 1


def node(index: int) -> str:
    """Name of the folder in which the runner of node `index` reports."""
    return f"node-{index}"


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes under a temporary name beside `path`, fsyncs, renames. Raises OSError; `path` is then untouched."""
    head, tail = os.path.split(os.fspath(path))
    temporary = os.path.join(head, f".{tail}.{os.getpid()}.{os.urandom(3).hex()}.tmp")
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(fd, view) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, path)
    except OSError:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """`write_whole` of `value` as JSON."""
    write_whole(path, json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def write_first(path: str | os.PathLike[str], value: Any) -> bool:
    """Writes `value` as JSON, whole, and only where there is nothing yet; whether it was us. Raises OSError."""
    head, tail = os.path.split(os.fspath(path))
    temporary = os.path.join(head, f".{tail}.{os.getpid()}.{os.urandom(3).hex()}.tmp")
    write_json(temporary, value)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(temporary)
    return True


def read_json(path: str | os.PathLike[str]) -> Any:
    """The value in `path`; None when there is no such file. Raises ValueError when it is not JSON."""
    try:
        with open(path, "rb") as file:
            return json.loads(file.read())
    except FileNotFoundError:
        return None
