"""The helper's words to the runner, one JSON object a line on stdout.

`{"log": text}`, `{"event": {"event": NAME, ...}}`, `{"prepared": true}`, `{"error": text}`; `{"points": [{"step",
"name", "value", "t"}], "mark": value}`, which go into metrics.jsonl together or not at all.
"""

from __future__ import annotations

import json
import os
import threading
from typing import Any


class Voice:
    """Whole lines, from any thread. When nobody hears them any more the process ends: its runner is gone."""

    def __init__(self, fd: int = 1) -> None:
        self._fd = fd
        self._lock = threading.Lock()

    def tell(self, **word: Any) -> None:
        # names of files may hold what is no UTF-8
        view = memoryview(json.dumps(word, ensure_ascii=False).encode(errors="replace") + b"\n")
        with self._lock:
            try:
                while view:
                    view = view[os.write(self._fd, view) :]
            except OSError:
                os._exit(2)

    def log(self, text: str) -> None:
        self.tell(log=text)

    def event(self, name: str, /, **fields: Any) -> None:
        self.tell(event={"event": name, **fields})
