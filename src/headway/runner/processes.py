"""Processes: started with pipes, found again with all that they started, killed to the last one."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_PIPE_BYTES = 1 << 18
_F_SETPIPE_SZ = 1031


def adopt_orphans() -> None:
    """Makes grandchildren whose parent ended ours, so that none gets away."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Outputs:
    """The pipes of a process that is about to start: what it writes is read from `out` and `err`."""

    def __init__(self) -> None:
        self.out, self._out = os.pipe2(os.O_CLOEXEC)
        self.err, self._err = os.pipe2(os.O_CLOEXEC)
        for fd in (self._out, self._err):
            try:
                fcntl.fcntl(fd, _F_SETPIPE_SZ, _PIPE_BYTES)
            except OSError:
                pass  # the user's limit for pipes; the usual 64 KiB do as well

    def spawn(
        self,
        command: list[str],
        environment: dict[str, str],
        cwd: str,
        stdin: int | None = None,
        *,
        enter: Callable[[], None] | None = None,
        keep: tuple[int, ...] = (),
    ) -> int:
        """Starts `command` writing into these pipes. Raises OSError (errno, reason, program); all is closed then.

        enter: called in the new process before it becomes the command. keep: descriptors that it inherits besides.
        """

        def become() -> None:
            if enter is not None:
                enter()
            for fd in keep:
                os.set_inheritable(fd, True)
            os.chdir(cwd)
            os.execvpe(command[0], command, environment)

        return self._start(become, stdin, command[0] if command else "")

    def fork(self, call: Callable[[], int], name: str, environment: dict[str, str], cwd: str, stdin: int) -> int:
        """Starts `call` in a process with the modules that are loaded here; `call` returns its exit status.

        name: what lists of processes show (15 bytes). Raises OSError as `spawn` does.
        """

        def become() -> None:
            os.chdir(cwd)
            _LIBC.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)
            os.closerange(3, 1 << 20)
            os.environ.clear()
            os.environ.update(environment)
            code = 1
            try:
                code = call()
            except BaseException:
                sys.excepthook(*sys.exc_info())
                sys.stderr.flush()
            finally:
                os._exit(code)

        return self._start(become, stdin, name)

    def _start(self, become: Callable[[], None], stdin: int | None, what: str) -> int:
        try:
            return _forked(become, (stdin, self._out, self._err), what)
        except OSError:
            os.close(self.out)
            os.close(self.err)
            raise
        finally:
            os.close(self._out)
            os.close(self._err)


def _forked(become: Callable[[], None], streams: tuple[int | None, int, int], what: str) -> int:
    """In a process group of its own, dying with us (PR_SET_PDEATHSIG). Raises OSError when it cannot be executed."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _settle(streams, parent)
            become()
        except OSError as error:
            os.write(writer, f"{error.errno or 0}".encode())
        except BaseException:
            os.write(writer, b"22")  # EINVAL: a NUL in an argument, no command at all
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
        raise OSError(number, os.strerror(number), what)
    return pid


def _settle(streams: tuple[int | None, int, int], parent: int) -> None:
    os.setpgid(0, 0)
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(127)  # it died before the line above
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    stdin, out, err = streams
    os.dup2(os.open(os.devnull, os.O_RDONLY) if stdin is None else stdin, 0)
    os.dup2(out, 1)
    os.dup2(err, 2)


def childless() -> bool:
    """Whether we have no child at all, zombies included."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def tree(root: int, besides: Collection[int] = (), *, thorough: bool = False) -> list[int]:
    """All that `root` started, and what those started, zombies too; without `besides` and what those started.

    thorough: looks at every process. The kernel's lists of children are quick, but may miss one while another ends.
    """
    listed = not thorough and os.path.exists(f"/proc/{root}/task/{root}/children")
    scanned = {} if listed else _by_parent()
    found: list[int] = []
    left = [root]
    while left:
        pid = left.pop()
        for child in _children(pid) if listed else scanned.get(pid, ()):
            if child not in besides:
                found.append(child)
                left.append(child)
    return found


def _children(pid: int) -> list[int]:
    """What the threads of `pid` started and did not wait for."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    except OSError:
        pass  # it, or that thread, ended meanwhile
    return found


def _by_parent() -> dict[int, list[int]]:
    """Children by parent, for a kernel without lists of children (CONFIG_PROC_CHILDREN)."""
    found: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue
            found.setdefault(parent, []).append(int(name))
    return found


def stat(pid: int) -> list[bytes] | None:
    """Fields 3 and on of /proc/<pid>/stat; None when it is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else fields


def signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except OSError:
        pass


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass
