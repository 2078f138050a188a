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
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headway.protocol import identity
from headway.storage import verify
from headway.storage.full import from_oserror
from headway.storage.probe import probe
from headway.storage.quota import MANIFEST, ProjectQuota
from headway.storage.verify import InvalidError

_BLOCK = 1 << 20
#: ioctl that makes a copy share the blocks of its source (btrfs, XFS)
_FICLONE = 0x40049409
_SUFFIX = ".publishing.tmp"
#: inode, size, mtime in ns: another file, or the same written to, has another one
Signature = tuple[int, int, int]


@dataclass(frozen=True)
class Published:
    """One file of a publication. `name` is below the published folder, or the file's own name."""

    name: str
    bytes: int
    sha256: str
    kind: str


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
        """[{"name", "bytes", "sha256", "kind"}], as events have it."""
        return [asdict(f) for f in self.files]


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
        if before != settled or not _share(source, temporary, before):
            _copy(source, temporary, digest, mode)

    return _publish_one(target, published, write, quota)


def publish_bytes(
    content: bytes, target: Path, *, kind: str, quota: ProjectQuota | None = None, mode: int = 0o644
) -> Publication:
    """Publishes `content` as the file `target`; see `publish_file`."""
    digest = hashlib.sha256(content).hexdigest()
    published = Publication(digest[:32], [Published(target.name, len(content), digest, kind)])

    def write(temporary: Path) -> None:
        _write(temporary, content, mode)
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
    return _publish_checked(staging, target, files, manifest, quota)


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
    return _publish_checked(staging, target, files, {"key": key}, quota)


