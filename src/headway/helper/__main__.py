"""`python -I -m headway.helper ATTEMPT_FOLDER`, started by the runner.

Words to the runner: see `voice`. From the runner on stdin: `finish` means publish what is left and end; the end of
stdin without it means that the runner is gone. Everything here may be killed at any moment, and is then done again.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from headway.helper.prepare import prepare, reason
from headway.helper.voice import Voice
from headway.protocol import names
from headway.protocol.files import AttemptFolder, read_json

if TYPE_CHECKING:
    from headway.helper.cells import Cells
    from headway.helper.checkpoints import Checkpoints
    from headway.helper.data import Data
    from headway.helper.tensorboard import Summaries


def main() -> int:
    voice, runner = Voice(), os.getppid()
    data: Data | None = None
    checkpoints: Checkpoints | None = None
    cells: Cells | None = None
    summaries: Summaries | None = None
    try:
        folder = Path(sys.argv[1])
        launch = read_json(AttemptFolder(folder).launch)
        plan = launch["plan"]
        data = prepare(plan, launch, folder, voice)
        # CHECKPOINT_PATH is one folder for all nodes: the first one's helper looks after it
        if plan.get("checkpoints") and os.environ.get(names.NODE_RANK, "0") == "0":
            from headway.helper.checkpoints import Checkpoints

            checkpoints = Checkpoints(plan, voice)
            checkpoints.start()
            from headway.helper.tensorboard import Summaries

            summaries = Summaries(launch, folder, voice)
            summaries.start()
        if plan.get("cells"):
            from headway.helper.cells import Cells

            cells = Cells(plan, voice, folder.name)
            cells.start(os.environ[names.HELPER])
    except Exception as error:
        voice.tell(error=reason(error))
        return 1
    voice.tell(prepared=True)
    _wait_for_finish()
    threading.Thread(target=_watch, args=(runner,), daemon=True).start()
    if cells:
        cells.finish()
    if summaries:
        summaries.finish()
    if checkpoints:
        checkpoints.finish()
    if data:
        data.finish()
    return 0


def _wait_for_finish() -> None:
    heard = b""
    while b"finish\n" not in heard:
        block = os.read(0, 4096)
        if not block:
            os._exit(2)
        heard = heard[-16:] + block


def _watch(runner: int) -> None:
    """After `finish` stdin tells nothing more: a runner that died is seen by who our parent is."""
    while not threading.Event().wait(0.5):
        if os.getppid() != runner:
            os._exit(2)


if __name__ == "__main__":
    sys.exit(main())
