"""Pushes to an S3-compatible server on this machine (`rclone serve s3`), as a user types them.

    python bench/data_push.py [--quick] [--only ROW] [--no-peers]

Rows:
  push_small   seconds of the first push of 20,000 files of 20 KB; limit: one tar of them, made before, by a single PUT
  push_again   seconds of the same push, nothing changed; limit: a bare start of Python
  push_rss     MB that the client had in memory at most, in push_small
  push_rss_10x the same for 200,000 files of 100 bytes: no more, however many files
  push_large   seconds of one file of 4 GiB; limit: S3's upload in parts, by obstore
  resume_extra a push killed when the store held half: what the next one sends beyond the other half, in packs of 64 MiB

Ours is `headway dataset push` against a real `headway up` whose objects lie in a bucket of that server; statistics,
which no peer makes, are left out. Every round has a new project, or a new bucket, and no hash cache of an earlier one.
What arrived is compared: ours by `dataset verify`, the peers' by files and bytes. Peers (`make peers` installs them):
rclone, s5cmd, aws s3. A peer whose round takes more than half a minute is measured once. Everything lies in memory
(/dev/shm) where that has room, so that no disk is measured.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import _push_peers as peers
from _push_peers import Buckets, Ended
from _rig import NOTHING, PYTHON, Headway, Row, arguments, folder, headway, report, say, took, until
from headway.testing.s3servers import rclone_server

MEMORY, ROOM = Path("/dev/shm"), 14 << 30
PACK = 64 << 20
#: seconds of a round beyond which a peer is measured once
LONG = 30.0
ROWS = ("push_small", "push_again", "push_rss", "push_rss_10x", "push_large", "resume_extra")


@dataclass
class Sizes:
    files: int = 20_000
    many: int = 200_000
    large: int = 4 << 30
    rounds: int = 5
    few: int = 3


QUICK = Sizes(files=2_000, many=20_000, large=256 << 20, rounds=1, few=1)


# -- what is pushed


def tree(where: Path, files: int, size: int) -> Path:
    """A folder of 20 class folders with files of random bytes."""
    for number in range(files):
        path = where / f"class-{number % 20:02}" / f"{number:06}.bin"
        if number < 20:
            path.parent.mkdir(parents=True)
        path.write_bytes(os.urandom(size))
    return where


def large_file(path: Path, size: int) -> Path:
    """No MiB of it is like another."""
    block = bytearray(os.urandom(1 << 20))
    with path.open("wb") as out:
        for number in range(size >> 20):
            block[:8] = number.to_bytes(8, "big")
            out.write(block)
    return path


def tar_of(source: Path, path: Path) -> Path:
    with tarfile.open(path, "w") as out:
        out.add(source, arcname="")
    return path


# -- ours


class Ours:
    """A headway whose objects lie in a bucket of the server."""

    def __init__(self, up: Headway, buckets: Buckets, bucket: str, base: Path) -> None:
        self.client, self.url, self._token = up.client, up.url, up.client.token
        self._objects, self._base = buckets.where / bucket, base
        self._projects = 0

    def project(self) -> str:
        self._projects += 1
        name = f"round-{self._projects}"
        self.client.projects.create(name)
        return name

    def command(self, source: Path) -> list[str]:
        return [PYTHON, "-m", "headway", "dataset", "push", str(source), "data", "--no-stats", "--json"]

    def environment(self, project: str) -> dict[str, str]:
        own = {"HEADWAY_URL": self.url, "HEADWAY_TOKEN": self._token, "HEADWAY_PROJECT": project}
        return {**own, "XDG_CACHE_HOME": str(self._base / f"cache-{project}")}

    def push(self, source: Path, project: str) -> tuple[Ended, dict[str, Any]]:
        ended = peers.timed(self.command(source), self.environment(project))
        say(f"ours: {ended.seconds:.2f} s, {ended.resident:.0f} MB")
        return ended, json.loads(ended.output)

    def verified(self, project: str, version: int, holds: tuple[int, int]) -> None:
        """Raises SystemExit unless that version is whole."""
        path = f"/projects/{project}/datasets/data/versions/{version}/verify"
        found = self.client.transport.call("POST", path, body={}, timeout=600)
        if (found["read_files"], found["read_bytes"]) != holds or found["faulty"]:
            raise SystemExit(f"bench: what was pushed is not whole: {found}")

    def held(self, project: str) -> int:
        """Bytes of the packs and parts that the store holds whole."""
        where = self._objects / "projects" / project
        found = 0
        for pattern in ("packs/*.tar", "parts/*"):
            for path in where.glob(pattern):
                with contextlib.suppress(FileNotFoundError):
                    found += path.stat().st_size if len(path.stem) == 64 else 0
        return found

    def forget(self, project: str) -> None:
        shutil.rmtree(self._objects / "projects" / project, ignore_errors=True)


@dataclass
class House:
    ours: Ours
    buckets: Buckets
    base: Path
    sizes: Sizes
    peers: list[str]


@contextlib.contextmanager
def house(sizes: Sizes, wanted: list[str]) -> Iterator[House]:
    within = MEMORY if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM else None
    with folder(within) as base, rclone_server(base / "buckets") as server:
        # headway's processes find the server as a cloud's is found
        os.environ.update(server.environment)
        buckets = Buckets(server, base / "buckets")
        home = base / "home"
        home.mkdir()
        (home / "config.yaml").write_text(f"objects: s3://{server.bucket}\n")
        with headway(home) as up:
            up.wait_for_console()
            ours = Ours(up, buckets, server.bucket, base)
            # what is imported once by the servers is imported
            ours.push(tree(base / "warm", 20, 1000), ours.project())
            yield House(ours, buckets, base, sizes, wanted)


# -- rows


def small(at: House) -> list[Row]:
    """`push_small`, `push_again` and `push_rss`."""
    source = tree(at.base / "small", at.sizes.files, 20_000)
    holds = (at.sizes.files, at.sizes.files * 20_000)
    tar = tar_of(source, at.base / "small.tar")
    first, again, resident, limit, start = [], [], [], [], []
    for number in range(at.sizes.rounds):
        project = at.ours.project()
        ended, view = at.ours.push(source, project)
        first.append(ended.seconds)
        resident.append(ended.resident)
        again.append(at.ours.push(source, project)[0].seconds)
        if number == 0:
            at.ours.verified(project, view["version"], holds)
        at.ours.forget(project)
        bucket = at.buckets.fresh()
        limit.append(peers.put(tar, bucket, at.buckets.server, "once").seconds)
        at.buckets.empty(bucket)
        start.append(took(NOTHING))
    tar.unlink()
    row = Row("push_small", "s", "lower", median(first), median(limit), {})
    row_again = Row("push_again", "s", "lower", median(again), median(start), {})
    row_rss = Row("push_rss", "MB", "lower", max(resident), None, {})
    for name in at.peers:
        found = [_peer(at, name, source, holds, again=True)]
        while found[0][0].seconds < LONG and len(found) < at.sizes.few:
            found.append(_peer(at, name, source, holds, again=True))
        row.peers[name] = median([one.seconds for one, _ in found])
        row_again.peers[name] = median([seconds for _, seconds in found])
        row_rss.peers[name] = max(one.resident for one, _ in found)
    best = f"; now {min(row.peers.values()) / median(first):.1f} times" if row.peers else ""
    row.target = f"5 times faster than the best peer{best}"
    row_again.target = "< 1.5 s, faster than all"
    row_rss.target = "< 300 MB"
    return [row, row_again, row_rss]


def _peer(at: House, name: str, source: Path, holds: tuple[int, int], *, again: bool = False) -> tuple[Ended, float]:
    """A peer's first upload, and the seconds of its second one."""
    ended, repeated, bucket = peers.first(name, source, at.buckets, holds)
    second = repeated().seconds if again else 0.0
    at.buckets.empty(bucket)
    return ended, second


