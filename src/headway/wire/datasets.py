"""Datasets: pushes, versions, what is looked up in them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from headway.wire.base import Answer, Bounded, Request

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
#: bytes, or where some begin
Size = Annotated[int, Field(ge=0, le=2**63 - 1)]
#: path, bytes, SHA-256
RowItem = tuple[str, Size, Sha256]

# -- a push: opened, told what there is, sent what is missing, told its rows, published


class PushRequest(Request):
    """Opens a push; nothing is seen of it before it is published. It needs no end: one that is left is swept."""

    name: str = Field(min_length=1, max_length=64)
    #: where the files come from, for people: "host:/folder", a URL
    source: str = Field(default="", max_length=4096)
    #: what is to come, as far as it is known: a store that cannot hold it refuses at once
    files: int | None = Field(default=None, ge=0)
    bytes: int | None = Field(default=None, ge=0)


class PushView(Answer):
    id: int
    project: str
    name: str
    #: whether bodies go straight to the object store, by URLs that `grants` gives; else through the api
    direct: bool
    #: the URLs' host and port: one that cannot be reached from here is no reason to fail, the api takes bodies too
    direct_host: str | None = None
    pack_bytes: int
    large_bytes: int
    part_bytes: int


class KnownRequest(Bounded):
    """Which of these does the project hold already? What it holds is kept for this push."""

    #: of whole files
    contents: list[Sha256] = Field(default=[], max_length=20_000)
    #: of parts of large files
    parts: list[Sha256] = Field(default=[], max_length=20_000)


class KnownAnswer(Answer):
    """Indices into the lists that were asked."""

    contents: list[int]
    parts: list[int]


class PackIndex(Bounded):
    """A pack or part that was sent straight to the store."""

    kind: Literal["pack", "part"]
    sha256: Sha256
    bytes: Size
    #: of a pack: [SHA-256, offset, bytes] of each file in it, by offset
    contents: list[tuple[Sha256, Size, Size]] = []


class GrantItem(Request):
    kind: Literal["pack", "part"]
    sha256: Sha256
    bytes: int = Field(ge=0)


class GrantRequest(Request):
    objects: list[GrantItem] = Field(min_length=1, max_length=1000)


class GrantAnswer(Answer):
    #: one signed PUT a request, in order; None: the project has it already
    urls: list[str | None]


class SentRequest(Bounded):
    """What was sent straight to the store; the server looks whether it is there."""

    objects: list[PackIndex] = Field(min_length=1, max_length=100)


class ObjectView(Answer):
    sha256: str
    bytes: int


class LargeFile(Request):
    sha256: Sha256
    bytes: int = Field(ge=0)
    #: SHA-256 of its parts, in order, all of them held by the project
    parts: list[Sha256] = Field(min_length=1)


class LargeRequest(Request):
    files: list[LargeFile] = Field(min_length=1, max_length=1000)


class RowsRequest(Bounded):
    """Rows of the version to be, in `rules.datasets.order`. Told again from the same start they replace those there."""

    #: number of the first
    start: Size
    rows: list[RowItem] = Field(min_length=1, max_length=20_000)


class PublishRequest(Request):
    """All of it: a push that was told other rows is refused."""

    files: int = Field(ge=1)
    bytes: int = Field(ge=0)
    #: see `rules.datasets.digest`
    digest: Sha256
    statistics: dict[str, Any] = {}


# -- versions


class DatasetVersionView(Answer):
    name: str
    version: int
    digest: str
    files: int
    bytes: int
    statistics: dict[str, Any]
    source: str
    #: versions that it came after: "digits@1"
    parents: list[str] = []
    created_by: str
    created_at: datetime
    #: of its push, as far as known: bytes that had to be sent, packs and parts that they made
    sent_bytes: int = 0
    #: whether a verification found files that are not what they were; pushing the same files again mends it
    damaged: bool = False


class StatisticsRequest(Request):
    statistics: dict[str, Any]


class FilesPage(Answer):
    """Files of a version, in order."""

    files: list[RowItem]
    #: give it as `after` for the next page; None: that was the last
    after: str | None


class PlacedRow(Answer):
    path: str
    bytes: int
    sha256: str
    #: SHA-256 of the pack it is in, and where; None: a large file
    pack: str | None = None
    offset: int | None = None
    #: of a large file: SHA-256 and bytes of each of its parts
    parts: list[tuple[str, int]] | None = None


class PlacesPage(Answer):
    """A page of the manifest, with the places of the contents."""

    page: int
    pages: int
    rows: list[PlacedRow]


class VerifyRequest(Request):
    #: share of the files that is read, 0 to 1, chosen anew each time; None: all
    sample: float | None = Field(default=None, gt=0, le=1)


class VerifyView(Answer):
    name: str
    version: int
    #: of the version
    files: int
    bytes: int
    #: that were read
    read_files: int
    read_bytes: int
    #: files whose content is not what the manifest says: {"path": reason}; the first 1,000
    faults: dict[str, str]
    faulty: int


class Change(Answer):
    path: str
    #: "added", "removed", "changed", "moved" (the same content under another path)
    what: str
    #: of moved: the path it had
    before: str | None = None
    bytes: int = 0


class DiffView(Answer):
    older: str
    newer: str
    added: int
    removed: int
    changed: int
    moved: int
    same: int
    #: bytes of contents that only the newer one has
    new_bytes: int
    #: the first 1,000
    changes: list[Change]


class RemovedView(Answer):
    name: str
    version: int


class GcRequest(Request):
    dry_run: bool = True
    #: seconds: what was used by a push since then stays
    older_than: float = Field(default=86_400.0, ge=0)


class GcItem(Answer):
    key: str
    bytes: int
    #: "unreferenced", "never registered", "half-sent"
    why: str


class GcView(Answer):
    dry_run: bool
    objects: int
    bytes: int
    #: the first 1,000
    items: list[GcItem]
