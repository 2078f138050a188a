"""What each node's cache holds, told on the shared root: `<root>/caches/<node>.json`, written by whoever changes it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headway.protocol.files import read_json, write_json
from headway.storage.cache.room import Cache


def tell(root: Path, node: str, cache: Cache) -> None:
    """Without it only the listing is old: what hinders is not raised."""
    with contextlib.suppress(OSError):
        (root / "caches").mkdir(parents=True, exist_ok=True)
        said = {"node": node, "host": os.uname().nodename, "folder": str(cache.folder), "at": cache.clock()}
        write_json(root / "caches" / f"{node}.json", {**said, **asdict(cache.state())})


def tell_again(root: Path, cache: Cache) -> None:
    """For each node whose cache it is, as far as this machine knows."""
    for said in told(root):
        if (said["host"], said["folder"]) == (os.uname().nodename, str(cache.folder)):
            tell(root, said["node"], cache)


def told(root: Path) -> Iterator[dict[str, Any]]:
    """By node: the fields of `room.State` and who says so. What cannot be read is left out."""
    try:
        names = sorted(n for n in os.listdir(root / "caches") if n.endswith(".json") and not n.startswith("."))
    except FileNotFoundError:
        return
    for name in names:
        with contextlib.suppress(ValueError, OSError):
            said = read_json(root / "caches" / name)
            if isinstance(said, dict):
                yield said
