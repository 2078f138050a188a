"""One epoch of 20,000 images of 20 KB, without decoding: items a second.

    python bench/data_epoch.py [--quick] [--only ROW] [--no-peers]

Rows:
  epoch_warm    out of files in place, as a run finds them in mode cache; peers: none reads files in place
  epoch_stream  out of packs on the node, as in mode stream; limit: reading one tar of the same bytes with tarfile
  epoch_shuffle the same, shuffled
  epoch_cold    out of packs that are not in the machine's memory; limit: the same tar, not in memory either

The kernel is asked to forget the files before each cold round, which it does for what is on a disk; on a file system in
memory the cold row is no other than `epoch_stream`, and is left out. Opening, ours with the index, counts. Peers:
WebDataset, of this environment. LitData and MosaicML Streaming are not measured yet.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import io
import json
import os
import random
import sys
import tarfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from _rig import Row, arguments, folder, in_turn, report, say
from headway.protocol import names
from headway.script.data import data
from headway.storage.manifests import Writer

SIZE, PACK = 20_000, 64 << 20


def main() -> None:
    asked = arguments(__doc__ or "")
    count = 2_000 if asked.quick else 20_000
    wanted = asked.only or ["epoch_warm", "epoch_stream", "epoch_shuffle", "epoch_cold"]
    rounds = 2 if asked.quick else 5
    missing = {"litdata": "not measured yet", "streaming": "not measured yet"}
    # loads what a script has loaded: PyTorch, where it is
    if importlib.util.find_spec("torch"):
        importlib.import_module("torch.utils.data")
    with folder() as base:
        shards = prepare(base, count)
        whole = base / "whole.tar"
        for what in wanted:
            cold = what == "epoch_cold"
            if cold and not on_disk(base):
                say("epoch_cold: the temporary folder is in memory")
                continue
            measures = [lambda what=what: ours(base, what), lambda: tar_rate(whole)]
            if importlib.util.find_spec("webdataset") is None:
                missing["webdataset"] = "not installed"
            elif what in ("epoch_stream", "epoch_cold") and not asked.no_peers:
                measures.append(lambda: webdataset_rate(shards))
            measures = [fresh(base, cold, measure) for measure in measures]
            found = in_turn(rounds, *measures)
            row = Row(what, "/s", "higher", found[0], found[1], target="at least 90 % of the limit")
            if len(found) > 2:
                row.peers["webdataset"] = found[2]
            rows.append(row)
        say(f"plain reads of the tar: {plain_rate(whole, count):.0f} /s")
    report("data_epoch", rows, missing)


rows: list[Row] = []


def prepare(base: Path, count: int) -> list[str]:
    """Files in place, packs with their index, and one tar of all."""
    os.environ[names.DATA_INDEX] = ""
    draw = random.Random(1)
    paths = [f"{n // 1000:03d}/{n:06d}.jpg" for n in range(count)]
    packs: dict[str, dict[str, str]] = {}
    (base / "packed").mkdir()
    (base / "placed").mkdir()
    with open(base / "packed/rows.gz", "xb") as out, tarfile.open(base / "whole.tar", "w") as whole:
        writer = Writer(out)
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
            packs[sha256] = {"path": str(base / f"{sha256}.tar")}
            number = writer.number("pack", sha256, len(held.getbuffer()))
            for row, offset in found:
                writer.add(row, number, offset)
        (base / "packed/index.json").write_text(json.dumps(writer.root(0.0)))
    said = {"name": "images", "version": 1, "root": None, "packs": packs, "expires": None}
    (base / "packed/sources.json").write_text(json.dumps(said))
    for part, root in (("warm", str(base / "placed")), ("stream", None)):
        place = base / part / "images"
        place.mkdir(parents=True)
        for name in ("rows.gz", "index.json"):
            os.link(base / "packed" / name, place / name)
        (place / "sources.json").write_text(json.dumps({**said, "root": root}))
    os.sync()
    return [source["path"] for source in packs.values()]


def ours(base: Path, what: str) -> float:
    os.environ[names.DATA_INDEX] = str(base / ("warm" if what == "epoch_warm" else "stream"))
    return rate(lambda: (sample.data for sample in data(shuffle=what == "epoch_shuffle")))


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


def tar_rate(whole: Path) -> float:
    def contents() -> Iterable[bytes]:
        with tarfile.open(whole, "r:") as tar:
            for member in tar:
                file = tar.extractfile(member)
                assert file is not None
                yield file.read()

    return rate(contents)


def plain_rate(whole: Path, count: int) -> float:
    start = time.perf_counter()
    with open(whole, "rb", buffering=0) as file:
        while file.read(1 << 20):
            pass
    return count / (time.perf_counter() - start)


def webdataset_rate(shards: list[str]) -> float:
    import webdataset

    return rate(lambda: (item["jpg"] for item in webdataset.WebDataset(shards, shardshuffle=False)))


def on_disk(base: Path) -> bool:
    """Whether the kernel can forget files there."""
    import psutil

    mounts = [p for p in psutil.disk_partitions(all=True) if str(base).startswith(p.mountpoint)]
    return max(mounts, key=lambda p: len(p.mountpoint)).fstype not in ("tmpfs", "ramfs")


def fresh(base: Path, cold: bool, measure: Callable[[], float]) -> Callable[[], float]:
    def done() -> float:
        if cold:
            for path in [*base.glob("*.tar")]:
                fd = os.open(path, os.O_RDONLY)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)
        return measure()

    return done


if __name__ == "__main__":
    sys.exit(main())
