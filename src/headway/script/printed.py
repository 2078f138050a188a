"""What a cell's process prints: passed on at once, its end kept, and the scores in it found."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: bytes at the end that are kept
_KEPT = 1 << 20
#: places at which an object is looked for
_PLACES = 1000


class Printed:
    """The reading end of a pipe whose content goes on to descriptor `to`."""

    def __init__(self, fd: int, to: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self._to = to
        self._kept = b""
        self.open = True

    def clear(self) -> None:
        self._kept = b""

    def take(self) -> None:
        """Reads what there is now."""
        while self.open:
            try:
                block = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                return
            if not block:
                self.close()
                return
            self._kept = (self._kept + block)[-_KEPT:]
            view = memoryview(block)
            while view:
                view = view[os.write(self._to, view) :]

    def close(self) -> None:
        if self.open:
            self.open = False
            os.close(self.fd)

    @property
    def text(self) -> str:
        return self._kept.decode(errors="replace")


def last_object(text: str) -> dict[str, Any] | None:
    """The last JSON object that begins a line of its own; None when there is none."""
    decoder = json.JSONDecoder()
    end = len(text)
    for _ in range(_PLACES):
        at = text.rfind("{", 0, end)
        if at < 0:
            return None
        end = at
        if text[text.rfind("\n", 0, at) + 1 : at].strip():
            continue
        try:
            found, stop = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and not text[stop:].partition("\n")[0].strip() and not _inside(text, at):
            return found
    return None


def _inside(text: str, at: int) -> bool:
    """Whether the object at `at` is a part of one that is printed over several lines: those are indented."""
    return at > 0 and text[at - 1] in " \t"


def last_line(text: str) -> str:
    """The last line that says something."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
