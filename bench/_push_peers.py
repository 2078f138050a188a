"""What `data_push` compares with: rclone, s5cmd and the aws CLI, and one PUT of everything as the limit.

All of them send to one `rclone serve s3`, each round into a bucket of its own, which is looked through afterwards.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from _rig import REPOSITORY, folder, say
from headway.testing.s3servers import S3Server

PROGRAMS = REPOSITORY / ".peers" / "push" / "bin"
NAMES = ("rclone", "s5cmd", "aws")
#: of rclone, which sends 4 files at once by default: the more the better against a server on this machine
RCLONE = ["--config", os.devnull, "--s3-provider", "Rclone", "--s3-env-auth", "--s3-no-check-bucket", "--quiet"]
RCLONE += ["--transfers", "16", "--checkers", "16", "--fast-list"]
_PUT = """
import os, sys
import obstore
from obstore.store import S3Store
store = S3Store(sys.argv[2], client_options={"allow_http": True})
with open(sys.argv[1], "rb") as file:
    obstore.put(store, "all", file, **({"use_multipart": False} if sys.argv[3] == "once" else {"max_concurrency": 8}))
"""


def missing() -> dict[str, str]:
    return {name: "run `make peers`" for name in NAMES if not (PROGRAMS / name).exists()}


@dataclass(frozen=True)
class Ended:
    """A command that has ended well."""

    seconds: float
    #: the most that it had in memory, MB
    resident: float
    output: str


def timed(command: list[str], environment: dict[str, str]) -> Ended:
    """Runs it, with `environment` besides this one. Raises SystemExit when it fails."""
    start = time.perf_counter()
    with folder() as place, (place / "output").open("w+b") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **environment})
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        said = (place / "output").read_text(errors="replace")
    if process.returncode:
        raise SystemExit(f"bench: {' '.join(command)[:200]} ended with {process.returncode}: {said[-1000:]}")
    return Ended(seconds, used.ru_maxrss * 1024 / 1e6, said)


class Buckets:
    """Fresh buckets of one server over a folder of ours."""

    def __init__(self, server: S3Server, where: Path) -> None:
        """where: the folder that the server serves."""
        self.server, self.where = server, where
        self._made = 0

    def fresh(self) -> str:
        self._made += 1
        name = f"round-{self._made}"
        self.server.make_bucket(name)
        return name

    def held(self, bucket: str) -> tuple[int, int]:
        """(files, bytes) in a bucket."""
        sizes = [p.stat().st_size for p in (self.where / bucket).rglob("*") if p.is_file()]
        return len(sizes), sum(sizes)

    def empty(self, bucket: str) -> None:
        shutil.rmtree(self.where / bucket)


def command(name: str, source: Path, bucket: str, server: S3Server) -> list[str]:
    """What a user types to bring `source`, a folder or a file, into a bucket."""
    if name == "rclone":
        verb = "sync" if source.is_dir() else "copy"
        return [str(PROGRAMS / name), verb, str(source), f":s3:{bucket}", "--s3-endpoint", server.endpoint, *RCLONE]
    if name == "s5cmd":
        verb, given = ("sync", f"{source}/") if source.is_dir() else ("cp", str(source))
        return [
            str(PROGRAMS / name),
            "--endpoint-url",
            server.endpoint,
            "--log",
            "error",
            verb,
            given,
            f"s3://{bucket}/",
        ]
    verb = "sync" if source.is_dir() else "cp"
    quiet = ["--only-show-errors", "--endpoint-url", server.endpoint]
    return [str(PROGRAMS / name), "s3", verb, str(source), f"s3://{bucket}/", *quiet]


def put(file: Path, bucket: str, server: S3Server, how: str) -> Ended:
    """The limit: one file, "once" by a single PUT, or "parts" at once by S3's upload in parts."""
    return timed([sys.executable, "-c", _PUT, str(file), bucket, how], server.environment)


def first(name: str, source: Path, buckets: Buckets, holds: tuple[int, int]) -> tuple[Ended, Callable[[], Ended], str]:
    """A peer's first upload; how it is done again; the bucket. Raises SystemExit unless everything has arrived."""
    bucket = buckets.fresh()
    typed = command(name, source, bucket, buckets.server)
    ended = timed(typed, buckets.server.environment)
    if buckets.held(bucket) != holds:
        raise SystemExit(f"bench: {name} brought {buckets.held(bucket)} files and bytes, not {holds}")
    say(f"{name}: {ended.seconds:.2f} s, {ended.resident:.0f} MB")
    return ended, lambda: timed(typed, buckets.server.environment), bucket
