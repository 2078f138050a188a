"""`python -m headway.script.worker FILE.py:CLASS`: runs an evaluation's cells with the user's own class.

The class has `load(checkpoint)`, called when the checkpoint changes, and `run(case, out)`, which writes the case's
outputs into the folder `out`. What a cell raises is its own failure; the worker goes on with the next.
"""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from headway.protocol import names


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
                self._stream.write(json.dumps(word, ensure_ascii=False).encode() + b"\n")
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


def load_class(entry: str) -> Any:
    """The class that `FILE.py:CLASS` or `module:CLASS` names. Ends the process with one sentence when there is none."""
    where, _, name = entry.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        if where.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(where).stem, where)
            if spec is None or spec.loader is None or not Path(where).exists():
                raise SystemExit(f"{entry!r}: there is no file {where!r} in the code")
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(where)
        return getattr(module, name)
    except AttributeError:
        raise SystemExit(f"{entry!r}: {where!r} has no class {name!r}") from None


def main() -> None:
    worker = load_class(sys.argv[1])()
    helper = Helper(os.environ[names.HELPER])
    loaded: str | None = None
    while not (answer := helper.ask(op="next")).get("done"):
        cell = answer["cell"]
        began = time.monotonic()
        try:
            if loaded != cell["checkpoint"]["path"]:
                loaded = None
                worker.load(cell["checkpoint"]["path"])
                loaded = cell["checkpoint"]["path"]
            worker.run(cell["case"], cell["out"])
        except Exception as error:
            traceback.print_exc()
            number = error.errno if isinstance(error, OSError) else None
            helper.ask(op="failed", cell=cell["cell"], reason=f"{type(error).__name__}: {error}", errno=number)
            continue
        said = helper.ask(op="publish", cell=cell["cell"], seconds=round(time.monotonic() - began, 4))
        word = "valid" if said.get("ok") else f"not valid: {said.get('reason')}"
        print(f"{cell['path']}: {word}", flush=True)


if __name__ == "__main__":
    main()
