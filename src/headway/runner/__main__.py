"""`python -I -S .../runner/__main__.py ATTEMPT_FOLDER NODE_INDEX`: one runner, detached from whoever started it."""

from __future__ import annotations

import os
import sys


def main() -> None:
    folder, index = sys.argv[1], int(sys.argv[2])
    # nobody's child: the starter waits for this first process only, which ends at once
    if os.fork():
        os._exit(0)
    os.setsid()
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    from headway.runner import keeper

    keeper.start(folder, index)


if __name__ == "__main__":
    main()
