"""`python -m headway.script.worker`: runs an evaluation's cells, as the helper beside it deals them.

With the user's own class, which has `load(checkpoint)`, called when the checkpoint changes, and `run(case, out)`, which
writes the case's outputs into the folder `out`; or with a command for each cell. What fails is that cell's own failure:
the user's code lives in a child (`cell_child`), and this process outlives whatever that does.
"""

from __future__ import annotations

import json
import os
import socket
import time

from headway.protocol import names
from headway.script.cell_runs import ClassRuns, CommandRuns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Helper:
    """The other end: asks and waits for the answer. Connects anew when the helper was started again."""

    #: how long a helper that is away is waited for
    PATIENCE = 60.0

    def __init__(self, address: str) -> None:
        self._address = address
        self._stream: Any = None

    def ask(self, **word: Any) -> dict[str, Any]:
        deadline = time.monotonic() + self.PATIENCE
        while True:
            try:
                if self._stream is None:
                    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                    connection.connect(self._address)
                    self._stream = connection.makefile("rwb")
                    deadline = time.monotonic() + self.PATIENCE
                self._stream.write(json.dumps(word).encode() + b"\n")
                self._stream.flush()
                if line := self._stream.readline():
                    answer: dict[str, Any] = json.loads(line)
                    return answer
            except OSError:
                pass
            # asking again is safe: every request is answered by what is published, not by what was asked before
            self._stream = None
            if time.monotonic() > deadline:
                raise SystemExit(f"headway's helper at {self._address} does not answer")
            time.sleep(0.1)


def main() -> None:
    """Raises SystemExit with one sentence when no cell can be run, or none is worth it any more."""
    helper = Helper(os.environ[names.HELPER])
    hello = helper.ask(op="hello")
    runs = (ClassRuns if hello.get("worker") else CommandRuns)(hello)
    try:
        answer = helper.ask(op="next")
        while cell := answer.get("cell"):
            word = runs.one(cell)
            answer = helper.ask(op="next", **word)
            for note in answer.get("notes") or []:
                print(note.encode(errors="replace").decode(), flush=True)
    finally:
        runs.close()
    if answer.get("end"):
        raise SystemExit(answer["end"])


if __name__ == "__main__":
    main()
