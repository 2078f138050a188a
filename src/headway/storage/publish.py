"""The commit protocol: how everything that headway vouches for comes to stand under its name.

Write under a temporary name beside the target; flush and fsync; verify by kind; rename; fsync the folder. Whoever
appends the record does so afterwards, from what is returned here. A target that is there and verifies is returned as
found and never made twice. A kill at any moment leaves either the target whole or only a temporary, which
`sweep_temporaries` removes.

All functions raise TargetFullError when the target is full (a pause, with nothing changed but temporaries, which are
removed), `verify.InvalidError` when the source is not what it should be, and OSError otherwise.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.storage import verify, writing
from headway.storage.full import full_of
from headway.storage.probe import probe
from headway.storage.quota import MANIFEST, ProjectQuota
from headway.storage.verify import InvalidError
from headway.storage.writing import Signature, file_digest, signature, sweep_temporaries, sync_folder

__all__ = [
    "Publication",
    "Published",
    "Signature",
    "content_digest",
    "file_digest",
    "found_folder",
    "manifest_bytes",
    "publish_bytes",
    "publish_checked",
    "publish_file",
    "publish_folder",
    "publish_tree",
    "published_key",
    "remove",
    "signature",
    "sweep_temporaries",
    "sync_folder",
    "verify_folder",
]


@dataclass(frozen=True)
class Published:
    """One file of a publication. `name` is below the published folder, or the file's own name."""

    name: str
    bytes: int
    sha256: str
    kind: str
    #: what its check told
    facts: dict[str, Any] = field(default_factory=dict, compare=False)

    def to_json(self) -> dict[str, Any]:
        """As events, records and output.json have it: the facts beside the rest, which they never hide."""
        own = {"name": self.name, "bytes": self.bytes, "sha256": self.sha256, "kind": self.kind}
        return {**own, **{k: v for k, v in self.facts.items() if k not in own}}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Published:
        """Raises KeyError or TypeError."""
        if not isinstance(raw, Mapping):
            raise TypeError("a file is no JSON object")
        facts = {k: v for k, v in raw.items() if k not in ("name", "bytes", "sha256", "kind")}
        return cls(raw["name"], raw["bytes"], raw["sha256"], raw["kind"], facts)


@dataclass(frozen=True)
class Publication:
    #: of the one rename that made it: random for a folder, from the content for a file
    id: str
    files: list[Published]
    #: it had been there before
    found: bool = False
    #: of a folder: what was given as `manifest`
    manifest: dict[str, Any] = field(default_factory=dict)
    #: of a file: what its check told
    facts: dict[str, Any] = field(default_factory=dict)

    def outputs(self) -> list[dict[str, Any]]:
        """[{"name", "bytes", "sha256", "kind", ...facts}], as events have it."""
        return [f.to_json() for f in self.files]


def publish_file(
    source: Path,
    target: Path,
    *,
    kind: str,
    quota: ProjectQuota | None = None,
    sha256: str | None = None,
    mode: int = 0o644,
    settled: Signature | None = None,
    announce: Callable[[str], None] = lambda sha256: None,
) -> Publication:
    """Publishes a copy of `source` at `target`. Another content that stood there is replaced at once and whole.

    sha256: what the content must have. A source that changes meanwhile raises InvalidError (unfinished).
    settled: the source's (inode, size, mtime in ns) if nobody will ever write to that very file again; it is then
    shared by a hard link where that can be, not copied. announce: called with the SHA-256 of what is valid, before
    anything changes at the target.
    """
    before = signature(source)
    facts = verify.check(source, kind)
    digest = file_digest(source)
    if signature(source) != before:
        raise InvalidError("It is still being written.", unfinished=True)
    if sha256 is not None and digest != sha256:
        raise InvalidError(f"Its SHA-256 is {digest}, not {sha256}.")
    size = source.stat().st_size
    published = Publication(digest[:32], [Published(target.name, size, digest, kind)], facts=facts)

    announce(digest)

    def write(temporary: Path) -> None:
        if before != settled or not writing.share(source, temporary, before):
            writing.copy(source, temporary, digest, mode)

    return _publish_one(target, published, write, quota)


