"""The end of a push: its rows and the places of their contents become a manifest, and that a version."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headway.errors import NotFoundError, UsageError
from headway.rules.access import Caller
from headway.rules.datasets import Row
from headway.rules.records import Dataset, DatasetVersion, Push
from headway.rules.states import PushState
from headway.services import damage, data, placing, pushes, quota
from headway.services.context import Services
from headway.services.data import Home
from headway.services.dataset_views import version_views
from headway.storage import layout, manifests
from headway.store.base import Transaction
from headway.wire.datasets import DatasetVersionView, PublishRequest


@dataclass(frozen=True)
class _Publication:
    ctx: Services
    caller: Caller
    home: Home
    push: Push
    request: PublishRequest
    #: seconds since the epoch
    now: float


def publish(ctx: Services, caller: Caller, project: str, push_id: int, request: PublishRequest) -> DatasetVersionView:
    """The new version, or the newest one when it holds the same files. Once published it stays so.

    Raises UsageError when other rows were told than the request says, RefusedError (over_quota) when the manifest goes
    over the project's quota, and RefusedError (conflict) where something that the version needs has been removed
    meanwhile: pushed again it is sent again.
    """
    with ctx.store.read() as tx:
        home, push = data.push(ctx, tx, caller, project, push_id)
        if push.state is PushState.PUBLISHED:
            return _published(tx, push)
    publication = _Publication(ctx, caller, home, push, request, ctx.clock())
    folder = pushes.receiving(ctx, caller, project, push_id)
    with _manifest(publication, folder) as (root, rows, used):
        view = _version(publication, root, rows, used)
    damage.mend(ctx, home)
    quota.write_data(ctx, home.project)
    shutil.rmtree(folder, ignore_errors=True)
    return view


def _published(tx: Transaction, push: Push) -> DatasetVersionView:
    found = tx.products.dataset_version_by_id(push.version_id) if push.version_id is not None else None
    dataset = tx.products.dataset(push.project_id, push.name)
    if found is None or dataset is None:
        raise NotFoundError(f"What push {push.id} made was removed.", "Push again.")
    return version_views(tx, dataset.name, [found])[0]


# -- the manifest


@contextmanager
def _manifest(publication: _Publication, folder: Path) -> Iterator[tuple[dict[str, Any], Path, set[int]]]:
    """The root, the file with the rows, and the ids of the objects that are used."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".manifest-", suffix=".gz") as out:
        writer = manifests.Writer(out)  # type: ignore[arg-type]
        used = _write(publication, folder, writer)
        root = writer.root(publication.now)
        _require_asked(root, publication.request)
        yield root, Path(out.name), used


def _require_asked(root: dict[str, Any], request: PublishRequest) -> None:
    for what in ("files", "bytes", "digest"):
        if root[what] != getattr(request, what):
            raise UsageError(
                f"The rows that were told have {what} {root[what]}, not {getattr(request, what)}.",
                "Push again.",
                code="other_rows",
            )


def _write(publication: _Publication, folder: Path, writer: manifests.Writer) -> set[int]:
    return placing.write(publication.ctx, publication.home.project.id, _followed(_told(folder)), writer)


def _followed(told: Iterator[list[Row]]) -> Iterator[list[Row]]:
    """The same. Raises UsageError where one does not stand behind the ones before."""
    before: list[str] | None = None
    for rows in told:
        pushes.follow(before, rows[0][0])
        before = rows[-1][0].split("/")
        yield rows


def _told(folder: Path) -> Iterator[list[Row]]:
    """The rows that were told, as they were told together. Raises UsageError where some lack."""
    start = 0
    for path in sorted(folder.glob("*.rows")):
        if path.name != pushes.rows_name(start):
            raise UsageError(f"Rows {start} and on were not told.", "Tell all of them.", code="other_rows")
        lines = path.read_bytes().splitlines()
        yield [tuple(row) for row in json.loads(b"[" + b",".join(lines) + b"]")]
        start += len(lines)


# -- the version


