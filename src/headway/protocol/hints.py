"""Hints: datagrams that say "look now" to whoever listens on this machine.

A hint carries no truth and may be lost: every listener also looks by itself after a while. Listeners are Unix datagram
sockets in one folder; a hint goes to all of them. Topics: `run` (a run was submitted or asked to change), `attempt` (a
runner wrote something; the id follows), `routes`, `states`, `quota`, `evaluation`, `model`, `endpoint`.
"""

from __future__ import annotations

import os
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

#: longest path that fits into sockaddr_un on every POSIX system
_LONGEST = 100


def folder(home: Path) -> Path:
    """The hint folder of a home: inside it, or under the temporary folder where the home's path is too long."""
    inside = home / "hints"
    if len(str(inside)) <= _LONGEST - 24:
        return inside
    # here and not above: a runner sends hints and must start at once
    import hashlib
    import tempfile
    from pathlib import Path

    digest = hashlib.sha256(str(home).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"headway-{os.getuid()}-{digest}"


def send(where: str | os.PathLike[str] | None, topic: str, detail: str = "") -> None:
    """Tells every listener in `where`; never blocks and never raises for a listener that is gone or slow."""
    if where is None:
        return
    try:
        names = [n for n in os.listdir(where) if n.endswith(".sock")]
    except OSError:
        return
    if not names:
        return
    payload = f"{topic} {detail}".strip().encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        for name in names:
            path = os.path.join(where, name)
            try:
                sender.sendto(payload, path)
            except ConnectionRefusedError:
                try:
                    os.unlink(path)  # its listener died without a goodbye
                except OSError:
                    pass
            except OSError:
                pass


class Listener:
    """A place where hints arrive. `fileno()` makes it fit for selectors and event loops; `receive` never blocks."""

    def __init__(self, where: Path, name: str) -> None:
        """Makes `where` (owner only) and binds `<name>-<pid>.sock` in it. Raises OSError when that fails."""
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = where / f"{name}-{os.getpid()}.sock"
        self.path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(str(self.path))

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> list[tuple[str, str]]:
        """All hints that have arrived, oldest first, as (topic, detail)."""
        found: list[tuple[str, str]] = []
        while True:
            try:
                raw = self._socket.recv(4096)
            except (BlockingIOError, OSError):
                return found
            topic, _, detail = raw.decode("utf-8", "replace").partition(" ")
            found.append((topic, detail))

    def close(self) -> None:
        self._socket.close()
        self.path.unlink(missing_ok=True)
