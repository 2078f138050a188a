"""One epoch of 20,000 images of 20 KB, in order and without decoding: items a second, in one process.

    python bench/data_epoch.py [--quick] [--only ROW] [--no-peers]

Rows:
  epoch_warm    out of files in place, as a run finds them in mode cache; peers: out of their own format on the disk
  epoch_stream  out of packs in the node's cache, as in mode stream; peers: the same as in `epoch_warm`
  epoch_shuffle the same, shuffled; no peers
  epoch_checked the same in order, with the SHA-256 of each item compared; no peers
  epoch_cold    out of an S3-compatible server on this machine (rclone), with nothing on the node before
The limit is one tar of the same bytes read by tarfile: from the disk, or from the server as one stream.

Opening counts, imports do not. What comes to the node is checked as it comes: ours compares the SHA-256 of every item
in `epoch_cold`, and of what is in the cache, which checked it, in `epoch_checked` alone. No peer checks anything.
Peers: WebDataset in this environment, out of our packs; LitData and MosaicML Streaming in .peers/data (`make peers`).
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from _rig import REPOSITORY, Row, arguments, folder, in_turn, report, say
from headway.protocol import columns, names
from headway.script.data import data
from headway.storage.objects import open_access
from headway.testing.s3servers import S3Server, rclone_server

SIZE, PACK = 20_000, 64 << 20
_NEAR = "at least 90 % of the limit, ahead of the peers"
TARGETS = {
    "epoch_warm": _NEAR,
    "epoch_stream": _NEAR,
    "epoch_shuffle": "",
    "epoch_checked": "",
    "epoch_cold": "ahead of the peers",
}


PEER, PEER_PYTHON = Path(__file__).with_name("_epoch_peer.py"), REPOSITORY / ".peers" / "data" / "bin" / "python"
PEERS = ("litdata", "streaming")


def main() -> None:
    asked = arguments(__doc__ or "")
    count = 2_000 if asked.quick else 20_000
    wanted = asked.only or ["epoch_warm", "epoch_stream", "epoch_shuffle", "epoch_checked", "epoch_cold"]
    rounds = 2 if asked.quick else 5
    # loads what a script has loaded: PyTorch, where it is
    if importlib.util.find_spec("torch"):
        importlib.import_module("torch.utils.data")
    with folder() as base:
        prepare(base, count)
        peers = [] if asked.no_peers else [name for name in PEERS if PEER_PYTHON.exists() and written(base, name)]
        missing = {name: "run `make peers`" for name in PEERS if name not in peers}
        rows = []
        with server_of(base) as server:
            for what in wanted:
                measures = {"ours": partial(ours, base, what), "limit": partial(limit, base, server, what)}
                if what not in ("epoch_shuffle", "epoch_checked") and not asked.no_peers:
                    if what != "epoch_warm":
                        measures["webdataset"] = partial(webdataset_rate, base, what)
                    measures |= {name: partial(peer_rate, base, server, name, what, count) for name in peers}
                found = dict(zip(measures, in_turn(rounds, *measures.values()), strict=True))
                row = Row(what, "/s", "higher", found.pop("ours"), found.pop("limit"), target=TARGETS[what])
                row.peers.update(found)
                rows.append(row)
    report("data_epoch", rows, missing)


def prepare(base: Path, count: int) -> None:
    """Files in place, packs with their index, and one tar of all; packs and tar are in the bucket too."""
    os.environ[names.DATA_INDEX] = ""
    draw = random.Random(1)
    paths = [f"{n // 1000:03d}/{n:06d}.jpg" for n in range(count)]
    packs: dict[str, dict[str, str | bool]] = {}
    (base / "packed").mkdir()
    (base / "placed").mkdir()
    builder = columns.Builder()
    with tarfile.open(base / "whole.tar", "w") as whole:
        each = PACK // (SIZE + 1024)
        for start in range(0, count, each):
            held = io.BytesIO()
            found = []
            with tarfile.open(fileobj=held, mode="w") as tar:
                for path in paths[start : start + each]:
                    content = draw.randbytes(SIZE)
                    member = tarfile.TarInfo(path)
                    member.size = SIZE
                    tar.addfile(member, io.BytesIO(content))
                    whole.addfile(member, io.BytesIO(content))
                    (base / "placed" / path).parent.mkdir(exist_ok=True)
                    (base / "placed" / path).write_bytes(content)
                    end = held.tell()
                    found.append(((path, SIZE, hashlib.sha256(content).hexdigest()), end - -(-SIZE // 512) * 512))
            sha256 = hashlib.sha256(held.getbuffer()).hexdigest()
            (base / f"{sha256}.tar").write_bytes(held.getbuffer())
            packs[sha256] = {"path": str(base / f"{sha256}.tar"), "checked": True}
            number = builder.number(sha256, len(held.getbuffer()))
            for row, offset in found:
                builder.add(*row, number, offset)
    builder.write(str(base / "packed" / columns.FILE))
    said = {"name": "images", "version": 1, "root": None, "packs": packs, "expires": None}
    (base / "packed/sources.json").write_text(json.dumps(said))
    for part, root in (("warm", str(base / "placed")), ("stream", None)):
        place = base / part / "images"
        place.mkdir(parents=True)
        os.link(base / "packed" / columns.FILE, place / columns.FILE)
        (place / "sources.json").write_text(json.dumps({**said, "root": root}))
    bucket = base / "buckets" / "bucket"
    bucket.mkdir(parents=True)
    for name in ("whole.tar", *(f"{sha256}.tar" for sha256 in packs)):
        os.link(base / name, bucket / name)
    os.sync()


def written(base: Path, name: str) -> bool:
    """A peer's own format, in its folder and in the bucket; whether it can be had."""
    words = [str(PEER_PYTHON), str(PEER), "write", name, str(base / "placed"), str(base / name)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        say(f"{name} cannot be had: {done.stderr[-300:]}")
        return False
    shutil.copytree(base / name, base / "buckets" / "bucket" / name)
    return True


@contextmanager
def server_of(base: Path) -> Iterator[S3Server]:
    """The bucket behind a server, and what `epoch_cold` reads it by."""
    with rclone_server(base / "buckets") as server:
        store = open_access(server.access(base / "key", f"s3://{server.bucket}"), base / "key")
        place = base / "cold" / "images"
        place.mkdir(parents=True)
        os.link(base / "packed" / columns.FILE, place / columns.FILE)
        said = json.loads((base / "packed/sources.json").read_text())
        said["packs"] = {sha256: {"url": store.sign_get(f"{sha256}.tar", 86_400.0)} for sha256 in said["packs"]}
        (place / "sources.json").write_text(json.dumps(said))
        (base / "whole.url").write_text(str(store.sign_get("whole.tar", 86_400.0)))
        yield server


def ours(base: Path, what: str) -> float:
    place = {"epoch_warm": "warm", "epoch_cold": "cold"}.get(what, "stream")
    os.environ[names.DATA_INDEX] = str(base / place)
    return rate(
        lambda: (
            sample.data
            for sample in data(shuffle=what == "epoch_shuffle", verify=True if what == "epoch_checked" else None)
        )
    )


def rate(opened: Callable[[], Iterable[bytes]]) -> float:
    """Items a second, with what opening takes."""
    start = time.perf_counter()
    count = size = 0
    for content in opened():
        count += 1
        size += len(content)
    took = time.perf_counter() - start
    if size != count * SIZE or not count:
        raise SystemExit(f"bench: {count} items have {size} bytes")
    return count / took


def limit(base: Path, server: S3Server, what: str) -> float:
    def contents() -> Iterable[bytes]:
        with (
            urllib.request.urlopen((base / "whole.url").read_text()) if what == "epoch_cold" else
            open(base / "whole.tar", "rb")
        ) as file, tarfile.open(fileobj=file, mode="r|" if what == "epoch_cold" else "r:") as tar:  # fmt: skip
            for member in tar:
                content = tar.extractfile(member)
                assert content is not None
                yield content.read()

    return rate(contents)


def webdataset_rate(base: Path, what: str) -> float:
    import webdataset

    packs = json.loads((base / ("cold" if what == "epoch_cold" else "stream") / "images/sources.json").read_text())[
        "packs"
    ]
    shards = [f"pipe:curl -s '{p['url']}'" if "url" in p else p["path"] for p in packs.values()]
    return rate(lambda: (item["jpg"] for item in webdataset.WebDataset(shards, shardshuffle=False)))


def peer_rate(base: Path, server: S3Server, name: str, what: str, count: int) -> float:
    place = f"s3://{server.bucket}/{name}" if what == "epoch_cold" else str(base / name)
    environment = {**os.environ, **server.environment, "AWS_DEFAULT_REGION": server.region}
    with folder() as cache:
        words = [str(PEER_PYTHON), str(PEER), "read", name, place, str(cache / "cache"), server.endpoint]
        done = subprocess.run(words, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"bench: {name} ended with {done.returncode}: {done.stderr[-1000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    if (found["items"], found["bytes"]) != (count, count * SIZE):
        raise SystemExit(f"bench: {name} read {found['items']} items, {found['bytes']} bytes")
    return float(found["items"] / found["seconds"])


if __name__ == "__main__":
    sys.exit(main())
