"""`python -I -m headway.helper ATTEMPT_FOLDER`, started by the runner.

To the runner, one JSON object a line on stdout: `{"log": text}`, `{"event": {...}}`, `{"prepared": true}`, `{"error": text}`.
From the runner on stdin: `finish` means publish what is left and end; the end of stdin means that the runner is gone.
Everything here may be killed at any moment and is then done again.
"""

from __future__ import annotations

import json
import os
import selectors
import sys
import threading
import time
from pathlib import Path
from typing import Any

from headway.protocol.files import AttemptFolder, read_json

#: how often CHECKPOINT_PATH is looked at
WATCH_SECONDS = 0.2


class Voice:
    """Words to the runner; whole lines, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def tell(self, **word: Any) -> None:
        line = json.dumps(word, ensure_ascii=False).encode() + b"\n"
        with self._lock:
            view = memoryview(line)
            while view:
                view = view[os.write(1, view) :]

    def log(self, text: str) -> None:
        self.tell(log=text)

    def event(self, name: str, **fields: Any) -> None:
        self.tell(event={"event": name, **fields})


def prepare(plan: dict[str, Any], voice: Voice) -> None:
    """Code and data, before the user process starts."""
    project, cache = plan["project"], Path(plan["cache"])
    if not plan.get("snapshot") and not plan.get("datasets"):
        return
    from headway.storage.objects import open_objects

    store = open_objects(plan["objects"])
    if snapshot := plan.get("snapshot"):
        from headway.storage import snapshots

        snapshots.unpack(store, snapshot["key"], Path(snapshot["into"]))
        voice.log(f"code {snapshot['key'].rpartition('/')[2][:12]} is unpacked")
    for dataset in plan.get("datasets") or []:
        from headway.storage import datasets

        began = time.monotonic()
        folder = datasets.materialise(store, project, dataset["manifest"], cache)
        into = Path(dataset["into"])
        into.parent.mkdir(parents=True, exist_ok=True)
        into.unlink(missing_ok=True)
        into.symlink_to(folder)
        voice.log(f"data {dataset['name']}@{dataset['version']} is ready after {time.monotonic() - began:.2f} s")


def main() -> None:
    voice = Voice()
    folder = AttemptFolder(Path(sys.argv[1]))
    plan = read_json(folder.launch)["plan"]
    try:
        prepare(plan, voice)
    except Exception as error:
        voice.tell(error=f"could not be made ready: {error}")
        raise SystemExit(1) from None
    cells = checkpoints = None
    if plan.get("cells"):
        from headway.helper.cells import Cells

        cells = Cells(plan, voice)
        cells.listen(os.environ["HEADWAY_HELPER"])
    if plan.get("checkpoints"):
        from headway.helper.checkpoints import Checkpoints

        checkpoints = Checkpoints(plan, voice)
        checkpoints.report_published()
    voice.tell(prepared=True)
    _serve(checkpoints.scan if checkpoints else None)
    if checkpoints:
        checkpoints.finish()
    if cells:
        cells.close()


def _serve(scan: Any) -> None:
    """Until `finish`; looks for checkpoints meanwhile. Ends the process when the runner is gone."""
    selector = selectors.DefaultSelector()
    selector.register(0, selectors.EVENT_READ)
    heard = b""
    while True:
        if selector.select(WATCH_SECONDS if scan else None):
            block = os.read(0, 4096)
            if not block:
                os._exit(2)
            heard += block
            if b"finish\n" in heard:
                return
        if scan:
            scan()


if __name__ == "__main__":
    main()
