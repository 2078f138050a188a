"""Dataset versions: contents in packs, names in manifests, and the copy of a version in a node's cache.

    projects/<project>/packs/<sha256>.tar         contents, each a member named by its own SHA-256
    projects/<project>/packs/<sha256>.json        where each content begins: {"<sha256>": [offset, bytes]}
    projects/<project>/manifests/<digest>.json    {"files": [{path, bytes, sha256, pack, offset}], "created", "source"}

A manifest's digest tells its files' paths, sizes and contents alone: the same files have the same digest.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from headway.errors import UsageError
from headway.storage.full import from_oserror
from headway.storage.objects import MissingObjectError, ObjectStore
from headway.storage.verify import InvalidError, check, inside

#: bytes of one pack
LIMIT_BYTES = 64 << 30
#: every cached file has this modification time: one that was written to since does not
_CACHED_AT = 946684800
_BLOCK = 1 << 20

Entry = dict[str, Any]


def pack_key(project: str, sha256: str) -> str:
    return f"projects/{project}/packs/{sha256}.tar"


def manifest_key(project: str, digest: str) -> str:
    return f"projects/{project}/manifests/{digest}.json"


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
        store.put_bytes(key.removesuffix("tar") + "json", json.dumps(facts["contents"]).encode())
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
    key = manifest_key(project, digest)
    if store.head(key) is None:
        manifest = {"files": listed, "created": created, "source": source}
        store.put_bytes(key, json.dumps(manifest, ensure_ascii=False).encode())
    return digest


def materialise(store: ObjectStore, manifest_key: str, cache: Path) -> Path:
    """The folder with the version's files in the node's cache; fetched when it is not there or was changed.

    One copy serves every attempt on the node; the files are read-only and verified as they are written. Several callers
    at once fetch once. Raises MissingObjectError, InvalidError for content that is not the manifest's, TargetFullError,
    or OSError.
    """
    digest = manifest_key.rpartition("/")[2].removesuffix(".json")
    target = Path(cache) / "datasets" / digest
    manifest = _manifest(store, manifest_key)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _lock(target.parent / f".{digest}.lock"):
            if not _whole(target, manifest["files"]):
                _fetch(store, manifest_key.rpartition("/manifests/")[0], manifest["files"], target)
    except OSError as error:
        full = from_oserror(error, target)
        if full is None:
            raise
        raise full from error
    return target


# -- inside


def _path(file: Entry) -> str:
    return str(file["path"])


def _index(store: ObjectStore, project: str, pack: str) -> dict[str, Any]:
    try:
        index: dict[str, Any] = json.loads(store.get_bytes(pack_key(project, pack).removesuffix("tar") + "json"))
    except MissingObjectError:
        raise UsageError(f"Project {project} has no pack {pack[:12]}.", "Push it first.") from None
    if "contents" in index:
        return {sha256: [offset, size] for sha256, offset, size in index["contents"]}
    return index


def _manifest(store: ObjectStore, key: str) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads(store.get_bytes(key))
        right = digest_of(manifest["files"]) == key.rpartition("/")[2].removesuffix(".json")
        right = right and all(inside(f["path"]) for f in manifest["files"])
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidError(f"The manifest {key} is damaged ({error}).") from error
    if not right:
        raise InvalidError(f"The manifest {key} is not what its name says.")
    return manifest


def _by_pack(files: Iterable[Entry]) -> dict[str, list[Entry]]:
    packs: dict[str, list[Entry]] = {}
    for file in files:
        packs.setdefault(file["pack"], []).append(file)
    return {p: sorted(found, key=lambda f: int(f["offset"])) for p, found in packs.items()}


def _ranges(store: ObjectStore, key: str, file: Entry) -> Iterator[bytes]:
    at, end = file["offset"], file["offset"] + file["bytes"]
    while at < end:
        block = store.get_range(key, at, min(end - at, 8 << 20))
        if not block:
            return
        at += len(block)
        yield block


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _whole(target: Path, files: list[Entry]) -> bool:
    """Whether the copy is there and nobody wrote to it: every size, and every time of modification."""
    for file in files:
        try:
            found = os.lstat(target / file["path"])
        except OSError:
            return False
        if found.st_size != file["bytes"] or int(found.st_mtime) != _CACHED_AT:
            return False
    return target.is_dir()


def _fetch(store: ObjectStore, base: str, files: list[Entry], target: Path) -> None:
    for left in target.parent.glob(f".{target.name}.*.fetching"):
        shutil.rmtree(left, ignore_errors=True)  # we hold the lock: whoever made it is dead
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".fetching", dir=target.parent))
    try:
        content = scratch / "content"
        content.mkdir()
        for folder in {os.path.dirname(f["path"]) for f in files}:
            (content / folder).mkdir(parents=True, exist_ok=True)
        for pack, wanted in _by_pack(files).items():
            _from_pack(store, f"{base}/packs/{pack}.tar", wanted, content, scratch)
        _sync(content)
        if target.exists():
            os.rename(target, scratch / "old")
        os.chmod(content, 0o755)
        os.rename(content, target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _from_pack(store: ObjectStore, key: str, wanted: list[Entry], content: Path, scratch: Path) -> None:
    path = store.local(key)
    size = store.head(key)
    if size is None:
        raise MissingObjectError(key)
    if path is None and sum(f["bytes"] for f in wanted) * 2 > size:
        path = scratch / "pack"
        store.fetch(key, path)
    if path is None:
        for file in wanted:
            _write(content / file["path"], _ranges(store, key, file), file)
        return
    with open(path, "rb") as source:
        for file in wanted:
            source.seek(file["offset"])
            _write(content / file["path"], _blocks(source, file["bytes"]), file)
    (scratch / "pack").unlink(missing_ok=True)


def _blocks(source: BinaryIO, length: int) -> Iterator[bytes]:
    while length > 0 and (block := source.read(min(_BLOCK, length))):
        length -= len(block)
        yield block


def _write(path: Path, blocks: Iterable[bytes], file: Entry) -> None:
    found = hashlib.sha256()
    with open(path, "xb") as out:
        for block in blocks:
            found.update(block)
            out.write(block)
    if found.hexdigest() != file["sha256"]:
        raise InvalidError(f"{file['path']}: the object store has other bytes for it than the manifest says.")
    os.chmod(path, 0o444)
    os.utime(path, (_CACHED_AT, _CACHED_AT))


def _sync(folder: Path) -> None:
    """One flush of the cache's file system: a copy that has its name must survive a power cut."""
    import ctypes

    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        ctypes.CDLL(None, use_errno=True).syncfs(fd)
    finally:
        os.close(fd)
