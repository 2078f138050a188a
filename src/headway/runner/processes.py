"""User processes: started with their ranks, and ended with all that they started."""

from __future__ import annotations

import ctypes
import os
import signal

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Makes grandchildren whose parent ended ours, so that none gets away."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def spawn(
    command: list[str], environment: dict[str, str], cwd: str, out: int, err: int, stdin: int | None = None
) -> int:
    """Starts `command` in a process group of its own and returns its id.

    The child dies with us (PR_SET_PDEATHSIG). Raises OSError when the program cannot be executed.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, set())
            source = stdin if stdin is not None else os.open(os.devnull, os.O_RDONLY)
            os.dup2(source, 0)
            os.dup2(out, 1)
            os.dup2(err, 2)
            os.chdir(cwd)
            os.execvpe(command[0], command, environment)
        except OSError as error:
            os.write(writer, f"{error.errno or 0}".encode())
        finally:
            os._exit(127)
    os.close(writer)
    try:
        failure = os.read(reader, 16)
    finally:
        os.close(reader)
    if failure:
        os.waitpid(pid, 0)
        number = int(failure)
        raise OSError(number, os.strerror(number), command[0])
    return pid


def members(marker: str, besides: set[int]) -> list[int]:
    """All processes whose environment holds `marker` ("NAME=value"), but for `besides`."""
    needle, found = marker.encode(), []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in besides:
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if needle in file.read().split(b"\0"):
                    found.append(int(name))
        except OSError:
            continue
    return found


def kill_all(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            continue
