"""What all kinds share: facts, a rule, and the one error."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: what a check tells of a file: format, width, rows, ...; small, for records and people
Facts = dict[str, Any]
#: what a file must be: the keys of an evaluation's output rule that its kind knows
Rule = Mapping[str, Any]
#: what is read at once
BLOCK = 1 << 20


class InvalidError(Exception):
    """What is in the file is not what it should be. `reason`: one sentence, without the path.

    unfinished: the file may simply not be written to its end yet.
    """

    def __init__(self, reason: str, *, unfinished: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.unfinished = unfinished


def read_whole(path: Path) -> bytes:
    """All that is in a file. In half as many calls as `Path.read_bytes`: each lets another thread of ours go first."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        # one more than it says: it may be growing
        found = os.read(fd, size + 1) if 0 < size < BLOCK else b""
        if found and len(found) == size:
            return found
        with open(fd, "rb", closefd=False) as rest:
            return found + rest.read()
    finally:
        os.close(fd)


def inside(name: str) -> bool:
    """Whether a name from outside is a plain relative path: no "..", not absolute, no empty or NUL parts."""
    parts = name.split("/")
    return bool(name) and "\0" not in name and not os.path.isabs(name) and all(p not in ("", ".", "..") for p in parts)
