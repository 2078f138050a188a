"""The decoder's process: a file's name in, its facts out, one JSON object a line. Started by `isolated`.

    {"path", "kind", "silence": s}  ->  {"progress": true}*, then one of
    {"facts"} | {"invalid", "unfinished"} | {"errno", "text"}

It ends when nobody asks any more, and dies of SIGALRM when it hangs and nobody is left to end it.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: address space of a decoder; a file that asks for more is refused
MOST_MEMORY = 8 << 30
#: without a request for so long it ends
IDLE_SECONDS = 60.0


def main() -> int:
    # nothing but answers goes to the asker, whatever a decoder prints
    out = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    pending = b""
    while True:
        while b"\n" not in pending:
            ready, _, _ = select.select([0], [], [], IDLE_SECONDS)
            block = os.read(0, 1 << 16) if ready else b""
            if not block:
                return 0
            pending += block
        line, _, pending = pending.partition(b"\n")
        asked = json.loads(line)
        say(out, answer(asked, progress_of(out, float(asked["silence"]))))
        signal.alarm(0)


def say(out: int, word: dict[str, Any]) -> None:
    view = memoryview(json.dumps(word).encode() + b"\n")
    while view:
        view = view[os.write(out, view) :]


def progress_of(out: int, silence: float) -> Callable[[], None]:
    """A function that tells, at most once a second, that work goes on."""
    last = time.monotonic()
    signal.alarm(int(silence) + 5)

    def progress() -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= min(1.0, silence / 4):
            last = now
            signal.alarm(int(silence) + 5)
            say(out, {"progress": True})

    return progress


def answer(asked: dict[str, Any], progress: Callable[[], None]) -> dict[str, Any]:
    from headway.storage.kinds import media
    from headway.storage.kinds.base import InvalidError

    try:
        decode = media.video if asked["kind"] == "video" else media.audio
        return {"facts": decode(Path(asked["path"]), progress)}
    except InvalidError as error:
        return {"invalid": error.reason, "unfinished": error.unfinished}
    except MemoryError:
        return {"invalid": "It takes more memory than a decoder may use.", "unfinished": False}
    except OSError as error:
        return {"errno": error.errno, "text": error.strerror or str(error)}


if __name__ == "__main__":
    sys.exit(main())
