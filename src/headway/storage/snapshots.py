"""Code snapshots: a tar from a user, checked member by member, kept as one object, unpacked for each attempt."""

from __future__ import annotations

import errno
import os
import shutil
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from headway.errors import UsageError
from headway.storage.intake import spooled
from headway.storage.objects import MissingObjectError, ObjectStore
from headway.storage.verify import InvalidError, check, inside

#: bytes of one snapshot, as a tar and unpacked
LIMIT_BYTES = 1 << 30
LIMIT_FILES = 100_000


@dataclass(frozen=True)
class Received:
    key: str
    files: int
    #: of the tar
    bytes: int


def key(project: str, digest: str) -> str:
    return f"projects/{project}/snapshots/{digest}.tar"


def receive(store: ObjectStore, project: str, body: BinaryIO, digest: str) -> Received:
    """Takes a tar in. digest: SHA-256 of the tar.

    Raises UsageError for another content, no tar, or a member that is absolute, leads out with "..", is a link that
    does, or is no file, folder or link.
    """
    name = key(project, digest)
    with spooled(body, digest, "code snapshot", LIMIT_BYTES) as path:
        try:
            check(path, "tar")
            files = _check_members(path)
        except InvalidError as error:
            raise UsageError(f"The code snapshot: {error.reason}", "Send it again.", code="bad_snapshot") from error
        if store.head(name) is None:
            store.put_file(name, path, digest)
        return Received(name, files, path.stat().st_size)


def unpack(store: ObjectStore, key: str, into: Path) -> None:
    """Makes the folder `into` from the snapshot, whole or not at all; one that holds something already is left.

    Raises MissingObjectError, UsageError for a member that would land outside, or OSError.
    """
    into = Path(into)
    if into.is_dir() and any(into.iterdir()):
        return
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{into.name}.", dir=into.parent, ignore_cleanup_errors=True) as scratch:
        path = store.local(key)
        if path is None:
            path = Path(scratch, "snapshot.tar")
            store.fetch(key, path)
        folder = Path(scratch, "code")
        folder.mkdir()
        try:
            _check_members(path)
            _extract(path, folder)
        except (tarfile.TarError, InvalidError) as error:
            raise UsageError(f"The code snapshot {key} is damaged ({error}).", "Submit the code again.") from error
        try:
            os.rename(folder, into)
        except OSError as error:
            # another node of the same gang, with the same snapshot, was faster
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


def names(store: ObjectStore, key: str) -> frozenset[str]:
    """Paths of the files and links in the snapshot. Raises MissingObjectError, or UsageError when it is damaged."""
    with tempfile.TemporaryDirectory(prefix="snapshot-") as scratch:
        path = store.local(key)
        if path is None:
            path = Path(scratch, "snapshot.tar")
            store.fetch(key, path)
        try:
            with tarfile.open(path, "r:") as archive:
                return frozenset(m.name.removeprefix("./") for m in archive if not m.isdir())
        except FileNotFoundError:
            raise MissingObjectError(key) from None
        except tarfile.TarError as error:
            raise UsageError(f"The code snapshot {key} is damaged ({error}).", "Submit the code again.") from error


def _extract(path: Path, folder: Path) -> None:
    with tarfile.open(path, "r:") as archive:
        for member in archive:
            place = folder / member.name
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.parent.resolve().is_relative_to(folder.resolve()):
                raise InvalidError(f"Member {member.name} would land outside.")
            if member.isdir():
                place.mkdir(exist_ok=True)
            elif member.issym():
                os.symlink(member.linkname, place)
            else:
                content = archive.extractfile(member)
                assert content is not None
                # exclusive: a name that stands twice must not write through a link that was made first
                fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o755 if member.mode & 0o100 else 0o644)
                with open(fd, "wb") as out:
                    shutil.copyfileobj(content, out)


def _check_members(path: Path) -> int:
    """How many files it holds. Raises UsageError for a member that does not stay inside."""
    files = size = 0
    seen: set[str] = set()
    links: set[str] = set()
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                name = member.name.removeprefix("./").rstrip("/")
                if member.isdir() and name in ("", "."):
                    continue
                if not inside(member.name.rstrip("/")):
                    raise _refused(member.name, "does not stay inside the code folder")
                if name in seen and not member.isdir():
                    raise _refused(name, "stands twice")
                parents = {"/".join(name.split("/")[:n]) for n in range(1, name.count("/") + 1)}
                if parents & links:
                    raise _refused(name, "lies below a link")
                seen.add(name)
                if member.issym():
                    links.add(name)
                    _check_link(name, member.linkname)
                elif not (member.isreg() or member.isdir()):
                    raise _refused(name, "is neither a file, a folder nor a symbolic link")
                files += member.isreg()
                size += member.size
    except tarfile.TarError as error:
        raise InvalidError(f"It is not a whole tar archive ({error}).") from error
    if files > LIMIT_FILES or size > LIMIT_BYTES:
        raise UsageError(
            f"The code snapshot holds {files} files with {size} bytes.",
            f"Keep it under {LIMIT_FILES} files and {LIMIT_BYTES >> 20} MiB; data belongs in a dataset.",
            code="too_large",
        )
    return files


def _check_link(name: str, link: str) -> None:
    where = os.path.normpath(os.path.join(os.path.dirname(name), link))
    if os.path.isabs(link) or where == ".." or where.startswith("../"):
        raise _refused(name, f"links outside the code folder (to {link!r})")


def _refused(name: str, why: str) -> UsageError:
    return UsageError(f"The code snapshot's member {name!r} {why}.", "Remove it from the folder.", code="bad_snapshot")
