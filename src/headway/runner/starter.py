"""`python -I -S .../runner/starter.py [MODULE ...]`: has a runner's modules loaded and forks one for each attempt that
it is told. With modules of the helper's besides, the helper too is a fork; see `helper`.

A fork takes a few milliseconds where a fresh interpreter takes tens. One line in, `<attempt folder>\t<node index>`, one
line out once the runner is detached. Runners are nobody's children here either; the end of stdin ends only the starter.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys


def _become_keeper(folder: str, index: int) -> None:
    """In the child: nothing of the starter is left but its loaded modules."""
    from headway.runner import keeper

    os.setsid()
    # a keeper waits for its runner
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    keeper.start(folder, index)


def _start(line: str) -> None:
    folder, _, index = line.rpartition("\t")
    if os.fork() == 0:
        try:
            _become_keeper(folder, int(index))
        finally:
            os._exit(1)


def main() -> None:
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    import headway.runner.describe
    import headway.runner.helper
    import headway.runner.journal
    import headway.runner.keeper
    import headway.runner.metrics
    import headway.runner.run
    import headway.runner.watch  # noqa: F401

    for name in sys.argv[1:]:
        importlib.import_module(name)

    # nobody waits for keepers, and nothing is left of them
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.collect()
    gc.freeze()  # so that a fork does not copy what it never changes
    rest = b""
    while block := os.read(0, 65536):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            _start(os.fsdecode(line))
            os.write(1, b"\n")


if __name__ == "__main__":
    main()