def content_digest(files: Sequence[Published]) -> str:
    """SHA-256 over the names, sizes and checksums of a folder's files, whatever their order."""
    lines = sorted([f.name, f.bytes, f.sha256] for f in files)
    return hashlib.sha256(json.dumps(lines, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()


def published_key(target: Path) -> Any:
    """The key under which the folder at `target` says that it was published; None when it says none. Not verified."""
    try:
        return json.loads((target / MANIFEST).read_bytes())["manifest"]["key"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remove(target: Path, *, quota: ProjectQuota | None, still: Callable[[], bool] = lambda: True) -> bool:
    """Takes a published file or folder away, at once and whole, and gives its bytes back to the quota.

    still: asked while nobody else can publish there; False leaves it. False when nothing was removed. A kill leaves
    it in place, or only a temporary that is swept. Raises OSError.
    """
    if not os.path.lexists(target):
        return False
    with _reserved(quota, target, 0, 0), _temporary(target) as old, _alone(target.parent):
        if not still() or not os.path.lexists(target):
            return False
        os.rename(target, old)
        sync_folder(target.parent)
    return True


def _publish_checked(
    staging: Path, target: Path, files: list[Published], manifest: dict[str, Any], quota: ProjectQuota | None
) -> Publication:
    publication = Publication(os.urandom(16).hex(), files, manifest=manifest)
    note = _note(publication)
    size = sum(f.bytes for f in files) + len(note)
    with _full(target.parent), _reserved(quota, target, size, len(files) + 1):
        probe(target.parent, bytes=size, files=len(files) + 2, write=False)
        with _temporary(target) as temporary:
            temporary.mkdir(mode=0o755)
            for file in files:
                place = temporary / file.name
                place.parent.mkdir(parents=True, exist_ok=True)
                _copy(staging / file.name, place, file.sha256, 0o644)
                if place.parent != temporary:
                    sync_folder(place.parent)
            _write(temporary / MANIFEST, note, 0o644)
            sync_folder(temporary)
            with _alone(target.parent):
                there = found_folder(target, manifest.get("key"))
                if there:
                    return there
                with _aside(target):
                    os.rename(temporary, target)
                    sync_folder(target.parent)
    return publication


def verify_folder(target: Path) -> Publication:
    """The publication that stands at `target`, every file read and compared. Raises InvalidError or OSError."""
    try:
        note = json.loads((target / MANIFEST).read_bytes())
        files = [Published(f["name"], f["bytes"], f["sha256"], f["kind"]) for f in note["files"]]
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
    """What stands at `target` when it verifies and was published with this key; else None."""
    try:
        publication = verify_folder(target)
    except InvalidError:
        return None
    return publication if publication.manifest.get("key") == key else None


def sweep_temporaries(folder: Path, older_than: float = 3600.0) -> int:
    """Removes what publishers that died left under `folder`; how many.

    A temporary whose publisher was of this boot goes when that process is gone; others when `older_than` seconds old.
    """
    swept = 0
    boot = identity.own().boot
    for at, folders, files in os.walk(folder):
        for name in [n for n in [*folders, *files] if n.startswith(".") and n.endswith(_SUFFIX)]:
            path = Path(at, name)
            if _abandoned(path, boot, older_than):
                with contextlib.suppress(OSError):
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
                    swept += 1
        folders[:] = [n for n in folders if not n.endswith(_SUFFIX)]
    return swept


def file_digest(path: Path) -> str:
    """SHA-256 of a file's content, hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


# -- inside


def _publish_one(target: Path, published: Publication, write: Any, quota: ProjectQuota | None) -> Publication:
    file = published.files[0]
    there = Publication(published.id, published.files, found=True, facts=published.facts)
    if _stands(target, file):
        return there
    with _full(target.parent), _reserved(quota, target, file.bytes, 1):
        probe(target.parent, bytes=file.bytes, files=1, write=False)
        with _temporary(target) as temporary:
            write(temporary)
            with _alone(target.parent):
                if _stands(target, file):
                    return there
                os.rename(temporary, target)
                sync_folder(target.parent)
    return published


def _stands(target: Path, file: Published) -> bool:
    try:
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


def _note(publication: Publication) -> bytes:
    files = [asdict(f) for f in publication.files]
    note = {"id": publication.id, "at": time.time(), "manifest": publication.manifest, "files": files}
    return json.dumps(note, ensure_ascii=False, indent=1).encode() + b"\n"


def signature(path: Path) -> Signature:
    """(inode, size, mtime in ns). Raises InvalidError when there is no such file."""
    try:
        found = path.stat()
    except FileNotFoundError as error:
        raise InvalidError("There is no such file.") from error
    return found.st_ino, found.st_size, found.st_mtime_ns


@contextlib.contextmanager
def _full(folder: Path) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        full = from_oserror(error, folder)
        if full is None:
            raise
        raise full from error


def _reserved(
    quota: ProjectQuota | None, target: Path, size: int, files: int
) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext() if quota is None else quota.reserve(target, size, files)


@contextlib.contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """A name beside `target` that tells whose it is; nothing is left there afterwards."""
    me = identity.own()
    owner = f"{me.boot[:8]}-{me.pid}-{me.started}-{os.urandom(4).hex()}"
    path = target.with_name(f".{target.name[:80]}.{owner}{_SUFFIX}")
    try:
        yield path
    finally:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def _abandoned(path: Path, boot: str, older_than: float) -> bool:
    owner = path.name.removesuffix(_SUFFIX).rpartition(".")[2].split("-")
    try:
        if owner[0] == boot[:8]:
            return not identity.alive(identity.Identity(int(owner[1]), int(owner[2]), boot))
        return time.time() - path.lstat().st_mtime > older_than
    except (OSError, ValueError, IndexError):
        return False


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One publisher at a time between the look and the rename. Where folders cannot be locked, the rename decides."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@contextlib.contextmanager
def _aside(target: Path) -> Iterator[None]:
    """Takes what is damaged out of the way of a rename, puts it back when that fails, removes it when it does not."""
    with _temporary(target) as old:
        there = os.path.lexists(target)
        if there:
            os.rename(target, old)
        try:
            yield
        except OSError:
            if there:
                os.rename(old, target)
            raise


def _copy(source: Path, target: Path, digest: str, mode: int) -> None:
    """A synced copy whose content has the digest. Raises InvalidError when the source has changed."""
    found = hashlib.sha256()
    with open(source, "rb") as file:
        fd = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            cloned = _clone(file.fileno(), fd)
            with open(fd, "rb", closefd=False) if cloned else contextlib.nullcontext(file) as origin:
                while block := origin.read(_BLOCK):
                    found.update(block)
                    if not cloned:
                        _write_all(fd, block)
            os.fsync(fd)
        finally:
            os.close(fd)
    if found.hexdigest() != digest:
        raise InvalidError("It is still being written.", unfinished=True)


def _share(source: Path, target: Path, expected: Signature) -> bool:
    """Makes `target` another name of the source file; False where that cannot be."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        return False
    if signature(target) == expected:
        return True
    target.unlink()
    return False


def _clone(source: int, target: int) -> bool:
    try:
        fcntl.ioctl(target, _FICLONE, source)
        return True
    except OSError:
        return False


def _write(path: Path, content: bytes, mode: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        _write_all(fd, content)
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_all(fd: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
