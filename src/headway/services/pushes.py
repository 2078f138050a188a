"""Pushes: what a client sends on the way to a new version. Nothing of it is seen before `publishing.publish`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from headway.errors import RefusedError, UsageError
from headway.rules import datasets as rules
from headway.rules.access import Action, Caller
from headway.rules.records import Push, StoredObject
from headway.rules.states import ObjectState, PushState
from headway.services import data, quota
from headway.services.context import Services
from headway.services.data import Home
from headway.storage import layout, packs
from headway.store.base import Transaction
from headway.store.datasets import NewContent
from headway.wire.datasets import (
    GrantAnswer,
    GrantItem,
    GrantRequest,
    KnownAnswer,
    KnownRequest,
    LargeFile,
    LargeRequest,
    ObjectView,
    PackIndex,
    PushRequest,
    PushView,
    RowItem,
    RowsRequest,
    SentRequest,
)

#: bytes of a pack: one is closed at `PACK_BYTES`, but the files of a sample stay together
PACK_LIMIT = 1 << 30
#: seconds for which a signed URL is good
GRANT_SECONDS = quota.KEPT_SECONDS


def create(ctx: Services, caller: Caller, project: str, request: PushRequest) -> PushView:
    """Opens a push. Raises UsageError for what is no name, RefusedError (over_quota) for a first one without room."""
    if not rules.is_name(request.name):
        raise UsageError(
            f"{request.name!r} is no name of a dataset.", "Use lower-case letters, digits, and . _ - inside."
        )
    with ctx.store.begin() as tx:
        home = data.home(ctx, tx, caller, project, Action.WORK)
        dataset = tx.products.dataset(home.project.id, request.name)
        if dataset is None or tx.datasets.newest(dataset.id) is None:
            # a later version may hold nothing new, or mend what is damaged
            quota.require_not_full(ctx, tx, home.project)
        found = tx.datasets.add_push(
            project_id=home.project.id,
            name=request.name,
            source=request.source,
            created_by=caller.user_id,
            now=ctx.clock(),
        )
    folder(ctx, project, found.id).mkdir(parents=True, exist_ok=True)
    return PushView(
        id=found.id,
        project=project,
        name=found.name,
        direct=home.store.direct_host is not None,
        direct_host=home.store.direct_host,
        pack_bytes=rules.PACK_BYTES,
        large_bytes=rules.LARGE_BYTES,
        part_bytes=rules.PART_BYTES,
    )


def folder(ctx: Services, project: str, push_id: int) -> Path:
    """What a push holds on the server before it is published: rows, and bodies on their way in."""
    return ctx.project_folder(project) / "pushes" / str(push_id)


def receiving(ctx: Services, caller: Caller, project: str, push_id: int) -> Path:
    """The folder that a body is taken into. Raises unless the caller may push there: asked before the body is read."""
    with ctx.store.read() as tx:
        home, found = data.push(ctx, tx, caller, project, push_id)
    require_open(found)
    into = folder(ctx, home.project.name, found.id)
    into.mkdir(parents=True, exist_ok=True)
    return into


def require_open(found: Push) -> None:
    if found.state is not PushState.OPEN:
        raise RefusedError(f"Push {found.id} is published already.", "Begin another one.", code="published")


# -- what is there


def known(ctx: Services, caller: Caller, project: str, push_id: int, request: KnownRequest) -> KnownAnswer:
    """Which of these the project holds; they are kept from then on."""
    wanted = [bytes.fromhex(c) for c in request.contents]
    with ctx.store.begin() as tx:
        home, found = data.push(ctx, tx, caller, project, push_id)
        places = tx.datasets.places(home.project.id, set(wanted))
        parts = tx.datasets.objects(home.project.id, layout.PART, set(request.parts))
        here = {name: o.id for name, o in parts.items() if o.state is ObjectState.HERE}
        ids = {p.pack_id for p in places.values() if p.pack_id is not None}
        ids.update(here.values(), *(p.parts for p in places.values()))
        tx.datasets.hold(ids, ctx.clock())
        tx.datasets.change_push(found.id, touched_at=ctx.clock())
    return KnownAnswer(
        contents=[n for n, c in enumerate(wanted) if c in places],
        parts=[n for n, p in enumerate(request.parts) if p in here],
    )


# -- what is sent


def put_pack(ctx: Services, caller: Caller, project: str, push_id: int, sha256: str, body: Path) -> ObjectView:
    """Takes a pack in. body: a file of ours. Raises UsageError when it is none, or not the one that was named."""
    found = packs.inspect(body)
    if found.sha256 != sha256:
        raise _other("pack", found.sha256, sha256)
    contents = [NewContent(content, size, offset) for content, offset, size in found.contents]

    def write(home: Home) -> None:
        # the index first: a pack that is there has one
        home.store.put_bytes(layout.index_key(project, sha256), packs.index(found.contents))
        home.store.put_file(layout.pack_key(project, sha256), body)

    return _put(ctx, caller, push_id, project, (layout.PACK, sha256, found.size), write, contents)


def put_part(
    ctx: Services, caller: Caller, project: str, push_id: int, sha256: str, body: Path, found: str
) -> ObjectView:
    """Takes a part of a large file in. found: the SHA-256 that the body has. Raises UsageError for another one."""
    if found != sha256:
        raise _other("part", found, sha256)
    return _put(
        ctx, caller, push_id, project, (layout.PART, sha256, body.stat().st_size),
        lambda home: home.store.put_file(layout.part_key(project, sha256), body), [],
    )  # fmt: skip


def _other(what: str, found: str, wanted: str) -> UsageError:
    return UsageError(
        f"The {what} has SHA-256 {found[:12]}, not {wanted[:12]}: it did not arrive whole.",
        "Send it again.",
        code="checksum",
    )


def _put(
    ctx: Services,
    caller: Caller,
    push_id: int,
    project: str,
    what: tuple[str, str, int],
    write: Callable[[Home], None],
    contents: Sequence[NewContent],
) -> ObjectView:
    """Writes one object between the two moments that make it safe; one that is here is only kept."""
    kind, name, size = what
    with ctx.store.begin() as tx:
        home, push = data.push(ctx, tx, caller, project, push_id)
        require_open(push)
        row = tx.datasets.expect(home.project.id, kind, name, bytes=size, now=ctx.clock())
        require_room(ctx, tx, home, [row])
    _require_not_removing(row)
    if row.state is not ObjectState.HERE:
        quota.write_data(ctx, home.project)
        write(home)
        _arrived(ctx, push, row, size, contents)
    return ObjectView(sha256=name, bytes=size)


def _arrived(ctx: Services, push: Push, row: StoredObject, size: int, contents: Sequence[NewContent]) -> None:
    with ctx.store.begin() as tx:
        if not tx.datasets.arrived(row.id, bytes=size, files=len(contents), now=ctx.clock()):
            raise _removing(row)
        if contents:
            tx.datasets.add_contents(push.project_id, row.id, contents)
        tx.datasets.sent(push.id, size, ctx.clock())


def require_room(ctx: Services, tx: Transaction, home: Home, rows: Sequence[StoredObject]) -> None:
    """What is there already, damaged or not, needs none."""
    new = [row for row in rows if row.state is ObjectState.ARRIVING]
    quota.require_room(ctx, tx, home.project, bytes=sum(row.bytes for row in new), files=len(new))


def _require_not_removing(row: StoredObject) -> None:
    if row.state is ObjectState.REMOVING:
        raise _removing(row)


def _removing(row: StoredObject) -> RefusedError:
    return RefusedError(f"The {row.kind} {row.name[:12]} is being removed.", "Send it again.", code="removing")


# -- what is sent straight to the store


def grants(ctx: Services, caller: Caller, project: str, push_id: int, request: GrantRequest) -> GrantAnswer:
    """A signed PUT for each of these that the project has not yet."""
    with ctx.store.begin() as tx:
        home, push = data.push(ctx, tx, caller, project, push_id)
        require_open(push)
        now = ctx.clock()
        rows = [tx.datasets.expect(home.project.id, o.kind, o.sha256, bytes=o.bytes, now=now) for o in request.objects]
        require_room(ctx, tx, home, rows)
        tx.datasets.change_push(push.id, touched_at=now)
    quota.write_data(ctx, home.project)
    for row in rows:
        _require_not_removing(row)
    return GrantAnswer(
        urls=[
            None if row.state is ObjectState.HERE else _signed(home, project, item)
            for row, item in zip(rows, request.objects, strict=True)
        ]
    )


def _signed(home: Home, project: str, item: GrantItem) -> str:
    url = home.store.sign_put(layout.keys(project, item.kind, item.sha256)[0], GRANT_SECONDS)
    if url is None:
        raise RefusedError("The store of this project signs no URLs.", "Send it to the api.", code="not_direct")
    return url


def sent(ctx: Services, caller: Caller, project: str, push_id: int, request: SentRequest) -> None:
    """Registers what was sent straight to the store, as the store has answered the client.

    Raises RefusedError (not_there) when a push's first object is not there, or not whole.
    """
    with ctx.store.read() as tx:
        home, push = data.push(ctx, tx, caller, project, push_id)
        require_open(push)
    for item in request.objects:
        _register(ctx, home, push, item)


def _register(ctx: Services, home: Home, push: Push, item: PackIndex) -> None:
    project = home.project.name
    with ctx.store.begin() as tx:
        row = tx.datasets.expect(home.project.id, item.kind, item.sha256, bytes=item.bytes, now=ctx.clock())
    _require_not_removing(row)
    if row.state is ObjectState.HERE:
        return
    contents = [(bytes.fromhex(sha256), offset, size) for sha256, offset, size in item.contents]
    if any(offset + size > item.bytes for _, offset, size in contents):
        raise UsageError(f"The index of pack {item.sha256[:12]} reaches behind its end.", "Push again.")
    if item.kind == layout.PACK:
        home.store.put_bytes(layout.index_key(project, item.sha256), packs.index(contents))
    if not push.sent_bytes:
        # the first one shows that the client's way leads to this store; from then on the store's answer to the client
        # counts, as it does for every S3 client: there are servers that read an object whole to answer a HEAD
        _require_there(home, item)
    _arrived(ctx, push, row, item.bytes, [NewContent(sha256, size, offset) for sha256, offset, size in contents])


def _require_there(home: Home, item: PackIndex) -> None:
    found = home.store.head(layout.keys(home.project.name, item.kind, item.sha256)[0])
    if found != item.bytes:
        said = "is not in the store" if found is None else f"has {found} bytes in the store, not {item.bytes}"
        raise RefusedError(f"The {item.kind} {item.sha256[:12]} {said}.", "Send it again.", code="not_there")


# -- what it is made of


def large(ctx: Services, caller: Caller, project: str, push_id: int, request: LargeRequest) -> None:
    """Makes contents of parts. Raises RefusedError (not_there) for a part that the project has not."""
    with ctx.store.begin() as tx:
        home, push = data.push(ctx, tx, caller, project, push_id)
        require_open(push)
        names = {p for f in request.files for p in f.parts}
        rows = tx.datasets.objects(home.project.id, layout.PART, names)
        here = {name: o for name, o in rows.items() if o.state is ObjectState.HERE}
        found = [_content(f, here) for f in request.files]
        tx.datasets.hold({o.id for o in here.values()}, ctx.clock())
        tx.datasets.add_contents(home.project.id, None, found)
        tx.datasets.change_push(push.id, touched_at=ctx.clock())


def _content(file: LargeFile, here: dict[str, StoredObject]) -> NewContent:
    for part in file.parts:
        if part not in here:
            raise RefusedError(f"The project has no part {part[:12]}.", "Send it again.", code="not_there")
    size = sum(here[part].bytes for part in file.parts)
    if size != file.bytes:
        raise UsageError(f"The parts of {file.sha256[:12]} have {size} bytes, the file {file.bytes}.", "Push again.")
    return NewContent(bytes.fromhex(file.sha256), file.bytes, parts=[here[p].id for p in file.parts])


def rows(ctx: Services, caller: Caller, project: str, push_id: int, request: RowsRequest) -> None:
    """Keeps rows of the version to be. Raises UsageError for a path that no version can hold, or not in its order."""
    into = receiving(ctx, caller, project, push_id)
    check_rows(request.rows)
    with tempfile.NamedTemporaryFile(dir=into, prefix=".rows-", delete=False) as out:
        out.writelines(rules.lines(request.rows))
    os.replace(out.name, into / rows_name(request.start))
    with ctx.store.begin() as tx:
        tx.datasets.change_push(push_id, touched_at=ctx.clock())


def rows_name(start: int) -> str:
    """Name of the file with the rows from number `start` on; sorted, they are in order."""
    return f"{start:012d}.rows"


def check_rows(found: Sequence[RowItem]) -> None:
    before: list[str] | None = None
    for path, _, _ in found:
        if fault := rules.path_fault(path):
            raise UsageError(f"{path!r} {fault}.", "Rename it, or leave it out.", code="path")
        before = follow(before, path)


def follow(before: list[str] | None, path: str) -> list[str]:
    """The `order` of `path`, which stands behind `before`. Raises UsageError when it does not."""
    found = rules.order(path)
    if before is not None and found <= before:
        what = "stands twice" if found == before else "is told out of order"
        raise UsageError(f"{path!r} {what}.", "Push again.", code="order")
    if before is not None and found[: len(before)] == before:
        raise UsageError(f"{'/'.join(before)!r} is a file and a folder.", "Rename one of them.", code="path")
    return found
