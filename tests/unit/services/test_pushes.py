"""A push from its opening to a version: in any order, resumed at any step, and never half of it."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from headway.errors import HeadwayError, NotFoundError, RefusedError, UsageError
from headway.rules import datasets as rules
from headway.rules.access import Caller
from headway.rules.states import ObjectState
from headway.services import publishing, pushes
from headway.services.context import Services
from headway.storage import layout
from headway.storage.manifests import open_manifest
from headway.storage.verify import InvalidError
from headway.wire.datasets import (
    DatasetVersionView,
    KnownRequest,
    LargeFile,
    LargeRequest,
    PackIndex,
    PublishRequest,
    PushRequest,
    RowsRequest,
    SentRequest,
)

FILES = {"a/1.png": b"one", "a/1.txt": b"", "b.png": b"two" * 500, "目录/x\ny": b"three"}


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def packed(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


class Pusher:
    """What a client does, step by step."""

    def __init__(self, ctx: Services, who: Caller, files: dict[str, bytes], *, name: str = "digits") -> None:
        self.ctx, self.who, self.files = ctx, who, files
        self.rows = [(p, len(files[p]), sha(files[p])) for p in sorted(files, key=rules.order)]
        self.id = self.open(name)

    def open(self, name: str) -> int:
        return pushes.create(self.ctx, self.who, "default", PushRequest(name=name, source="here")).id

    def known(self, *contents: bytes) -> list[int]:
        request = KnownRequest(contents=[sha(c) for c in contents])
        return pushes.known(self.ctx, self.who, "default", self.id, request).contents

    def send(self, files: dict[str, bytes] | None = None, *, name: str = "") -> str:
        body = packed(self.files if files is None else files)
        path = pushes.receiving(self.ctx, self.who, "default", self.id) / "body"
        path.write_bytes(body)
        pushes.put_pack(self.ctx, self.who, "default", self.id, name or sha(body), path)
        return sha(body)

    def part(self, content: bytes) -> str:
        path = pushes.receiving(self.ctx, self.who, "default", self.id) / "body"
        path.write_bytes(content)
        pushes.put_part(self.ctx, self.who, "default", self.id, sha(content), path, sha(content))
        return sha(content)

    def tell(self, start: int = 0, stop: int | None = None) -> None:
        request = RowsRequest(start=start, rows=self.rows[start:stop])
        pushes.rows(self.ctx, self.who, "default", self.id, request)

    def publish(self) -> DatasetVersionView:
        request = PublishRequest(
            files=len(self.rows), bytes=sum(r[1] for r in self.rows), digest=rules.digest(self.rows)
        )
        return publishing.publish(self.ctx, self.who, "default", self.id, request)

    def all(self) -> DatasetVersionView:
        self.send()
        self.tell()
        return self.publish()


def contents(ctx: Services, digest: str) -> dict[str, bytes]:
    found = {}
    for row in open_manifest(ctx.objects, "default", digest).rows():
        if row.pack is not None:
            assert row.offset is not None
            body = ctx.objects.get_range(layout.pack_key("default", row.pack), row.offset, row.bytes)
        else:
            body = b"".join(ctx.objects.get_bytes(layout.part_key("default", part)) for part, _ in row.parts)
        found[row.path] = body
    return found


def test_a_push_becomes_a_version(ctx: Services, member: Caller) -> None:
    push = Pusher(ctx, member, FILES)
    assert push.known(*FILES.values()) == []
    view = push.all()
    assert (view.name, view.version, view.files, view.parents) == ("digits", 1, 4, [])
    assert view.sent_bytes == len(packed(FILES))
    assert contents(ctx, view.digest) == FILES
    # told again after a lost answer
    assert push.publish() == view
    assert push.known(*FILES.values()) == [0, 1, 2, 3]


def test_only_what_is_new_is_sent(ctx: Services, member: Caller) -> None:
    Pusher(ctx, member, FILES).all()
    more = {**FILES, "c.png": b"four"}
    push = Pusher(ctx, member, more)
    assert push.known(*more.values()) == [0, 1, 2, 3]
    push.send({"c.png": b"four"})
    push.tell()
    view = push.publish()
    assert (view.version, view.parents, view.sent_bytes) == (2, ["digits@1"], len(packed({"c.png": b"four"})))
    assert contents(ctx, view.digest) == more


def test_the_same_files_are_the_newest_version(ctx: Services, member: Caller) -> None:
    first = Pusher(ctx, member, FILES).all()
    again = Pusher(ctx, member, FILES)
    again.tell()
    assert again.publish() == first
    other = Pusher(ctx, member, {"x": b"x"}).all()
    back = Pusher(ctx, member, FILES)
    back.tell()
    assert (other.version, back.publish().version) == (2, 3)


def test_rows_are_told_in_any_order_and_again(ctx: Services, member: Caller) -> None:
    push = Pusher(ctx, member, FILES)
    push.tell(2)
    push.tell(0, 2)
    push.tell(2)
    push.send()
    assert contents(ctx, push.publish().digest) == FILES


def test_rows_that_lack_are_refused(ctx: Services, member: Caller) -> None:
    push = Pusher(ctx, member, FILES)
    push.send()
    push.tell(2)
    with pytest.raises(UsageError, match="Rows 0 and on were not told"):
        push.publish()
    push.tell(0, 1)
    with pytest.raises(UsageError, match="Rows 1 and on"):
        push.publish()
    push.tell(0, 2)
    assert push.publish().files == 4


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["a", "a"], "'a' stands twice"),
        (["b", "a"], "'a' is told out of order"),
        (["a", "a/b"], "'a' is a file and a folder"),
        (["../a"], "does not stay inside"),
        (["a//b"], "does not stay inside"),
        (["x" * 300], "too long"),
    ],
)
def test_rows_that_no_version_can_have(ctx: Services, member: Caller, paths: list[str], said: str) -> None:
    push = Pusher(ctx, member, {"a": b""})
    push.rows = [(path, 0, sha(b"")) for path in paths]
    with pytest.raises(UsageError, match=said):
        push.tell()
    push.send({"a": b""})
    with pytest.raises(UsageError):
        for at in range(len(paths)):
            push.tell(at, at + 1)
        push.publish()


def test_a_content_that_was_not_sent(ctx: Services, member: Caller) -> None:
    push = Pusher(ctx, member, FILES)
    push.send({"b.png": FILES["b.png"]})
    push.tell()
    with pytest.raises(RefusedError, match=r"no content for 'a/1.png'") as refused:
        push.publish()
    assert refused.value.code == "conflict"
    push.send()
    assert push.publish().version == 1


def test_rows_other_than_the_request_says(ctx: Services, member: Caller) -> None:
    push = Pusher(ctx, member, FILES)
    push.send()
    push.tell()
    push.rows = push.rows[:-1]
    with pytest.raises(UsageError, match="files 4, not 3"):
        push.publish()


def test_a_pack_that_is_not_what_its_name_says(ctx: Services, member: Caller) -> None:
    push = Pusher(ctx, member, FILES)
    with pytest.raises(UsageError) as refused:
        push.send(name="0" * 64)
    assert refused.value.code == "checksum"
    assert list(ctx.objects.list()) == []


@pytest.mark.parametrize("name", ["../out", "/etc/passwd"])
def test_a_pack_that_leads_outside(ctx: Services, member: Caller, name: str) -> None:
    with pytest.raises(InvalidError, match="does not stay inside"):
        Pusher(ctx, member, FILES).send({name: b"x"})
    assert list(ctx.objects.list()) == []


def test_what_was_not_sent_to_the_store_is_not_taken(ctx: Services, member: Caller) -> None:
    push = Pusher(ctx, member, FILES)
    said = PackIndex(kind="part", sha256="0" * 64, bytes=5)
    with pytest.raises(RefusedError) as refused:
        pushes.sent(ctx, member, "default", push.id, SentRequest(objects=[said]))
    assert refused.value.code == "not_there"


def test_a_large_file_is_made_of_its_parts(ctx: Services, member: Caller) -> None:
    whole = b"first" * 100 + b"second" * 100
    push = Pusher(ctx, member, {"large.bin": whole})
    parts = [push.part(b"first" * 100)]
    file = LargeFile(sha256=sha(whole), bytes=len(whole), parts=[*parts, sha(b"second" * 100)])
    with pytest.raises(RefusedError) as refused:
        pushes.large(ctx, member, "default", push.id, LargeRequest(files=[file]))
    assert refused.value.code == "not_there"
    push.part(b"second" * 100)
    pushes.large(ctx, member, "default", push.id, LargeRequest(files=[file]))
    push.tell()
    assert contents(ctx, push.publish().digest) == {"large.bin": whole}


def test_what_is_being_removed_is_sent_again_later(ctx: Services, member: Caller) -> None:
    push = Pusher(ctx, member, FILES)
    name = push.send()
    with ctx.store.begin() as tx:
        project = tx.people.project("default")
        assert project is not None
        row = tx.datasets.object(project.id, layout.PACK, name)
        assert row is not None
        assert row.state is ObjectState.HERE
        assert tx.datasets.condemn(row)
    push.tell()
    for act in (push.publish, push.send):
        with pytest.raises(RefusedError) as refused:
            act()  # type: ignore[operator]
        assert refused.value.code in ("conflict", "removing")
    with ctx.store.begin() as tx:
        tx.datasets.forget(row.id)
    assert push.all().version == 1


def test_a_push_is_its_callers(ctx: Services, member: Caller, owner: Caller, viewer: Caller) -> None:
    push = Pusher(ctx, member, FILES)
    push.who = owner
    with pytest.raises(NotFoundError):
        push.tell()
    with pytest.raises(HeadwayError):
        push.who = viewer
        push.open("digits")
    with pytest.raises(UsageError):
        Pusher(ctx, member, FILES, name="no/name")


def test_nothing_of_a_push_is_left_on_the_server(ctx: Services, member: Caller, tmp_path: Path) -> None:
    push = Pusher(ctx, member, FILES)
    folder = pushes.folder(ctx, "default", push.id)
    assert folder.is_dir()
    push.all()
    assert not folder.exists()
    kinds = {found[0] for key in ctx.objects.list() if (found := layout.named("default", key))}
    assert kinds == {layout.PACK, layout.MANIFEST, layout.VERSION}