def publish_bytes(
    content: bytes, target: Path, *, kind: str, quota: ProjectQuota | None = None, mode: int = 0o644
) -> Publication:
    """Publishes `content` as the file `target`; see `publish_file`."""
    digest = hashlib.sha256(content).hexdigest()
    published = Publication(digest[:32], [Published(target.name, len(content), digest, kind)])

    def write(temporary: Path) -> None:
        writing.write(temporary, content, mode)
        verify.check(temporary, kind)

    return _publish_one(target, published, write, quota)


def publish_folder(
    staging: Path,
    target: Path,
    *,
    outputs: Sequence[dict[str, str]],
    manifest: dict[str, Any],
    quota: ProjectQuota | None = None,
) -> Publication:
    """Publishes copies of the declared `outputs` ([{"name", "kind"}]) of `staging` as the folder `target`.

    Nothing else of `staging` is taken. `manifest` (JSON; its "key" tells one content from another) goes into
    `output.json` with the publication's id and the files' sizes and checksums. A target that verifies and has the same
    key is returned as found; another one is replaced. A quota counts the outputs and output.json.
    """
    there = found_folder(target, manifest.get("key"))
    if there:
        return there
    files = [_checked(staging, output) for output in outputs]
    return publish_checked(staging, target, files, manifest, quota)


def publish_tree(
    staging: Path,
    target: Path,
    *,
    outputs: Sequence[dict[str, str]],
    quota: ProjectQuota | None = None,
    announce: Callable[[str], None] = lambda key: None,
) -> Publication:
    """`publish_folder` under a key that is the digest of names and contents: `manifest["key"]`, see `content_digest`.

    The same content at `target` is returned as found; another is replaced at once and whole. announce: called with
    the key of what is valid, before anything changes at the target.
    """
    files = [_checked(staging, output) for output in outputs]
    key = content_digest(files)
    announce(key)
    if published_key(target) == key and (there := found_folder(target, key)):
        return there
    return publish_checked(staging, target, files, {"key": key}, quota)


