"""run.log and diag.log: whole lines with time, rank and stream, one writer, a cap with a notice."""

from __future__ import annotations

import os
import time

#: longest line kept in one piece; a longer one is cut into several
LONGEST_LINE = 64 * 1024


class Appended:
    """A file that is appended by us alone, in whole blocks: one that the disk does not take leaves no half of it."""

    def __init__(self, path: str) -> None:
        """Raises OSError."""
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.size = os.fstat(self._fd).st_size

    def append(self, block: bytes) -> bool:
        """Whether the whole block is in the file now; False when the disk is full or broken."""
        try:
            view = memoryview(block)
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            try:
                os.ftruncate(self._fd, self.size)
            except OSError:
                pass
            return False
        self.size += len(block)
        return True


class LogFile:
    """Appends rendered lines. After `limit` bytes, and after lines that a full disk did not take, it says so."""

    def __init__(self, path: str, limit: int) -> None:
        self._file = Appended(path)
        self._limit = limit
        self._cut = False
        self._missed = 0

    def write(self, lines: list[bytes], rank: int, stream: str) -> None:
        if not lines or self._cut:
            return
        now = time.time()
        prefix = f"{now:.6f} {rank} {stream} ".encode()
        block = prefix + (b"\n" + prefix).join(lines) + b"\n"
        if self._missed:
            notice = f"{now:.6f} {rank} h [headway] {self._missed} lines are missing here: the disk took none\n"
            block = notice.encode() + block
        if self._file.size + len(block) > self._limit:
            self._cut = True
            room = block[: block.rfind(b"\n", 0, max(self._limit - self._file.size, 0)) + 1]
            notice = f"[headway] the log reached its limit of {self._limit} bytes; later lines are dropped"
            block = room + f"{now:.6f} {rank} h {notice}\n".encode()
        self._missed = 0 if self._file.append(block) else self._missed + len(lines)


class LineSplitter:
    """Bytes in, whole lines out. A carriage return inside a line starts it anew, as a terminal would show it."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, block: bytes) -> list[bytes]:
        """The lines that `block` completes, in UTF-8, without their ends."""
        *lines, rest = (self._rest + block).split(b"\n")
        if b"\r" in rest:
            # a progress bar; the last byte may be the first half of "\r\n"
            rest = rest[rest.rfind(b"\r", 0, len(rest) - 1) + 1 :]
        while len(rest) > LONGEST_LINE:
            lines.append(rest[:LONGEST_LINE])
            rest = rest[LONGEST_LINE:]
        self._rest = rest
        # the longer way for all only where one needs it
        if lines and (b"\r" in block or not block.isascii() or b"\r" in lines[0] or not lines[0].isascii()):
            return [_shown(line) for line in lines]
        return lines

    def end(self) -> list[bytes]:
        """What stood there without a newline."""
        rest, self._rest = self._rest, b""
        return [_shown(rest)] if rest else []


def _shown(line: bytes) -> bytes:
    if b"\r" in line:
        line = line.rstrip(b"\r").rpartition(b"\r")[2]
    return line if line.isascii() else line.decode("utf-8", "replace").encode()
