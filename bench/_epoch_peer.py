"""LitData and MosaicML Streaming: writes their format, reads one epoch of it. Run by `data_epoch` in .peers/data.

    python _epoch_peer.py write litdata|streaming FOLDER_OF_FILES OUT
    python _epoch_peer.py read litdata|streaming PLACE CACHE ENDPOINT      # prints {"items", "bytes", "seconds"}

PLACE is a folder, or s3://BUCKET/PREFIX with ENDPOINT; CACHE is then a folder to be made. One process, in order.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

#: bytes of a chunk or shard
PACK = 64 << 20


def content_of(path: str) -> dict[str, Any]:
    return {"jpg": Path(path).read_bytes()}


def write(name: str, source: Path, out: Path) -> None:
    files = sorted(str(p) for p in source.rglob("*") if p.is_file())
    if name == "litdata":
        import litdata

        litdata.optimize(content_of, files, str(out), chunk_bytes=PACK, num_workers=1)
        return
    from streaming import MDSWriter

    with MDSWriter(out=str(out), columns={"jpg": "bytes"}, size_limit=PACK) as writer:
        for path in files:
            writer.write(content_of(path))


def opened(name: str, place: str, cache: str, endpoint: str) -> Iterable[dict[str, Any]]:
    remote = place.startswith("s3://")
    if name == "litdata":
        from litdata import StreamingDataset

        if remote:
            # it refuses a server without TLS otherwise, and this one is on the same machine
            from litdata.streaming import downloader

            downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True
        more: dict[str, Any] = {"storage_options": {"endpoint_url": endpoint}, "cache_dir": cache} if remote else {}
        found: Iterable[dict[str, Any]] = StreamingDataset(place, shuffle=False, **more)
        return found
    import streaming

    if remote:
        os.environ["S3_ENDPOINT_URL"] = endpoint
        dataset = streaming.StreamingDataset(remote=place, local=cache, shuffle=False, batch_size=64)
    else:
        dataset = streaming.StreamingDataset(local=place, shuffle=False, batch_size=64)
    again: Iterable[dict[str, Any]] = dataset
    return again


def read(name: str, place: str, cache: str, endpoint: str) -> None:
    import importlib

    # what a script has loaded
    for module in ("torch.utils.data", name, *(("boto3",) if place.startswith("s3://") else ())):
        importlib.import_module(module)
    start = time.perf_counter()
    items = size = 0
    for sample in opened(name, place, cache, endpoint):
        items += 1
        size += len(sample["jpg"])
    print(json.dumps({"items": items, "bytes": size, "seconds": time.perf_counter() - start}), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
    else:
        read(*sys.argv[2:6])
