"""run.log and diag.log: whole lines with time, rank and stream, one writer, a cap with a notice."""

from __future__ import annotations

import os
import time

#: longest line kept in one piece; a longer one is cut into several
LONGEST_LINE = 64 * 1024


class LogFile:
    """Appends rendered lines; after `limit` bytes it says so once and drops the rest."""

    def __init__(self, path: str, limit: int) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._left = limit - os.fstat(self._fd).st_size
        self._limit = limit
        self._cut = False

    def write(self, lines: list[bytes], rank: int, stream: str) -> None:
        if not lines or self._cut:
            return
        prefix = f"{time.time():.6f} {rank} {stream} ".encode()
        block = b"".join(prefix + line + b"\n" for line in lines)
        if len(block) > self._left:
            self._cut = True
            notice = f"[headway] the log reached its limit of {self._limit} bytes; later lines are dropped"
            block = (
                block[: block.rfind(b"\n", 0, max(self._left, 0)) + 1]
                + f"{time.time():.6f} {rank} h {notice}\n".encode()
            )
        self._left -= len(block)
        try:
            view = memoryview(block)
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            # a full disk must not end the user's process; its log stops here and goes on when there is room
            pass


class LineSplitter:
    """Bytes in, whole lines out. A carriage return inside a line starts it anew, as a terminal would show it."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, block: bytes) -> list[bytes]:
        *lines, self._rest = (self._rest + block).split(b"\n")
        while len(self._rest) > LONGEST_LINE:
            lines.append(self._rest[:LONGEST_LINE])
            self._rest = self._rest[LONGEST_LINE:]
        return [_shown(line) for line in lines]

    def end(self) -> list[bytes]:
        """What stood there without a newline."""
        rest, self._rest = self._rest, b""
        return [_shown(rest)] if rest else []


def _shown(line: bytes) -> bytes:
    if b"\r" in line:
        line = line.rstrip(b"\r").rpartition(b"\r")[2]
    if not line.isascii():
        line = line.decode("utf-8", "replace").encode()
    return line