def content_digest(files: Sequence[Published]) -> str:
    """SHA-256 over the names, sizes and checksums of a folder's files, whatever their order."""
    lines = sorted([f.name, f.bytes, f.sha256] for f in files)
    return hashlib.sha256(json.dumps(lines, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()


def published_key(target: Path) -> Any:
    """The key under which the folder at `target` says that it was published; None when it says none. Not verified."""
    try:
        with full_of(target.parent):
            note = (target / MANIFEST).read_bytes()
        return json.loads(note)["manifest"]["key"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remove(target: Path, *, quota: ProjectQuota | None, still: Callable[[], bool] = lambda: True) -> bool:
    """Takes a published file or folder away, at once and whole, and gives its bytes back to the quota.

    still: asked while nobody else can publish there; False leaves it. False when nothing was removed. A kill leaves
    it in place, or only a temporary that is swept.
    """
    with full_of(target.parent):
        if not writing.there(target):
            return False
        with _reserved(quota, target, 0, 0), writing.temporary(target) as old, writing.alone(target.parent):
            if not still() or not writing.there(target):
                return False
            os.rename(target, old)
            sync_folder(target.parent)
    return True


def publish_checked(
    staging: Path, target: Path, files: list[Published], manifest: dict[str, Any], quota: ProjectQuota | None
) -> Publication:
    """Publishes copies of `files` of `staging`, which were checked before, as the folder `target`.

    Raises InvalidError where one has other bytes by now.
    """
    publication = Publication(os.urandom(16).hex(), files, manifest=manifest)
    note = manifest_bytes(publication)
    size = sum(f.bytes for f in files) + len(note)
    with _made(target.parent), _reserved(quota, target, size, len(files) + 1):
        probe(target.parent, bytes=size, files=len(files) + 2, write=False)
        with writing.temporary(target) as temporary:
            temporary.mkdir(mode=0o755)
            for file in files:
                place = temporary / file.name
                place.parent.mkdir(parents=True, exist_ok=True)
                writing.copy(staging / file.name, place, file.sha256, 0o644)
                if place.parent != temporary:
                    sync_folder(place.parent)
            writing.write(temporary / MANIFEST, note, 0o644)
            sync_folder(temporary)
            with writing.alone(target.parent):
                there = found_folder(target, manifest.get("key"))
                if there:
                    return there
                with writing.aside(target):
                    os.rename(temporary, target)
                    sync_folder(target.parent)
    return publication


def verify_folder(target: Path) -> Publication:
    """The publication that stands at `target`, every file read and compared. Raises InvalidError or OSError."""
    try:
        note = json.loads((target / MANIFEST).read_bytes())
        files = [Published.from_json(f) for f in note["files"]]
        publication = Publication(str(note["id"]), files, found=True, manifest=dict(note["manifest"]))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InvalidError("Nothing was published there.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidError(f"{MANIFEST} is damaged ({error}).") from error
    for file in files:
        if not verify.inside(file.name):
            raise InvalidError(f"{MANIFEST} names {file.name!r}.")
        try:
            size = (target / file.name).stat().st_size
            digest = file_digest(target / file.name) if size == file.bytes else ""
        except FileNotFoundError as error:
            raise InvalidError(f"{file.name} is gone.") from error
        if digest != file.sha256:
            raise InvalidError(f"{file.name} has other bytes than when it was published.")
    return publication


def found_folder(target: Path, key: Any = None) -> Publication | None:
    """What stands at `target` when it verifies and was published with this key; else None.

    Where it cannot be looked at, that is no None: what is finished would be made once more.
    """
    try:
        with full_of(target.parent):
            publication = verify_folder(target)
    except InvalidError:
        return None
    return publication if publication.manifest.get("key") == key else None


# -- inside


def _publish_one(target: Path, published: Publication, write: Any, quota: ProjectQuota | None) -> Publication:
    file = published.files[0]
    there = Publication(published.id, published.files, found=True, facts=published.facts)
    if _stands(target, file):
        return there
    with _made(target.parent), _reserved(quota, target, file.bytes, 1):
        probe(target.parent, bytes=file.bytes, files=1, write=False)
        with writing.temporary(target) as temporary:
            write(temporary)
            with writing.alone(target.parent):
                if _stands(target, file):
                    return there
                os.rename(temporary, target)
                sync_folder(target.parent)
    return published


def _stands(target: Path, file: Published) -> bool:
    try:
        with full_of(target.parent):
            return target.stat().st_size == file.bytes and file_digest(target) == file.sha256
    except FileNotFoundError:
        return False


def _checked(staging: Path, output: dict[str, str]) -> Published:
    name, kind = output["name"], output["kind"]
    path = staging / name
    if not verify.inside(name) or name == MANIFEST:
        raise InvalidError(f"An output may not be called {name!r}.")
    try:
        verify.check(path, kind)
        return Published(name, path.stat().st_size, file_digest(path), kind)
    except InvalidError as error:
        raise InvalidError(f"{name}: {error.reason}", unfinished=error.unfinished) from error


def manifest_bytes(publication: Publication) -> bytes:
    """The content of a folder's output.json."""
    files = publication.outputs()
    note = {"id": publication.id, "at": time.time(), "manifest": publication.manifest, "files": files}
    return json.dumps(note, ensure_ascii=False).encode() + b"\n"


@contextlib.contextmanager
def _made(folder: Path) -> Iterator[None]:
    """The folder is there, and what hinders is told apart."""
    with full_of(folder):
        folder.mkdir(parents=True, exist_ok=True)
        yield


def _reserved(
    quota: ProjectQuota | None, target: Path, size: int, files: int
) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext() if quota is None else quota.reserve(target, size, files)