def many(at: House) -> Row:
    source = tree(at.base / "many", at.sizes.many, 100)
    project = at.ours.project()
    ended, view = at.ours.push(source, project)
    at.ours.verified(project, view["version"], (at.sizes.many, at.sizes.many * 100))
    at.ours.forget(project)
    shutil.rmtree(source)
    return Row("push_rss_10x", "MB", "lower", ended.resident, None, target="< 300 MB, as push_rss")


def large(at: House) -> Row:
    source = large_file(at.base / "large.bin", at.sizes.large)
    holds = (1, at.sizes.large)
    ours, limit = [], []
    others: dict[str, list[float]] = {name: [] for name in at.peers}
    for number in range(at.sizes.few):
        project = at.ours.project()
        ended, view = at.ours.push(source, project)
        ours.append(ended.seconds)
        if number == 0:
            at.ours.verified(project, view["version"], holds)
        at.ours.forget(project)
        bucket = at.buckets.fresh()
        limit.append(peers.put(source, bucket, at.buckets.server, "parts").seconds)
        at.buckets.empty(bucket)
        for name, found in others.items():
            if not found or found[0] < LONG:
                found.append(_peer(at, name, source, holds)[0].seconds)
    source.unlink()
    row = Row("push_large", "s", "lower", median(ours), median(limit))
    row.peers = {name: median(found) for name, found in others.items()}
    best = f"; now {median(ours) / min(row.peers.values()):.2f} of it" if row.peers else ""
    row.target = f"at most 1.1 of the fastest peer{best}"
    return row


