"""Versions with files that are not what they were: marked by who looks, mended by who pushes these files again."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from headway.errors import RefusedError, UsageError
from headway.rules.datasets import PAGE_ROWS, Row
from headway.rules.records import StoredObject
from headway.rules.states import ObjectState
from headway.services import placing
from headway.services.context import Services
from headway.services.data import Home, Version
from headway.storage import layout, manifests
from headway.storage.checking import Checked
from headway.storage.manifests import Manifest, open_manifest
from headway.storage.objects import MissingObjectError
from headway.storage.verify import InvalidError

#: (kind, SHA-256)
_Object = tuple[str, str]


def tell(ctx: Services, found: Version, read: Checked, *, all_read: bool) -> None:
    """Marks what was found damaged, and every version that it is a part of: the next push does not count on it.

    all_read: no file was left out.
    """
    project = found.home.project
    if not read.faulty:
        if all_read and found.version.damaged:
            with ctx.store.begin() as tx:
                tx.datasets.mended(project.id, found.version.digest)
        return
    hit = {found.version.id, *_hit(ctx, found, read.objects)}
    with ctx.store.begin() as tx:
        for kind, sha256 in sorted(read.objects):
            if (row := tx.datasets.object(project.id, kind, sha256)) is not None:
                tx.datasets.damage(row)
        for version in sorted(hit):
            tx.datasets.change_version(version, damaged=True)


def _hit(ctx: Services, found: Version, objects: Collection[_Object]) -> set[int]:
    """Ids of the project's versions whose manifests name one of these objects, or cannot be read."""
    with ctx.store.read() as tx:
        versions = [version for _, version in tx.datasets.versions_in(found.home.project.id)]
    damaged = {digest: _names(found, digest, objects) for digest in {v.digest for v in versions}}
    return {v.id for v in versions if damaged[v.digest]}


def _names(found: Version, digest: str, objects: Collection[_Object]) -> bool:
    try:
        manifest = open_manifest(found.home.store, found.home.project.name, digest)
    except (MissingObjectError, InvalidError):
        return True
    return any((pack.kind, pack.sha256) in objects for pack in manifest.packs)


# -- mended


def mend(ctx: Services, home: Home) -> None:
    """Every damaged version of the project whose contents are all here again, wherever they lie now."""
    with ctx.store.read() as tx:
        digests = {v.digest for _, v in tx.datasets.versions_in(home.project.id) if v.damaged}
    for digest in sorted(digests):
        try:
            _place_again(ctx, home, open_manifest(home.store, home.project.name, digest))
        except (MissingObjectError, InvalidError, RefusedError, UsageError):
            # something of it is still missing: it stays damaged, and its own push mends it
            continue


def _place_again(ctx: Services, home: Home, manifest: Manifest) -> None:
    with tempfile.NamedTemporaryFile(dir=ctx.project_folder(home.project.name), prefix=".manifest-") as out:
        writer = manifests.Writer(out)  # type: ignore[arg-type]
        used = placing.write(ctx, home.project.id, _rows(manifest), writer)
        replace_manifest(ctx, home, writer.root(manifest.created), Path(out.name), used)


def _rows(manifest: Manifest) -> Iterator[list[Row]]:
    rows = ((row.path, row.bytes, row.sha256) for row in manifest.rows())
    while page := list(islice(rows, PAGE_ROWS)):
        yield page


def replace_manifest(ctx: Services, home: Home, root: dict[str, Any], rows: Path, used: Collection[int]) -> None:
    """Has the versions of that digest name what is here. rows: the file that a `Writer` wrote; used: ids of objects.

    Raises RefusedError (removing, conflict) where something is removed meanwhile.
    """
    project, digest = home.project, str(root["digest"])
    with ctx.store.begin() as tx:
        manifest = tx.datasets.expect(project.id, layout.MANIFEST, digest, bytes=0, now=ctx.clock())
    require_free(manifest)
    manifests.put(home.store, project.name, root, rows)
    with ctx.store.begin() as tx:
        now = ctx.clock()
        here = tx.datasets.arrived(manifest.id, bytes=rows.stat().st_size, files=0, now=now)
        require_held(tx.datasets.hold(used, now) and here)
        tx.datasets.mended(project.id, digest)


def require_free(row: StoredObject) -> None:
    """Raises RefusedError (removing)."""
    if row.state is ObjectState.REMOVING:
        raise RefusedError(f"The {row.kind} {row.name[:12]} is being removed.", "Push again.", code="removing")


def require_held(is_held: bool) -> None:
    """Raises RefusedError (conflict)."""
    if not is_held:
        raise RefusedError(
            "Something that the version needs was removed meanwhile.", "Push again: it is sent again.", code="conflict"
        )