def _version(publication: _Publication, root: dict[str, Any], rows: Path, used: set[int]) -> DatasetVersionView:
    """A new one, or the newest when it has the same files: mended, if it is damaged."""
    project, push = publication.home.project, publication.push
    with publication.ctx.store.begin() as tx:
        dataset = tx.datasets.ensure(project.id, push.name, publication.now)
        newest = tx.datasets.newest(dataset.id)
        if newest is not None and newest.digest == root["digest"] and not newest.damaged:
            return _end(publication, tx, dataset, newest)
    if newest is not None and newest.digest == root["digest"]:
        return _mended(publication, dataset, newest, root, rows, used)
    return _new(publication, dataset, root, rows, used)


def _mended(
    publication: _Publication,
    dataset: Dataset,
    damaged: DatasetVersion,
    root: dict[str, Any],
    rows: Path,
    used: set[int],
) -> DatasetVersionView:
    """The version's manifest is written again: it names what is here now."""
    ctx = publication.ctx
    damage.replace_manifest(ctx, publication.home, root, rows, used)
    with ctx.store.begin() as tx:
        return _end(publication, tx, dataset, replace(damaged, damaged=False))


def _new(
    publication: _Publication, dataset: Dataset, root: dict[str, Any], rows: Path, used: set[int]
) -> DatasetVersionView:
    """Manifest, version file and record, each only once the one before is safe."""
    ctx, home, now = publication.ctx, publication.home, publication.now
    project, digest = home.project, str(root["digest"])
    with ctx.store.begin() as tx:
        newest = tx.datasets.newest(dataset.id)
        number = tx.datasets.next_number(dataset.id)
        name = f"{dataset.name}/{number}"
        size = rows.stat().st_size
        manifest = tx.datasets.expect(project.id, layout.MANIFEST, digest, bytes=size, now=now)
        version = tx.datasets.expect(project.id, layout.VERSION, name, bytes=0, now=now)
        pushes.require_room(ctx, tx, home, [manifest, version])
    damage.require_free(manifest)
    # written again even where it is here: that mends one that was damaged
    manifests.put(home.store, project.name, root, rows)
    parents = [f"{dataset.name}@{newest.version}"] if newest else []
    facts = _facts(publication, number, parents)
    text = json.dumps(facts, separators=(",", ":"), ensure_ascii=False).encode()
    home.store.put_bytes(layout.version_key(project.name, dataset.name, number), text)
    sizes = {manifest.id: size, version.id: len(text)}
    return _record(publication, dataset, number, parents, sizes, used)


def _facts(publication: _Publication, number: int, parents: list[str]) -> dict[str, Any]:
    request = publication.request
    return {
        "name": publication.push.name,
        "version": number,
        "digest": request.digest,
        "files": request.files,
        "bytes": request.bytes,
        "parents": parents,
        "created": publication.now,
        "created_by": publication.caller.name,
        "source": publication.push.source,
    }


def _record(
    publication: _Publication,
    dataset: Dataset,
    number: int,
    parents: list[str],
    sizes: dict[int, int],
    used: set[int],
) -> DatasetVersionView:
    """sizes: bytes of the manifest and of the version's file, by the ids of their rows."""
    ctx, request, now = publication.ctx, publication.request, publication.ctx.clock()
    with ctx.store.begin() as tx:
        tx.datasets.lock(dataset.id)
        newest = tx.datasets.newest(dataset.id)
        if newest is not None and newest.digest == request.digest:
            # somebody else pushed the same at the same moment
            return _end(publication, tx, dataset, newest)
        here = [tx.datasets.arrived(one, bytes=size, files=0, now=now) for one, size in sizes.items()]
        damage.require_held(tx.datasets.hold(used, now) and all(here))
        tx.datasets.mended(publication.home.project.id, request.digest)
        push = tx.datasets.push(publication.push.id)
        made = tx.products.add_dataset_version(
            dataset_id=dataset.id,
            version=number,
            digest=request.digest,
            files=request.files,
            bytes=request.bytes,
            statistics=request.statistics,
            source=publication.push.source,
            created_by=publication.caller.user_id,
            created_at=publication.now,
            parents=parents,
            sent_bytes=push.sent_bytes if push else 0,
        )
        return _end(publication, tx, dataset, made)


def _end(publication: _Publication, tx: Transaction, dataset: Dataset, version: DatasetVersion) -> DatasetVersionView:
    tx.datasets.change_push(
        publication.push.id, state=PushState.PUBLISHED, version_id=version.id, touched_at=publication.now
    )
    return version_views(tx, dataset.name, [version])[0]
