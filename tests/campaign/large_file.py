"""A file of 5 GB with the real sizes of parts, pushed into a folder and into an S3 server, read back whole.

    python tests/campaign/large_file.py --bytes 5000000001 [--random]

Prints, last, one JSON object; the exit code is 0 when each version verifies. The file is sparse, or of random bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from headway.store.sqlite import SqliteStore
from headway.testing.dataset_project import Project, made, served
from headway.testing.s3servers import S3Server, S3ServerMissing, rclone_server

BLOCK = 64 << 20


def make(path: Path, size: int, is_random: bool) -> None:
    with open(path, "wb") as out:
        for start in range(0, size if is_random else 0, BLOCK):
            out.write(os.urandom(min(BLOCK, size - start)))
        out.truncate(size)


def play(project: Project, folder: Path) -> dict[str, object]:
    began = time.monotonic()
    view = project.push(folder)
    pushed = time.monotonic()
    found = project.verify(view.version)
    return {
        "bytes": view.bytes,
        "sent_bytes": view.sent_bytes,
        "push_s": round(pushed - began, 1),
        "verify_s": round(time.monotonic() - pushed, 1),
        "ok": found.faulty == 0 and found.read_bytes == view.bytes,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=5_000_000_001)
    parser.add_argument("--random", action="store_true", help="random bytes, which take their space")
    arguments = parser.parse_args()
    results: dict[str, object] = {}
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headway-large-")))
        for name in ("home", "data", "folder", "rclone"):
            (base / name).mkdir()
        make(base / "data/large.bin", arguments.bytes, arguments.random)
        places: dict[str, S3Server | None] = {"folder": None}
        try:
            places["rclone"] = stack.enter_context(rclone_server(base / "buckets"))
        except S3ServerMissing as missing:
            results["missing"] = str(missing)
        api = stack.enter_context(served(base / "home", SqliteStore(base / "home/headway.db")))
        for name, server in places.items():
            with made(api, base / name, server) as project:
                results[name] = play(project, base / "data")
    is_good = all(r["ok"] for r in results.values() if isinstance(r, dict))
    print(json.dumps({"campaign": "large_file", **results, "ok": is_good}))
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