def resume(at: House) -> Row:
    """The worse of two: the small files in packs, and a large one in parts."""
    files = tree(at.base / "resumed", at.sizes.files, 20_000)
    file = large_file(at.base / "resumed.bin", min(1 << 30, at.sizes.large))
    found = []
    for source, size in ((files, at.sizes.files * 20_000), (file, file.stat().st_size)):
        for _ in range(at.sizes.few):
            found.append(_extra(at, source, size))
    return Row("resume_extra", "packs", "lower", max(found), 0.0, target="<= 1")


def _extra(at: House, source: Path, size: int) -> float:
    project = at.ours.project()
    environment = {**os.environ, **at.ours.environment(project)}
    push = subprocess.Popen(
        at.ours.command(source), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until(lambda: at.ours.held(project) >= size / 2 or push.poll() is not None, 120, "half of a push", 0.002)
    push.kill()
    push.wait()
    time.sleep(0.5)  # a body that is on its way in is taken in, or given up
    held = at.ours.held(project)
    _, view = at.ours.push(source, project)
    at.ours.verified(project, view["version"], (view["files"], view["bytes"]))
    # packs hold headers too: the whole is what lies there in the end
    extra = view["sent_bytes"] - (at.ours.held(project) - held)
    say(f"held {held / 1e6:.0f} MB of {size / 1e6:.0f}, then sent {view['sent_bytes'] / 1e6:.0f}")
    at.ours.forget(project)
    return max(0.0, extra / PACK)


def main() -> None:
    asked = arguments(__doc__ or "")
    missing = peers.missing()
    names = [] if asked.no_peers else [name for name in peers.NAMES if name not in missing]
    rows: list[Row] = []

    def wanted(*some: str) -> bool:
        return not asked.only or any(name in asked.only for name in some)

    with house(QUICK if asked.quick else Sizes(), names) as at:
        rows += small(at) if wanted(*ROWS[:3]) else []
        rows += [many(at)] if wanted("push_rss_10x") else []
        rows += [large(at)] if wanted("push_large") else []
        rows += [resume(at)] if wanted("resume_extra") else []
    report("data_push", rows, {} if asked.no_peers else missing)


if __name__ == "__main__":
    main()
