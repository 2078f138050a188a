"""Which process is meant: a process id alone is reused, its start time and the boot make it unique."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Identity:
    """A value: equal when all three are. No dataclass, whose import would be a tenth of a runner's start."""

    __slots__ = ("boot", "pid", "started")

    def __init__(self, pid: int, started: int, boot: str) -> None:
        """started: clock ticks since boot (field 22 of /proc/<pid>/stat). boot: the kernel's boot id."""
        self.pid = pid
        self.started = started
        self.boot = boot

    def _key(self) -> tuple[int, int, str]:
        return self.pid, self.started, self.boot

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Identity(pid={self.pid}, started={self.started}, boot={self.boot!r})"

    def to_json(self) -> dict[str, Any]:
        return {"pid": self.pid, "started": self.started, "boot": self.boot}

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Identity:
        return cls(pid=int(raw["pid"]), started=int(raw["started"]), boot=str(raw["boot"]))


def _boot() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def _started(pid: int) -> int | None:
    """None: there is no such process. Raises OSError when that cannot be told, as without a free descriptor."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # the command may hold spaces and brackets: what follows the last bracket is field 3 on
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] == b"Z" else int(fields[19])


def of(pid: int) -> Identity | None:
    """The identity of the process that has `pid` now; None when there is none (or only its zombie). Raises OSError."""
    started = _started(pid)
    return None if started is None else Identity(pid, started, _boot())


_own: Identity | None = None


def own() -> Identity:
    """Of this process. Raises OSError the first time, at most."""
    global _own
    if _own is None or _own.pid != os.getpid():
        _own = of(os.getpid())
    assert _own is not None
    return _own


def alive(identity: Identity) -> bool:
    """Whether exactly this process still runs; a process that took over its id does not count.

    True where it cannot be told: what belongs to the living must not be taken away.
    """
    try:
        return of(identity.pid) == identity
    except OSError:
        return True


def send_signal(identity: Identity, number: int) -> bool:
    """Sends a signal to exactly this process; False when it is gone."""
    try:
        fd = os.pidfd_open(identity.pid)
    except OSError:
        return False
    try:
        if not alive(identity):
            return False
        import signal

        signal.pidfd_send_signal(fd, number)
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
