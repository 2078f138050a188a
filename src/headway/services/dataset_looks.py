"""Looking into a dataset version: its files, where their contents are, and the contents themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from headway.errors import NotFoundError
from headway.rules.access import Action, Caller
from headway.services import data
from headway.services.context import Services
from headway.storage import layout
from headway.storage.manifests import Placed
from headway.storage.objects import ObjectStore
from headway.wire.datasets import FilesPage, PlacedRow, PlacesPage


@dataclass(frozen=True)
class Content:
    """Bytes in the store."""

    size: int
    #: (first, count) -> these bytes, all of them there, in blocks
    read: Callable[[int, int], Iterator[bytes]]


def files(
    ctx: Services, caller: Caller, project: str, name: str, version: int, *, prefix: str, after: str | None, limit: int
) -> FilesPage:
    """The files below the folder, or under the path, `prefix` ("": all) that come behind `after`, at most `limit`."""
    below = prefix.rstrip("/")
    with data.manifest(data.version(ctx, caller, project, name, version)) as manifest:
        rows = manifest.since(below if after is None else after, after=after is not None)
        found = list(islice(_below(rows, below), limit + 1))
    page = found[:limit]
    return FilesPage(
        files=[(row.path, row.bytes, row.sha256) for row in page], after=page[-1].path if len(found) > limit else None
    )


def _below(rows: Iterator[Placed], folder: str) -> Iterator[Placed]:
    """In order a folder's files stand together, right behind a file of its name."""
    reached = not folder
    for row in rows:
        if not folder or row.path == folder or row.path.startswith(folder + "/"):
            reached = True
            yield row
        elif reached or row.path.split("/") > folder.split("/"):
            return


def places(ctx: Services, caller: Caller, project: str, name: str, version: int, page: int) -> PlacesPage:
    """A page of the manifest with the places of the contents. Raises NotFoundError for one behind the last."""
    found = data.version(ctx, caller, project, name, version)
    with data.manifest(found) as manifest:
        if page >= manifest.pages:
            raise NotFoundError(f"Dataset {found} has no page {page}.", f"Its last page is {manifest.pages - 1}.")
        return PlacesPage(page=page, pages=manifest.pages, rows=[_row(row) for row in manifest.page(page)])


def _row(row: Placed) -> PlacedRow:
    return PlacedRow(
        path=row.path,
        bytes=row.bytes,
        sha256=row.sha256,
        pack=row.pack,
        offset=row.offset,
        parts=list(row.parts) if row.pack is None else None,
    )


def content(ctx: Services, caller: Caller, project: str, name: str, version: int, path: str) -> Content:
    """What the file holds. Raises NotFoundError: the version has no such file."""
    found = data.version(ctx, caller, project, name, version)
    with data.manifest(found) as manifest:
        row = manifest.find(path)
    if row is None:
        raise NotFoundError(f"Dataset {found} has no file {path!r}.", "Its files are what `files` lists.")
    if row.pack is None:
        pieces = [(layout.part_key(project, part), 0, size) for part, size in row.parts]
    else:
        pieces = [(layout.pack_key(project, row.pack), row.offset or 0, row.bytes)]
    return _content(found.home.store, pieces)


def stored(ctx: Services, caller: Caller, project: str, kind: str, sha256: str) -> Content:
    """A whole pack or part. Raises NotFoundError."""
    with ctx.store.read() as tx:
        home = data.home(ctx, tx, caller, project, Action.VIEW)
    key = layout.keys(project, kind, sha256)[0]
    size = home.store.head(key)
    if size is None:
        raise NotFoundError(
            f"Project {project} has no {kind} {sha256[:12]}.",
            "If a version names it, run `headway dataset verify` on it, and push the same files again: that mends it.",
        )
    return _content(home.store, [(key, 0, size)])


def _content(store: ObjectStore, pieces: Sequence[tuple[str, int, int]]) -> Content:
    """pieces: key, first byte, bytes; one after another."""

    def read(first: int, count: int) -> Iterator[bytes]:
        for key, start, size in pieces:
            taken = max(0, min(count, size - first))
            if taken:
                yield from store.stream(key, start + first, taken)
            first, count = max(0, first - size), count - taken

    return Content(sum(size for _, _, size in pieces), read)
