"""Versions in a store, made without the platform."""

from __future__ import annotations

import hashlib
import io
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.rules.datasets import order
from headway.storage import layout
from headway.storage.manifests import Writer, put
from headway.storage.objects import ObjectStore

#: bytes of a part
PART = 1000


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def packed(files: Mapping[str, bytes]) -> tuple[bytes, dict[str, int]]:
    """A tar of these files, and where the content of each begins."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    with tarfile.open(fileobj=io.BytesIO(buffer.getvalue())) as archive:
        return buffer.getvalue(), {m.name: m.offset_data for m in archive.getmembers()}


def make(
    store: ObjectStore, project: str, files: Mapping[str, bytes], *, large: Mapping[str, bytes] | None = None,
    name: str = "d", version: int = 1, pack_files: int = 2, **fields: Any,
) -> dict[str, Any]:  # fmt: skip
    """Stores a version; an entry of a plan's `datasets`. large: files that lie in parts."""
    places: dict[str, tuple[Any, ...]] = {}
    names = sorted(files, key=order)
    with tempfile.NamedTemporaryFile() as out:
        writer = Writer(out)  # type: ignore[arg-type]
        for start in range(0, len(names), pack_files):
            tar, offsets = packed({n: files[n] for n in names[start : start + pack_files]})
            store.put_bytes(layout.pack_key(project, sha(tar)), tar)
            number = writer.number(layout.PACK, sha(tar), len(tar))
            places |= {n: (number, offset) for n, offset in offsets.items()}
        for path, content in (large or {}).items():
            numbers = []
            for start in range(0, len(content), PART):
                part = content[start : start + PART]
                store.put_bytes(layout.part_key(project, sha(part)), part)
                numbers.append(writer.number(layout.PART, sha(part), len(part)))
            places[path] = (numbers,)
        whole = {**files, **(large or {})}
        for path in sorted(whole, key=order):
            writer.add((path, len(whole[path]), sha(whole[path])), *places[path])
        root = writer.root(1.0)
        put(store, project, root, Path(out.name))
    use = {"name": name, "version": version, "digest": root["digest"], "project": project, "mode": "cache"}
    return {**use, "channel": name, "source": "", "store": 0, **fields}
