"""The forked process with the user's code, seen from its worker: asked, waited for, ended with all that it started."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time

from headway.script import oom
from headway.script.printed import Printed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PR_SET_PDEATHSIG = 1
#: how long a child may take to end by itself
_LEAVE_SECONDS = 2.0
#: a child that is killed while it imports, by whoever, is followed by another
_IMPORT_TRIES = 3


def start(hello: dict[str, Any]) -> Child:
    """One that is ready. Raises SystemExit with one sentence when the code cannot be imported, or dies each time."""
    for _ in range(_IMPORT_TRIES):
        child = Child(hello)
        if child.first.get("ready"):
            return child
        child.end()
        if fatal := child.first.get("fatal"):
            raise SystemExit(fatal)
    failed = child.first["failed"]
    if failed["cause"] == oom.CAUSE:
        raise SystemExit(f"{failed['reason']} That was while the code was imported, {_IMPORT_TRIES} times.")
    raise SystemExit(f"{failed['reason'][:-1]} while the code was imported, {_IMPORT_TRIES} times.")


class Child:
    """The forked process with the user's code."""

    def __init__(self, hello: dict[str, Any]) -> None:
        ours, theirs = socket.socketpair()
        captures = hello.get("scores") == "stdout"
        pipe = os.pipe() if captures else None
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _become_child(theirs, pipe, hello, parent)
        theirs.close()
        self.printed: Printed | None = None
        if pipe is not None:
            os.close(pipe[1])
            self.printed = Printed(pipe[0], 1)
        self._socket = ours
        self._pidfd = os.pidfd_open(self.pid)
        self._heard = b""
        self._kills = oom.Kills()
        #: bytes that it used at most, once it has ended
        self._used = 0
        self.alive = True
        #: {"ready"}, {"fatal"}: a sentence, or {"failed"} when it died
        self.first = self.more(None)

    def ask(self, word: dict[str, Any], timeout: float | None) -> dict[str, Any]:
        if self.printed is not None:
            self.printed.take()
            self.printed.clear()
        try:
            self._socket.sendall(json.dumps(word).encode() + b"\n")
        except OSError:
            return self._its_end()
        return self.more(timeout)

    def more(self, timeout: float | None) -> dict[str, Any]:
        """Its next word; it is ended when that takes longer."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while b"\n" not in self._heard:
            if not self._wait(deadline):
                self.end(at_once=True)
                reason = f"It took longer than its time limit of {timeout:g} s."
                return {"failed": {"cause": "timeout", "reason": reason}}
            try:
                block = self._socket.recv(1 << 16, socket.MSG_DONTWAIT)
            except OSError:
                block = b""
            if not block:
                return self._its_end()
            self._heard += block
        line, _, self._heard = self._heard.partition(b"\n")
        if self.printed is not None:
            self.printed.take()
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            # the user's code wrote to a descriptor that is not its own: nothing that it says can be believed
            self.end(at_once=True)
            return {"failed": {"cause": "killed", "reason": "The worker wrote to a descriptor that was not its own."}}
        return answer

    def _wait(self, deadline: float | None) -> bool:
        """Until it says something or dies; False at the deadline."""
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            # what it forked may hold its end of the socket: that it is gone is seen by itself
            fds = [self._socket.fileno(), self._pidfd]
            if self.printed is not None and self.printed.open:
                fds.append(self.printed.fd)
            # poll: descriptors may be above 1023
            poll = select.poll()
            for fd in fds:
                poll.register(fd, select.POLLIN)
            found = [fd for fd, _ in poll.poll(None if left is None else left * 1000 + 1)]
            if self.printed is not None and self.printed.fd in found:
                self.printed.take()
            if fds[0] in found or fds[1] in found:
                return True

    def _its_end(self) -> dict[str, Any]:
        status = self.end()
        if memory := self._kills.sentence("The worker", status, self._used):
            return {"failed": {"cause": oom.CAUSE, "reason": memory}}
        return {"failed": {"cause": "killed", "reason": _died("The worker", status)}}

    def end(self, at_once: bool = False) -> int:
        """Ends it and all of its group; its exit code, or minus the signal that ended it."""
        if not self.alive:
            return 0
        self.alive = False
        self._socket.close()
        # one that is on its way out is not killed: how it ends is to be told
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        found = poll.poll(0 if at_once else _LEAVE_SECONDS * 1000)
        os.close(self._pidfd)
        _kill_group(self.pid)
        _, status, usage = os.wait4(self.pid, 0)
        self._used = usage.ru_maxrss << 10
        if self.printed is not None:
            self.printed.take()
            self.printed.close()
        return os.waitstatus_to_exitcode(status) if found else -signal.SIGKILL


def _become_child(theirs: socket.socket, pipe: tuple[int, int] | None, hello: dict[str, Any], parent: int) -> None:
    """Never returns."""
    try:
        os.setpgid(0, 0)
        _die_with(parent)
        oom.go_first(os.getpid())
        if pipe is not None:
            os.dup2(pipe[1], 1)
        # the worker's own are none of the user's code
        os.closerange(3, theirs.fileno())
        os.closerange(theirs.fileno() + 1, 1 << 20)
        import faulthandler

        from headway.script.cell_child import serve

        faulthandler.enable()
        serve(theirs, hello.get("worker"), hello.get("check"), hello.get("scorer"))
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _die_with(parent: int) -> None:
    """Ends this process when its parent ends, whatever ends that."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _kill_group(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except OSError:
            continue


def _died(who: str, status: int) -> str:
    """One sentence on how a process ended. status: its code, or minus a signal."""
    if status >= 0:
        return f"{who} ended with code {status} in the middle of a cell."
    try:
        return f"{who} was killed by {signal.Signals(-status).name}."
    except ValueError:
        return f"{who} was killed by signal {-status}."
