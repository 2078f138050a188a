"""Dataset versions as pushes of before make them: contents in packs, names in manifests.

    projects/<project>/packs/<sha256>.tar         contents, each a member named by its own SHA-256
    projects/<project>/packs/<sha256>.json        where each content begins: {"<sha256>": [offset, bytes]}
    projects/<project>/manifests/<digest>.json    {"files": [{path, bytes, sha256, pack, offset}], "created", "source"}

A manifest's digest tells its files' paths, sizes and contents alone: the same files have the same digest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any, BinaryIO

from headway.errors import UsageError
from headway.storage.layout import index_key, pack_key, root_key
from headway.storage.objects import MissingObjectError, ObjectStore
from headway.storage.verify import InvalidError, check, inside

#: bytes of one pack
LIMIT_BYTES = 64 << 30

Entry = dict[str, Any]


def digest_of(files: Iterable[Entry]) -> str:
    """The digest of a version with these files: SHA-256 of the canonical JSON of [path, bytes, sha256], by path."""
    rows = sorted([f["path"], f["bytes"], f["sha256"]] for f in files)
    text = json.dumps(rows, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def receive_pack(store: ObjectStore, project: str, body: BinaryIO, sha256: str) -> int:
    """Takes a pack in; its size in bytes. One that is there stays as it is.

    Raises UsageError when its content is not `sha256`'s, or a member is not what its name says.
    """
    from headway.storage.intake import spooled

    key = pack_key(project, sha256)
    there = store.head(key)
    if there is not None:
        return there
    with spooled(body, sha256, "pack", LIMIT_BYTES) as path:
        try:
            facts = check(path, "pack")
        except InvalidError as error:
            raise UsageError(f"The pack: {error.reason}", "Push again.", code="bad_pack") from error
        # the index first: a pack that is there has one
        store.put_bytes(index_key(project, sha256), json.dumps(facts["contents"]).encode())
        store.put_file(key, path, sha256)
        return path.stat().st_size


def publish_manifest(
    store: ObjectStore, project: str, files: Iterable[Entry], *, source: str = "", created: float = 0.0
) -> str:
    """Publishes the manifest of a version; its digest. One with the same files stays as it is.

    files: {path, bytes, sha256, pack, offset} each. Raises UsageError for a path that leads outside, or a file whose
    content is not where it says.
    """
    listed = sorted(({k: f[k] for k in ("path", "bytes", "sha256", "pack", "offset")} for f in files), key=_path)
    indices: dict[str, dict[str, Any]] = {}
    for file in listed:
        if not inside(file["path"]):
            raise UsageError(f"path {file['path']!r} does not stay inside the dataset.", "Give it below the folder.")
        pack = file["pack"]
        if pack not in indices:
            indices[pack] = _index(store, project, pack)
        if indices[pack].get(file["sha256"]) != [file["offset"], file["bytes"]]:
            raise UsageError(f"{file['path']}: its content is not at that place of its pack.", "Push it again.")
    digest = digest_of(listed)
    key = root_key(project, digest)
    if store.head(key) is None:
        manifest = {"files": listed, "created": created, "source": source}
        store.put_bytes(key, json.dumps(manifest, ensure_ascii=False).encode())
    return digest


# -- inside


def _path(file: Entry) -> str:
    return str(file["path"])


def _index(store: ObjectStore, project: str, pack: str) -> dict[str, Any]:
    try:
        index: dict[str, Any] = json.loads(store.get_bytes(index_key(project, pack)))
    except MissingObjectError:
        raise UsageError(f"Project {project} has no pack {pack[:12]}.", "Push it first.") from None
    if "contents" in index:
        return {sha256: [offset, size] for sha256, offset, size in index["contents"]}
    return index
