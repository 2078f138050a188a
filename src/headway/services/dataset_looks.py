"""Looking into a dataset version: its files, where their contents are, and the contents themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headway.errors import NotFoundError
from headway.rules.access import Action, Caller
from headway.rules.datasets import PAGE_ROWS, order
from headway.rules.records import DatasetVersion
from headway.services import access, requests
from headway.services.context import Services
from headway.storage import datasets as storage
from headway.wire.datasets import FilesPage, PlacedRow, PlacesPage

_BLOCK = 8 << 20


@dataclass(frozen=True)
class Content:
    """Bytes in the store; how many."""

    size: int
    #: (first, count) -> these bytes, all of them there, in blocks
    read: Callable[[int, int], Iterator[bytes]]


def files(
    ctx: Services, caller: Caller, project: str, name: str, version: int, *, prefix: str, after: str | None, limit: int
) -> FilesPage:
    """The files below the folder, or under the path, `prefix` ("": all) that come behind `after`, at most `limit`."""
    below = prefix.rstrip("/")
    found = [
        row
        for row in _rows(ctx, caller, project, name, version)
        if (not below or row.path == below or row.path.startswith(below + "/"))
        and (after is None or order(row.path) > order(after))
    ]
    page = found[:limit]
    return FilesPage(
        files=[(row.path, row.bytes, row.sha256) for row in page], after=page[-1].path if len(found) > limit else None
    )


def places(ctx: Services, caller: Caller, project: str, name: str, version: int, page: int) -> PlacesPage:
    """A page of `PAGE_ROWS` files with the places of their contents. Raises NotFoundError for one behind the last."""
    rows = _rows(ctx, caller, project, name, version)
    pages = max(1, -(-len(rows) // PAGE_ROWS))
    if page >= pages:
        raise NotFoundError(f"Dataset {name}@{version} has no page {page}.", f"Its last page is {pages - 1}.")
    return PlacesPage(page=page, pages=pages, rows=rows[page * PAGE_ROWS : (page + 1) * PAGE_ROWS])


def content(ctx: Services, caller: Caller, project: str, name: str, version: int, path: str) -> Content:
    """What the file holds. Raises NotFoundError: the version has no such file."""
    for row in _rows(ctx, caller, project, name, version):
        if row.path == path:
            assert row.pack is not None and row.offset is not None, "all contents lie in packs"
            return _content(ctx, storage.pack_key(project, row.pack), row.offset, row.bytes)
    raise NotFoundError(f"Dataset {name}@{version} has no file {path!r}.", "Its files are what `files` lists.")


def pack(ctx: Services, caller: Caller, project: str, sha256: str) -> Content:
    """A whole pack. Raises NotFoundError."""
    with ctx.store.read() as tx:
        access.project(tx, caller, project, Action.VIEW)
    size = storage.pack_size(ctx.objects, project, sha256)
    if size is None:
        raise NotFoundError(f"Project {project} has no pack {sha256[:12]}.", "A version's places name those there are.")
    return _content(ctx, storage.pack_key(project, sha256), 0, size)


def _content(ctx: Services, key: str, offset: int, size: int) -> Content:
    def read(first: int, count: int) -> Iterator[bytes]:
        at, end = offset + first, offset + first + count
        while at < end and (block := ctx.objects.get_range(key, at, min(_BLOCK, end - at))):
            at += len(block)
            yield block

    return Content(size, read)


def _rows(ctx: Services, caller: Caller, project: str, name: str, version: int) -> list[PlacedRow]:
    """All files of the version in order."""
    found = _version(ctx, caller, project, name, version)
    listed = storage.read_manifest(ctx.objects, project, found.digest)["files"]
    return sorted((PlacedRow(**row) for row in listed), key=lambda row: order(row.path))


def _version(ctx: Services, caller: Caller, project: str, name: str, version: int) -> DatasetVersion:
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.VIEW)
        return requests.dataset(tx, home, f"{name}@{version}")[1]
