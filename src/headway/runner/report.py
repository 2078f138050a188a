"""What a runner writes into its node's folder: its claim, events, samples, the heartbeat and the end."""

from __future__ import annotations

import json
import os
import time

from headway.protocol import hints, identity, layout
from headway.runner.logs import Appended, LogFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DIAG_LIMIT = 64 << 20
#: how often exit.json is tried on a disk that does not take it; twelve hours, after which the node counts as lost
EXIT_TRIES = 43_200


class ClaimedError(Exception):
    """Another runner has this attempt already."""


class Report:
    """One node's files. `hints` and `attempt` are set once launch.json was read."""

    def __init__(self, folder: str, keeper: identity.Identity | None = None) -> None:
        """Makes `folder` and claims it. keeper: ends what we leave when we are killed. Raises ClaimedError, OSError."""
        self.folder = folder
        self.attempt = ""
        self.hints: str | None = None
        self.started = time.time()
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self.sockets = _short_folder()
        self._claim(keeper)
        self._diag = LogFile(self.path(layout.DIAG_LOG), DIAG_LIMIT)
        self._events = Appended(self.path(layout.EVENTS))
        self._waiting: list[bytes] = []

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _claim(self, keeper: identity.Identity | None) -> None:
        mine = self.path(f".{layout.RUNNER}.{os.getpid()}")
        claim = {**identity.own().to_json(), "at": self.started, "sockets": self.sockets}
        claim["keeper"] = keeper.to_json() if keeper is not None else None
        with open(mine, "w", encoding="utf-8") as file:
            json.dump(claim, file)
        try:
            # a link fails where the name exists: of two runners one goes on
            os.link(mine, self.path(layout.RUNNER))
        except FileExistsError:
            os.rmdir(self.sockets)
            raise ClaimedError from None
        finally:
            os.unlink(mine)

    def say(self, text: str) -> None:
        """One of headway's own lines in the diagnostic log."""
        self.diagnose(text.encode("utf-8", "replace").splitlines(), "h")

    def diagnose(self, lines: list[bytes], stream: str) -> None:
        self._diag.write(lines, 0, stream)

    def event(self, name: str, /, **fields: Any) -> None:
        """Appends to events.jsonl. What a full disk does not take waits and is tried again: events are never lost."""
        self.note(name, **fields)
        self.flush()

    def note(self, name: str, /, **fields: Any) -> None:
        """An event that is written with the next `flush`."""
        line = json.dumps({"at": time.time(), "event": name, **fields}, ensure_ascii=False) + "\n"
        self._waiting.append(line.encode("utf-8", "replace"))

    def flush(self) -> None:
        """Writes the events that wait, and hints."""
        if self._waiting and self._events.append(b"".join(self._waiting)):
            self._waiting.clear()
            self.hint()

    def hint(self) -> None:
        if self.hints is not None:
            hints.send(self.hints, "attempt", self.attempt)

    def beat(self) -> None:
        try:
            with open(self.path(layout.HEARTBEAT), "w", encoding="ascii") as file:
                file.write(f"{time.time():.3f}\n")
        except OSError:
            pass  # a full disk is no reason to end

    def end(self, facts: dict[str, Any]) -> None:
        """The EXIT event and exit.json, tried until the disk takes them: an end that nobody reads is a lost attempt."""
        self.event("exit", **{key: value for key, value in facts.items() if key != "usage"})
        for _ in range(EXIT_TRIES):
            if not os.path.isdir(self.path("")):
                break  # somebody removed the attempt: there is nobody left to tell
            self.flush()
            try:
                if not self._waiting:
                    layout.write_json(self.path(layout.EXIT), facts)
                    break
            except OSError:
                pass
            self.beat()
            time.sleep(1.0)
        self.hint()

    def close(self) -> None:
        """Removes the sockets."""
        for name in os.listdir(self.sockets):
            os.unlink(os.path.join(self.sockets, name))
        os.rmdir(self.sockets)


def _short_folder() -> str:
    """A new folder of our own whose path leaves room for a socket's name (107 bytes in all)."""
    parent = os.environ.get("TMPDIR", "/tmp")
    if len(parent) > 60 or not os.path.isdir(parent):
        parent = "/tmp"
    path = os.path.join(parent, f"hw-{os.urandom(6).hex()}")
    os.mkdir(path, 0o700)
    return path
