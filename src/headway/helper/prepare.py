"""Code and data, before the user process starts. Done again it finds what is there."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any

from headway.helper.voice import Voice


def prepare(plan: dict[str, Any], voice: Voice) -> None:
    """Unpacks the plan's snapshot and links its datasets from the node's cache. Raises whatever hinders that."""
    if not plan.get("snapshot") and not plan.get("datasets"):
        return
    from headway.storage.objects import open_objects

    store = open_objects(plan["objects"])
    if snapshot := plan.get("snapshot"):
        from headway.storage import snapshots

        snapshots.unpack(store, snapshot["key"], Path(snapshot["into"]))
        voice.log(f"code {snapshot['key'].rpartition('/')[2][:12]} is unpacked")
    for dataset in plan.get("datasets") or []:
        from headway.storage import datasets

        began = time.monotonic()
        folder = datasets.materialise(store, dataset["manifest"], Path(plan["cache"]))
        link(folder, Path(dataset["into"]))
        voice.log(f"data {dataset['name']}@{dataset['version']} is ready after {time.monotonic() - began:.2f} s")


def link(folder: Path, into: Path) -> None:
    """Makes `into` a symbolic link to `folder`, at once, in place of another link or an empty folder."""
    into.parent.mkdir(parents=True, exist_ok=True)
    if into.is_dir() and not into.is_symlink():
        # another node of the gang may be at it too
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            into.rmdir()
    temporary = into.with_name(f".{into.name}.{os.getpid()}.{os.urandom(3).hex()}.tmp")
    temporary.symlink_to(folder)
    os.replace(temporary, into)


def reason(error: BaseException) -> str:
    """One sentence for the record."""
    said = getattr(error, "message", "") or getattr(error, "reason", "") or str(error) or type(error).__name__
    remedy = getattr(error, "remedy", "")
    # object stores append pages of their own state
    return f"{str(said).splitlines()[0]} {remedy}".strip()
