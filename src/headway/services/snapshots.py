"""Code snapshots: what ran, as one content-addressed tar."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import BinaryIO

from headway.errors import NotFoundError, UsageError
from headway.rules.access import Action, Caller
from headway.rules.records import Snapshot
from headway.services import access
from headway.services.context import Services
from headway.storage import snapshots as storage
from headway.storage.objects import MissingObjectError
from headway.store.base import ConflictError
from headway.wire.runs import SnapshotView

#: bytes of the tar
LIMIT = 512 << 20
_BLOCK = 1 << 20
#: snapshots whose lists of files are remembered, by their keys, which never get another content
_KEPT = 64
_files: dict[str, frozenset[str]] = {}
_lock = threading.Lock()


def check(ctx: Services, caller: Caller, project: str) -> None:
    """Raises unless the caller may put snapshots there: asked before a body is taken in."""
    with ctx.store.read() as tx:
        access.project(tx, caller, project, Action.WORK)


def put(
    ctx: Services, caller: Caller, project: str, digest: str, body: BinaryIO, *, commit: str | None, dirty: bool
) -> SnapshotView:
    """Takes the tar in. One that is there stays as it is.

    digest: the SHA-256 of the tar. Raises UsageError for another tar, or one that would reach outside its folder.
    """
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.WORK)
        found = tx.runs.snapshot(home.id, digest)
    if found is not None:
        return _view(found)
    received = storage.receive(ctx.objects, project, body, digest)
    try:
        with ctx.store.begin() as tx:
            found = tx.runs.add_snapshot(
                project_id=home.id,
                digest=digest,
                path=received.key,
                files=received.files,
                bytes=received.bytes,
                commit=commit,
                dirty=dirty,
                created_at=ctx.clock(),
            )
    except ConflictError:
        with ctx.store.read() as tx:
            found = tx.runs.snapshot(home.id, digest)
            assert found is not None
    return _view(found)


def content(ctx: Services, caller: Caller, project: str, digest: str) -> Iterator[bytes]:
    """The tar in blocks. Raises NotFoundError."""
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.VIEW)
        found = tx.runs.snapshot(home.id, digest)
    size = ctx.objects.head(found.path) if found else None
    if found is None or size is None:
        raise NotFoundError(f"Project {project} has no code snapshot {digest[:12]}.", "`headway job` names a run's.")

    def blocks(key: str, total: int) -> Iterator[bytes]:
        for start in range(0, total, _BLOCK):
            yield ctx.objects.get_range(key, start, min(_BLOCK, total - start))

    return blocks(found.path, size)


def files(ctx: Services, found: Snapshot) -> frozenset[str] | None:
    """Paths that it holds, read once; None when its bytes cannot be looked at (the start will say why)."""
    with _lock:
        known = _files.get(found.path)
    if known is None:
        try:
            known = storage.names(ctx.objects, found.path)
        except (MissingObjectError, UsageError):
            return None
        with _lock:
            while len(_files) >= _KEPT:
                _files.pop(next(iter(_files)))
            _files[found.path] = known
    return known


def _view(found: Snapshot) -> SnapshotView:
    return SnapshotView(
        digest=found.digest, files=found.files, bytes=found.bytes, commit=found.commit, dirty=found.dirty
    )
