"""run.log and diag.log: whole lines with time, rank and stream, one writer; of a long log head and tail are kept."""

from __future__ import annotations

import os
import time

#: longest line kept in one piece; a longer one is cut into several
LONGEST_LINE = 64 * 1024
#: a segment is this part of a log's limit; the first file is half of it, and so are the newest segments together
PIECES = 8
KEPT = 4


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

    def close(self) -> None:
        os.close(self._fd)


class LogFile:
    """Appends rendered lines; beyond `limit` bytes the first and the newest are kept (see `protocol.logs`).

    The file itself takes the first half of the limit. What follows goes to segments of an eighth, named by the offset
    at which they start, of which the newest four are kept. So an offset means the same for ever, nothing is moved, and
    a block costs the same whether the log is short or long. Lines that a full disk did not take are counted, and the
    log says so where they are missing.
    """

    def __init__(self, path: str, limit: int) -> None:
        """limit: bytes in all. Raises OSError."""
        self._path = path
        self._head, self._piece = limit // 2, limit // PIECES
        self._file = Appended(path)
        #: where the current file starts in the whole log
        self._start = 0
        #: starts of the segments that are there, oldest first
        self._segments: list[int] = []
        self._missed = 0

    def write(self, lines: list[bytes], rank: int, stream: str) -> None:
        if lines:
            self.append(b"\n".join(lines) + b"\n", rank, stream)

    def append(self, text: bytes, rank: int, stream: str, notice: str = "") -> None:
        """Whole lines, each with its newline. notice: our own words before them."""
        if not text and not notice:
            return
        prefix = f"{time.time():.6f} {rank} {stream} ".encode()
        # one replacement for all lines is several times as quick as taking them apart
        block = prefix + text.replace(b"\n", b"\n" + prefix)[: -len(prefix)] if text else b""
        if notice:
            block = self._notice(notice) + block
        if self._missed:
            block = self._notice(f"{self._missed} lines are missing here: the disk took none") + block
        room = (self._piece if self._segments else self._head) - self._file.size
        taken = self._file.append(block) if len(block) <= room else self._divide(block, room)
        self._missed = 0 if taken else self._missed + text.count(b"\n")

    @property
    def missed(self) -> int:
        """Lines at the end that the disk did not take."""
        return self._missed

    @property
    def end(self) -> int:
        """The offset behind the last line."""
        return self._start + self._file.size

    @staticmethod
    def _notice(text: str) -> bytes:
        return f"{time.time():.6f} 0 h [headway] {text}\n".encode()

    def _divide(self, block: bytes, room: int) -> bool:
        """Appends a block that the current file has no room for: whole lines here, the others in the next files."""
        while block:
            end = len(block) if len(block) <= room else block.rfind(b"\n", 0, max(room, 0)) + 1
            if not end and not self._file.size:
                # longer than a whole segment
                end = block.index(b"\n") + 1
            if end and not self._file.append(block[:end]):
                return False
            block = block[end:]
            if block:
                if not self._turn():
                    return False
                room = self._piece
        return True

    def _turn(self) -> bool:
        """Goes on in a new segment, and removes the oldest of more than are kept; False when there can be none."""
        start = self._start + self._file.size
        while len(self._segments) >= KEPT:
            try:
                os.unlink(f"{self._path}.{self._segments[0]}")
            except OSError:
                pass  # somebody else removed it
            del self._segments[0]
        try:
            later = Appended(f"{self._path}.{start}")
        except OSError:
            return False
        self._file.close()
        self._file, self._start = later, start
        self._segments.append(start)
        return True


class LineSplitter:
    """Bytes in, whole lines out. A carriage return inside a line starts it anew, as a terminal would show it."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, block: bytes) -> list[bytes]:
        """The lines that `block` completes, in UTF-8, without their ends."""
        text = self.whole(block)
        return text[:-1].split(b"\n") if text else []

    def whole(self, block: bytes) -> bytes:
        """The same as one text, each line with its newline."""
        block = self._rest + block
        end = block.rfind(b"\n") + 1
        rest = block[end:]
        if b"\r" in rest:
            # a progress bar; the last byte may be the first half of "\r\n"
            rest = rest[rest.rfind(b"\r", 0, len(rest) - 1) + 1 :]
        text = block[:end]
        # the longer way only where a line needs it
        if b"\r" in text or not _is_text(text):
            text = b"\n".join([_shown(line) for line in text[:-1].split(b"\n")]) + b"\n"
        while len(rest) > LONGEST_LINE:
            text += _shown(rest[:LONGEST_LINE]) + b"\n"
            rest = rest[LONGEST_LINE:]
        self._rest = rest
        return text

    @property
    def begun(self) -> bytes:
        """What stands there without a newline."""
        return self._rest

    def rest(self) -> bytes:
        """What stood there without a newline, with one; b"" when nothing did."""
        rest, self._rest = self._rest, b""
        return _shown(rest) + b"\n" if rest else b""

    def end(self) -> list[bytes]:
        """The same as lines."""
        rest = self.rest()
        return [rest[:-1]] if rest else []


def _is_text(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _shown(line: bytes) -> bytes:
    if b"\r" in line:
        line = line.rstrip(b"\r").rpartition(b"\r")[2]
    return line if line.isascii() else line.decode("utf-8", "replace").encode()
