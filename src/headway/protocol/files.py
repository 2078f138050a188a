"""The attempt's folder and how its files are read and written.

A file is written whole and renamed into place, or appended by exactly one writer. A reader of an appended file takes
complete lines only and remembers the byte where it stopped.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.protocol import layout
from headway.protocol.layout import read_json, write_first, write_json, write_whole
from headway.protocol.logs import LogLine, log_lines

__all__ = [
    "AttemptFolder",
    "LogLine",
    "NodeFolder",
    "log_lines",
    "read_json",
    "read_lines",
    "read_records",
    "write_first",
    "write_json",
    "write_whole",
]


@dataclass(frozen=True)
class AttemptFolder:
    """`<root>/attempts/<attempt>/` and the paths in it."""

    path: Path

    @classmethod
    def of(cls, root: Path, attempt: str) -> AttemptFolder:
        return cls(root / "attempts" / attempt)

    @property
    def launch(self) -> Path:
        return self.path / layout.LAUNCH

    @property
    def fence(self) -> Path:
        """Holds a decimal number; a runner whose own number is smaller stops itself."""
        return self.path / layout.FENCE

    @property
    def stop(self) -> Path:
        """`{"grace": seconds, "cause": "stopped" | ..., "message": str}`: asks the runner to end the attempt."""
        return self.path / layout.STOP

    @property
    def amended(self) -> Path:
        """What was changed of a running attempt: `{"max_duration", "grace", "limits"}`, each only when changed."""
        return self.path / layout.AMENDED

    @property
    def rendezvous(self) -> Path:
        """Of several nodes: where the ranks meet, `{"address", "port"}`, written by node 0."""
        return self.path / layout.RENDEZVOUS

    @property
    def abort(self) -> Path:
        """Of several nodes: the first that failed, written once."""
        return self.path / layout.ABORT

    @property
    def code(self) -> Path:
        """The run's code snapshot, unpacked for this attempt; the working folder."""
        return self.path / "code"

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def checkpoints(self) -> Path:
        """CHECKPOINT_PATH: where the script saves; nothing here is vouched for until it is published elsewhere."""
        return self.path / "checkpoints"

    @property
    def work(self) -> Path:
        """Scratch of the helper and the evaluation worker."""
        return self.path / "work"

    def node(self, index: int = 0) -> NodeFolder:
        return NodeFolder(self.path / layout.node(index))


@dataclass(frozen=True)
class NodeFolder:
    """`node-<n>/`: what one runner reports. Only that runner writes here."""

    path: Path

    @property
    def runner(self) -> Path:
        """`{"pid", "started", "boot", "at", "sockets": path, "keeper": {"pid", "started", "boot"} | None}`.

        Claimed exclusively: one runner can start. keeper: the process that ends what a killed runner left.
        """
        return self.path / layout.RUNNER

    @property
    def diag_log(self) -> Path:
        return self.path / layout.DIAG_LOG

    @property
    def run_log(self) -> Path:
        return self.path / layout.RUN_LOG

    @property
    def events(self) -> Path:
        return self.path / layout.EVENTS

    @property
    def metrics(self) -> Path:
        """Lines `{"t": seconds, "step": int, "name": str, "value": float, "rank": int}`."""
        return self.path / layout.METRICS

    @property
    def usage(self) -> Path:
        return self.path / layout.USAGE

    @property
    def heartbeat(self) -> Path:
        """Its modification time is the heartbeat; its content the time in seconds."""
        return self.path / layout.HEARTBEAT

    @property
    def exit(self) -> Path:
        return self.path / layout.EXIT


def read_lines(path: Path, offset: int, limit: int = 1 << 20) -> tuple[list[bytes], int]:
    """Complete lines from byte `offset` on (at most about `limit` bytes) and the offset behind the last of them.

    A missing file reads as empty. The newline is stripped. A line longer than `limit` is returned whole.
    """
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            block = file.read(limit)
            if block and b"\n" not in block:
                block += file.readline()
    except FileNotFoundError:
        return [], offset
    end = block.rfind(b"\n") + 1
    return (block[: end - 1].split(b"\n") if end else []), offset + end


def read_records(path: Path, offset: int = 0, most: int = 1 << 20) -> tuple[list[dict[str, Any]], int]:
    """JSON objects, one a line, from `offset` on, and the new offset. A line that is no JSON object is left out.

    most: bytes looked at; a longer line is read whole all the same.
    """
    lines, offset = read_lines(path, offset, most)
    found = []
    for line in lines:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            found.append(value)
    return found, offset
