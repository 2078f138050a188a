"""The keeper: the parent of a runner, asleep beside it, that finishes its work when it is killed.

It holds the reading ends of the user's outputs too, so that what was printed is not lost with the runner: it ends all
that the runner left, puts the last lines into run.log, and tells the other nodes. It writes no exit.json: that a runner
was lost is for the engine to say.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time

from headway.protocol import identity, layout
from headway.runner import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from headway.runner.journal import Found

#: descriptors in one message: two outputs
_MOST = 4
#: how long what cannot be killed may hold outputs open
DEAF_SECONDS = 5.0


class Keeper:
    """The runner's side: what the keeper is told. A keeper that is gone is no reason for anything."""

    def __init__(self, channel: socket.socket, pid: int) -> None:
        self._channel, self._pid = channel, pid
        channel.setblocking(False)

    def identity(self) -> identity.Identity | None:
        """None when it is gone: another process is our parent then."""
        found = identity.of(self._pid)
        return found if os.getppid() == self._pid else None

    def tell(self, word: dict[str, Any], fds: list[int]) -> None:
        try:
            socket.send_fds(self._channel, [json.dumps(word).encode()], fds)
        except OSError:
            pass


def start(folder: str, index: int) -> None:
    """Becomes the keeper of a runner for node `index` of the attempt in `folder`. Returns in neither of them."""
    processes.adopt_orphans()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    own = os.getpid()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setsid()
            ours.close()
            from headway.runner.run import Runner

            Runner(folder, index, Keeper(theirs, own)).main()
            code = 0
        finally:
            os._exit(code)
    try:
        theirs.close()
        _keep(pid, ours, folder, index)
    finally:
        os._exit(0)


def _keep(runner: int, channel: socket.socket, folder: str, index: int) -> None:
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    told: list[tuple[dict[str, Any], list[int]]] = []
    while True:
        try:
            word, fds, _, _ = socket.recv_fds(channel, 4096, _MOST)
        except OSError:
            break
        if not word:
            break  # it is gone
        told.append((json.loads(word), fds))
    os.waitpid(runner, 0)
    node = os.path.join(folder, layout.node(index))
    if told and not os.path.exists(os.path.join(node, layout.EXIT)):
        _rescue(folder, index, node, told)


def _rescue(folder: str, index: int, node: str, told: list[tuple[dict[str, Any], list[int]]]) -> None:
    _kill_all()
    outputs = [(word, fds[0]) for word, fds in told if "output" in word and fds]
    journal = next((fds[0] for word, fds in told if "journal" in word and fds), None)
    launched = [word for word, _ in told if "journal" in word or "output" in word]
    saved = _drain(node, outputs, journal) if launched else 0
    _say(node, f"the runner was killed; its keeper ended what it had left and saved {saved} lines")
    _tell(folder, index, told[0][0])
    _clean(node, told[0][0])


def _kill_all() -> None:
    """All that the runner left is ours by now; in whatever group or session it is."""
    for turn in range(500):
        for pid in processes.tree(os.getpid(), thorough=turn % 10 == 9):
            processes.kill(pid)
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
            except ChildProcessError:
                return
        time.sleep(0.002)


def _drain(node: str, outputs: list[tuple[dict[str, Any], int]], journal: int | None) -> int:
    """Puts what is left of the outputs into run.log; how many lines that were."""
    from headway.runner.journal import Found
    from headway.runner.logs import LineSplitter, LogFile

    found = Found(journal) if journal is not None else None
    path, end = _newest(os.path.join(node, layout.RUN_LOG))
    if found is not None and found.output is not None and end > found.end:
        _settle(path, end, found)
    log, lines = LogFile(path, 1 << 62), 0
    for word, fd in outputs:
        splitter, slot = LineSplitter(), word.get("slot")
        texts = []
        if found is not None and slot is not None:
            splitter.whole(found.rest(slot))
            if found.output == slot:
                text = splitter.whole(found.block)
                texts.append(b"" if found.done else text)
        texts += [splitter.whole(block) for block in _blocks(fd)]
        texts.append(splitter.rest())
        for text in texts:
            if text:
                log.append(text, int(word["output"]), str(word["stream"]))
                lines += text.count(b"\n")
    return lines


def _newest(path: str) -> tuple[str, int]:
    """The file of a log that was written last, and the offset behind its end in the whole log."""
    head, tail = os.path.split(path)
    starts = [
        int(rest)
        for name in os.listdir(head)
        if name.startswith(f"{tail}.") and (rest := name[len(tail) + 1 :]).isdigit()
    ]
    start = max(starts, default=0)
    file = f"{path}.{start}" if starts else path
    return file, start + os.stat(file).st_size


def _settle(path: str, end: int, found: Found) -> None:
    """The log has some of the block's lines: all of them, or the half that is cut off here."""
    with open(path, "rb+") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 1, 0))
        if file.read(1) == b"\n":
            found.done = True
        elif found.end >= end - size:
            file.truncate(found.end - (end - size))


def _blocks(fd: int) -> list[bytes]:
    """What is in a pipe that nobody writes to any more."""
    os.set_blocking(fd, False)
    found, until = [], time.monotonic() + DEAF_SECONDS
    while time.monotonic() < until:
        try:
            block = os.read(fd, 1 << 16)
        except BlockingIOError:
            time.sleep(0.01)
            continue
        except OSError:
            break
        if not block:
            break
        found.append(block)
    os.close(fd)
    return found


def _say(node: str, text: str) -> None:
    from headway.runner.logs import LogFile

    try:
        LogFile(_newest(os.path.join(node, layout.DIAG_LOG))[0], 1 << 62).write([text.encode()], 0, "h")
    except OSError:
        pass  # its folder is gone


def _tell(folder: str, index: int, claim: dict[str, Any]) -> None:
    """The other nodes, and whoever listens on this machine."""
    from headway.protocol import hints
    from headway.protocol.causes import Cause
    from headway.runner.peers import Peers

    nodes = claim.get("nodes") or []
    if len(nodes) > 1:
        Peers(folder, index, nodes, time.monotonic()).abort(Cause.RUNNER_LOST, "its runner was killed.")
    hints.send(claim.get("hints"), "attempt", str(claim.get("attempt")))


def _clean(node: str, claim: dict[str, Any]) -> None:
    from headway.runner import memory

    try:
        with open(os.path.join(node, layout.CGROUP), encoding="utf-8", errors="surrogateescape") as file:
            memory.remove(file.read())
        os.unlink(os.path.join(node, layout.CGROUP))
    except OSError:
        pass
    sockets = str(claim.get("sockets") or "")
    try:
        for name in os.listdir(sockets):
            os.unlink(os.path.join(sockets, name))
        os.rmdir(sockets)
    except OSError:
        pass
