"""What a user's script may import: `headway.log`, `save_checkpoint`, `flush_checkpoints`, `resume`, `should_stop`,
`leave`.

Standard library only. Outside headway each does what makes sense alone, so that the script runs anywhere.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from headway.protocol import names
from headway.script.checkpoints import flush_checkpoints, save_checkpoint
from headway.script.ending import leave
from headway.script.metrics import log

__all__ = ["flush_checkpoints", "leave", "log", "resume", "save_checkpoint", "should_stop"]


def resume() -> Path | None:
    """The checkpoint to go on from; None when there is none."""
    found = os.environ.get(names.RESUME_FROM)
    return Path(found) if found else None


#: SIGTERM came
_asked = False
#: whether SIGTERM was looked after
_heeded = False


def should_stop() -> bool:
    """Whether the run was asked to end: save, and return. Always False outside headway.

    A script that asks wants to live until it has saved: from the first call on (in the main thread) SIGTERM, unless the
    script handles it itself, no longer ends the process. SIGKILL at the end of the grace period does.
    """
    flag = os.environ.get(names.STOP_FILE)
    if flag is None:
        return False
    if not _heeded:
        _heed()
    return _asked or os.path.exists(flag)


def _heed() -> None:
    global _heeded
    import signal
    import threading

    def note(number: int, frame: Any) -> None:
        global _asked
        _asked = True

    if threading.current_thread() is not threading.main_thread():
        return
    _heeded = True
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, note)
