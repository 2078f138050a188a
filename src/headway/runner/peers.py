"""The other nodes of a gang, as the attempt's folder shows them: where they meet, who failed, who is silent.

Each node has a runner of its own and tells the others by files alone, so that a gang ends also with every server dead.
Imported only where an attempt has several nodes.
"""

from __future__ import annotations

import os
import time

from headway.protocol import layout
from headway.protocol.causes import Cause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: how often the others are looked at
LOOK_SECONDS = 0.25
#: how often their heartbeats and logs are looked at
BEAT_SECONDS = 3.0
#: a node whose heartbeat has not changed for this long, by our own clock, is lost
LOST_SECONDS = 30.0
#: a node of which there was no sign at all for this long never came
COME_SECONDS = 120.0


class Peers:
    """What this node knows of the others, and what it tells them. Times are monotonic seconds."""

    def __init__(self, folder: str, index: int, nodes: list[dict[str, Any]], now: float) -> None:
        self._folder, self._index, self._nodes = folder, index, nodes
        self._others = [other for other in range(len(nodes)) if other != index]
        self._beats = dict.fromkeys(self._others, b"")
        self._seen_at = dict.fromkeys(self._others, now)
        self._sizes = dict.fromkeys(self._others, 0)
        self._quiet = False
        self._beat_at = self._looked_at = now
        self.look_at = now + LOOK_SECONDS
        #: when one of the others last printed a line
        self.line_at = now

    def name(self, node: int) -> str:
        return str(self._nodes[node].get("name") or f"node {node}") if node < len(self._nodes) else f"node {node}"

    def _path(self, node: int, name: str) -> str:
        return os.path.join(self._folder, layout.node(node), name)

    # -- where the ranks meet

    def meet(self, port: int) -> tuple[str, int] | None:
        """(address, port) of rank 0; None while node 0 has not told it. Node 0 tells `port`. Raises OSError."""
        path = os.path.join(self._folder, layout.RENDEZVOUS)
        if self._index == 0:
            address = str(self._nodes[0].get("address") or os.uname().nodename)
            layout.write_first(path, {"address": address, "port": port})
        try:
            found = layout.read_json(path)
            return str(found["address"]), int(found["port"])
        except (ValueError, TypeError, KeyError, OSError):
            return None

    # -- who failed

    def abort(self, cause: Cause, message: str, rank: int | None = None, status: int = 0) -> int:
        """Tells the others that this node failed; gives the node that the gang takes for the first.

        status: exit code of `rank`, or minus its signal.
        """
        mine = {
            "node": self._index,
            "rank": rank,
            "code": status if status >= 0 else 128 - status,
            "signal": -status if status < 0 else None,
            "cause": cause.value,
            "message": message,
            "at": time.time(),
        }
        return self._abort(mine)

    def _abort(self, facts: dict[str, Any]) -> int:
        try:
            layout.write_first(os.path.join(self._folder, layout.ABORT), facts)
            found = self._aborted()
        except OSError:
            found = None  # a full disk; they will miss our heartbeat, or read our exit.json
        return int(found["node"]) if found else self._index

    def _aborted(self) -> dict[str, Any] | None:
        try:
            found = layout.read_json(os.path.join(self._folder, layout.ABORT))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) and isinstance(found.get("node"), int) else None

    def ask_all(self, cause: Cause, message: str, grace: float) -> None:
        """Asks every node of the gang to end, unless they were asked before."""
        asked = {"grace": grace, "cause": cause.value, "message": message, "at": time.time(), "node": self._index}
        try:
            layout.write_first(os.path.join(self._folder, layout.STOP), asked)
        except OSError:
            pass  # we end all the same, and the others with us

    # -- what became of them

    def look(self, now: float) -> tuple[Cause, str] | None:
        """To be called every `LOOK_SECONDS`; why this node has to end now, None when it has not."""
        self.look_at = now + LOOK_SECONDS
        if found := self._aborted():
            return self._told(found)
        if now - self._looked_at > LOST_SECONDS / 3:
            # we slept, not they
            self._seen_at = dict.fromkeys(self._others, now)
        self._looked_at = now
        if now < self._beat_at:
            return None
        self._beat_at = now + BEAT_SECONDS
        for other in self._others:
            if sentence := self._silent(other, now):
                lost = {"node": other, "rank": None, "code": None, "signal": None, "cause": Cause.NODE_LOST.value}
                self._abort({**lost, "message": sentence, "at": time.time(), "by": self._index})
                return Cause.PEER_FAILED, sentence
        return None

    def _told(self, found: dict[str, Any]) -> tuple[Cause, str] | None:
        message = str(found.get("message") or "it failed.")
        if found["node"] == self._index:
            # told by others: they had no sign of us
            return (Cause.NODE_LOST, message) if "by" in found else None
        return Cause.PEER_FAILED, f"{self.name(found['node'])}: {message}"

    def _silent(self, other: int, now: float) -> str | None:
        """A sentence when `other` is lost. Looks at its log on the way."""
        try:
            with open(self._path(other, layout.HEARTBEAT), "rb") as file:
                beat = file.read()
        except OSError:
            beat = b""
        if beat != self._beats[other]:
            self._beats[other], self._seen_at[other] = beat, now
        try:
            size = os.stat(self._path(other, layout.RUN_LOG)).st_size
        except OSError:
            size = 0
        if size != self._sizes[other]:
            self._sizes[other], self.line_at = size, now
        silent = now - self._seen_at[other]
        if silent < (LOST_SECONDS if self._beats[other] else COME_SECONDS) or self.ended(other):
            return None
        if not self._beats[other]:
            return f"{self.name(other)} never came: no sign of it for {silent:.0f} s."
        return f"{self.name(other)} is lost: no heartbeat for {silent:.0f} s."

    def ended(self, other: int) -> bool:
        return os.path.exists(self._path(other, layout.EXIT))

    # -- a hang is one of all

    def all_quiet(self, quiet: bool) -> bool:
        """Tells the others whether this node has neither printed nor worked for too long; whether all living have."""
        mine = self._path(self._index, layout.QUIET)
        if quiet != self._quiet:
            self._quiet = quiet
            try:
                if quiet:
                    with open(mine, "wb"):
                        pass
                else:
                    os.unlink(mine)
            except OSError:
                pass
        return quiet and all(os.path.exists(self._path(o, layout.QUIET)) or self.ended(o) for o in self._others)
