"""Small pictures made in a process of their own: what kills or hangs a decoder costs one picture, and nothing else.

`python -m headway.report.studio` is that process: `kind bytes\\n` and the content come in, `bytes\\n` and the JPEG go
out; 0 bytes where there is none.
"""

from __future__ import annotations

import contextlib
import resource
import subprocess
import sys
import threading

from headway.report import thumbnails

#: for one picture
SECONDS = 20.0
#: address space of the process
_MEMORY = 4 << 30
_COMMAND = [sys.executable, "-I", "-m", "headway.report.studio"]


class Studio:
    """Makes one picture after another, whichever thread asks; the process starts with the first. `close` it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def make(self, content: bytes, kind: str) -> bytes | None:
        """A JPEG of an "image" or "video"; None where it cannot be made within `SECONDS`."""
        with self._lock:
            process = self._ready()
            watch = threading.Timer(SECONDS, process.kill)
            watch.start()
            try:
                return _ask(process, content, kind)
            except (OSError, ValueError):
                self._end()
                return None
            finally:
                watch.cancel()

    def close(self) -> None:
        with self._lock:
            self._end()

    def _ready(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = subprocess.Popen(
                _COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        process.wait()


def _ask(process: subprocess.Popen[bytes], content: bytes, kind: str) -> bytes | None:
    """Raises OSError or ValueError when the process has died."""
    assert process.stdin and process.stdout
    process.stdin.write(f"{kind} {len(content)}\n".encode())
    process.stdin.write(content)
    process.stdin.flush()
    size = int(process.stdout.readline())
    made = process.stdout.read(size)
    if len(made) < size:
        raise OSError("the picture ends early")
    return made or None


def main() -> None:
    """Answers until stdin ends."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    source, target = sys.stdin.buffer, sys.stdout.buffer
    while head := source.readline():
        kind, size = head.split()
        made = thumbnails.make(source.read(int(size)), kind.decode()) or b""
        target.write(b"%d\n" % len(made))
        target.write(made)
        target.flush()


if __name__ == "__main__":
    main()
