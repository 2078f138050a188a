"""One command in a process group of its own, with a time limit; its output goes on and its end is kept."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time

from headway.script import oom
from headway.script.printed import Printed, last_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def run_command(words: list[str], timeout: float | None, began: float) -> tuple[dict[str, Any], Printed]:
    """{"ok": true} or {"failed": {...}}, and what it printed on stdout. Raises OSError when it cannot be started."""
    kills = oom.Kills()
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    oom.go_first(process.pid)
    assert process.stdout and process.stderr
    out, err = Printed(os.dup(process.stdout.fileno()), 1), Printed(os.dup(process.stderr.fileno()), 2)
    process.stdout.close()
    process.stderr.close()
    done = _wait(process, (out, err), None if timeout is None else began + timeout)
    # what it left in the background must not outlive its cell
    _kill(process.pid)
    _, state, usage = os.wait4(process.pid, 0)
    status = process.returncode = os.waitstatus_to_exitcode(state)
    for printed in (out, err):
        printed.take()
        printed.close()
    if not done:
        return _failed("timeout", f"It took longer than its time limit of {timeout:g} s."), out
    if memory := kills.sentence("It", status, usage.ru_maxrss << 10):
        return {"failed": {**_failed(oom.CAUSE, memory)["failed"], "tail": err.text[-4096:]}}, out
    if status < 0:
        name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
        return {"failed": {**_failed("killed", f"It was killed by {name}.")["failed"], "tail": err.text[-4096:]}}, out
    if status:
        said = last_line(err.text) or last_line(out.text)
        failed = _failed("exit", f"It returned {status}{': ' + said[:500] if said else '.'}")
        return {"failed": {**failed["failed"], "tail": err.text[-4096:]}}, out
    return {"ok": True}, out


def _wait(process: subprocess.Popen[bytes], outputs: tuple[Printed, ...], deadline: float | None) -> bool:
    """Passes on what it prints until it has ended; False at the deadline."""
    ended = os.pidfd_open(process.pid)
    try:
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            poll = select.poll()
            for fd in (ended, *(o.fd for o in outputs if o.open)):
                poll.register(fd, select.POLLIN)
            found = {fd for fd, _ in poll.poll(None if left is None else left * 1000 + 1)}
            for output in outputs:
                if output.open and output.fd in found:
                    output.take()
            if ended in found:
                return True
    finally:
        os.close(ended)


def _kill(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass


def _failed(cause: str, reason: str) -> dict[str, Any]:
    return {"failed": {"cause": cause, "reason": reason}}
