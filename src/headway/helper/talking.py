"""What workers ask over a Unix stream socket, JSON lines, request and answer in turn.

    {"op": "hello"}                        -> what is to be run: worker, command, check, scorer, timeout, ...
    {"op": "next"}                         -> {"cell": {"id", "checkpoint" (place), "path", "out", "case"}}
                                            | {"done": true} | {"end": sentence}
    {"op": "next", "done": {"cell", "seconds", "scores"}}, {"op": "next", "failed": {"cell", "cause", "reason", "errno",
        "path"}}                           -> the same, once what became of the cell before is taken over

"notes" in an answer are lines for the worker's log. A worker may ask again, also of a helper that was started anew.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headway.helper.dealing import Cell
from headway.helper.gate import ClosedError

#: of one worker: the cells that it has now
Dealt = dict[int, Cell]
Answer = Callable[[dict[str, Any], Dealt], dict[str, Any]]


class Talks:
    """Listens; answers each worker in a thread of its own."""

    def __init__(self, answer: Answer, leave: Callable[[Dealt], None], die: Callable[[Exception], None]) -> None:
        """leave: hears what a worker had when it went. die: hears of a fault of ours."""
        self._answer, self._leave, self._die = answer, leave, die
        self._changed = threading.Condition()
        #: answers that are being worked out
        self._busy = 0

    def listen(self, address: str) -> None:
        """Raises OSError. Who connects waits for `serve`."""
        Path(address).unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(address)
        self._socket.listen(64)

    def serve(self) -> None:
        """Never returns. Raises OSError."""
        while True:
            connection, _ = self._socket.accept()
            threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def finish(self, seconds: float) -> None:
        """Waits for answers that are being given."""
        with self._changed:
            self._changed.wait_for(lambda: not self._busy, seconds)

    def _converse(self, connection: socket.socket) -> None:
        dealt: Dealt = {}
        try:
            with connection, connection.makefile("rwb") as stream:
                for line in stream:
                    stream.write(json.dumps(self._counted(json.loads(line), dealt)).encode() + b"\n")
                    stream.flush()
        except (ClosedError, OSError, ValueError):
            pass
        except Exception as error:
            self._die(error)
        finally:
            # its worker may come back with them, or begin anew
            self._leave(dealt)

    def _counted(self, asked: dict[str, Any], dealt: Dealt) -> dict[str, Any]:
        with self._changed:
            self._busy += 1
        try:
            return self._answer(asked, dealt)
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()
