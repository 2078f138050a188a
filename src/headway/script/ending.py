"""The end of a rank: all that Python does at its end, but for taking itself apart."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import Any, NoReturn, cast


def leave() -> NoReturn:
    """Ends this process as finished (status 0), in place of falling off the end of the script. For `torch.distributed`.

    Closes the process group if one is open, waits for the threads that must not be cut (a checkpoint still being
    written), runs what was registered with `atexit`, flushes standard output and error, and ends. Left out is only the
    taking apart of the interpreter. There, a thread of gloo that still lets go of a tensor aborts the whole rank
    ("terminate called without an active exception"), and a training whose every file is written counts as failed.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()
    # what CPython's own `Py_FinalizeEx` begins with, in its order; there is no public name for the first two
    cast(Any, threading)._shutdown()
    cast(Any, atexit)._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        # None in a process without a terminal; closed where the script did so
        if stream is not None and not stream.closed:
            stream.flush()
    os._exit(0)
