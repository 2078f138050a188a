"""Ends every run of a home whose headway is stopped: for `make clean`, which removes the folders they live in.

python scripts/stop_runs.py .headway
"""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

from headway.protocol.files import NodeFolder, read_json, write_json
from headway.protocol.identity import Identity, alive, send_signal

GRACE, PATIENCE = 3.0, 10.0


def living(attempts: Path) -> list[tuple[Path, Identity]]:
    """Attempts whose runner lives, with the runner's identity."""
    found = []
    for folder in attempts.glob("*/"):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            raw = read_json(NodeFolder(folder / "node-0").runner)
            if raw and alive(who := Identity.from_json(raw)):
                found.append((folder, who))
    return found


def main() -> int:
    import signal

    attempts = Path(sys.argv[1]).absolute() / "root" / "attempts"
    found = living(attempts)
    for folder, who in found:
        write_json(folder / "stop.json", {"grace": GRACE, "cause": "stopped", "message": "make clean"})
        send_signal(who, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE
    while (left := living(attempts)) and time.monotonic() < deadline:
        time.sleep(0.05)
    if found:
        print(f"stopped {len(found) - len(left)} of {len(found)} runs")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
