"""What a project's datasets take counts against its quota, together with its outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.errors import RefusedError
from headway.rules.access import Caller
from headway.services import first_start, people, pushes, quota
from headway.services.context import Services
from headway.storage.full import TargetFullError
from headway.storage.publish import publish_bytes
from headway.testing.services import Clock
from headway.wire.datasets import GrantItem, GrantRequest
from headway.wire.people import QuotaRequest

from .test_pushes import FILES, Pusher, packed, sha


def limit(ctx: Services, owner: Caller, *, more_bytes: int | None = None, more_files: int | None = None) -> None:
    """Lets the project have so much more than it has."""
    view = people.project(ctx, owner, "default")
    taken = (view.used.bytes + view.data.bytes, view.used.files + view.data.files)
    found = [None if more is None else had + more for had, more in zip(taken, (more_bytes, more_files), strict=True)]
    people.set_quota(ctx, owner, "default", QuotaRequest(quota_bytes=found[0], quota_files=found[1]))


def test_datasets_are_counted_beside_outputs(ctx: Services, member: Caller, owner: Caller) -> None:
    Pusher(ctx, member, FILES).all()
    view = people.project(ctx, owner, "default")
    assert view.used.bytes == 0
    # the pack, the manifest, the version
    assert view.data.files == 3
    assert view.data.bytes > len(packed(FILES))


def test_a_pack_over_the_quota_is_refused_and_leaves_nothing(ctx: Services, member: Caller, owner: Caller) -> None:
    Pusher(ctx, member, FILES).all()
    before = sorted(p for p in (ctx.root / "objects").rglob("*") if p.is_file())
    more = {"new": b"n" * 100_000}
    limit(ctx, owner, more_bytes=100_000)
    push = Pusher(ctx, member, more)
    with pytest.raises(RefusedError, match=r"may have .* are used \(.* by datasets\), .* more are needed") as refused:
        push.send()
    assert refused.value.code == "over_quota" and "project quota default` with --bytes" in refused.value.remedy
    assert sorted(p for p in (ctx.root / "objects").rglob("*") if p.is_file()) == before
    with ctx.store.read() as tx:
        home = tx.people.project("default")
        assert home is not None and tx.datasets.object(home.id, "pack", sha(packed(more))) is None
    # the same push goes on once there is room
    limit(ctx, owner, more_bytes=200_000)
    assert push.all().version == 2


def test_a_full_project_takes_what_needs_no_room(ctx: Services, member: Caller, owner: Caller) -> None:
    first = Pusher(ctx, member, FILES)
    view = first.all()
    limit(ctx, owner, more_bytes=0)
    again = Pusher(ctx, member, FILES)
    again.tell()
    assert again.publish() == view
    # an object that is damaged is replaced
    with ctx.store.begin() as tx:
        home = tx.people.project("default")
        assert home is not None
        row = tx.datasets.object(home.id, "pack", sha(packed(FILES)))
        assert row is not None
        tx.datasets.damage(row)
    Pusher(ctx, member, FILES).send()
    with pytest.raises(RefusedError, match="by datasets"):
        Pusher(ctx, member, FILES, name="another")


@pytest.mark.parametrize("what", ["part", "pack"])
def test_files_count_as_bytes_do(ctx: Services, member: Caller, owner: Caller, what: str) -> None:
    push = Pusher(ctx, member, FILES)
    limit(ctx, owner, more_files=0)
    with pytest.raises(RefusedError, match="0 files are used") as refused:
        push.part(b"part") if what == "part" else push.send()
    assert "--files" in refused.value.remedy


def test_granted_room_is_kept_until_the_grant_is_void(
    ctx: Services, member: Caller, owner: Caller, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushes, "_signed", lambda home, project, item: "https://store/put")
    push = Pusher(ctx, member, FILES)
    limit(ctx, owner, more_bytes=1000)

    def grant(content: bytes, size: int) -> None:
        request = GrantRequest(objects=[GrantItem(kind="part", sha256=sha(content), bytes=size)])
        pushes.grants(ctx, member, "default", push.id, request)

    grant(b"a", 600)
    # asked for again it is the same room
    grant(b"a", 600)
    with pytest.raises(RefusedError, match="600 B are used"):
        grant(b"b", 600)
    assert quota.of(ctx, "default").data() == (600, 1)
    clock.now += quota.KEPT_SECONDS + 1
    # publishers get it back without another push: by the hourly sweep
    quota.write_all(ctx)
    assert quota.of(ctx, "default").data() == (0, 0)
    grant(b"b", 600)


def test_a_manifest_over_the_quota_is_not_published(ctx: Services, member: Caller, owner: Caller) -> None:
    push = Pusher(ctx, member, FILES)
    push.send()
    push.tell()
    limit(ctx, owner, more_bytes=1)
    with pytest.raises(RefusedError, match="by datasets"):
        push.publish()
    with ctx.store.read() as tx:
        home = tx.people.project("default")
        assert home is not None and tx.datasets.versions_in(home.id) == []
    limit(ctx, owner, more_bytes=10_000)
    assert push.publish().version == 1


def test_outputs_have_what_datasets_leave(ctx: Services, member: Caller, owner: Caller) -> None:
    limit(ctx, owner, more_bytes=100_000)
    Pusher(ctx, member, FILES).all()
    project = quota.of(ctx, "default")
    left = 100_000 - project.data()[0]
    assert left < 100_000
    target = project.folder / "jobs/1/checkpoints"
    with pytest.raises(TargetFullError, match="by datasets"):
        publish_bytes(b"x" * (left + 1), target / "epoch-1.pt", kind="any", quota=project)
    publish_bytes(b"x" * left, target / "epoch-1.pt", kind="any", quota=project)
    with pytest.raises(RefusedError, match="by datasets"):
        Pusher(ctx, member, {"y": b"y"}).send()


def test_the_datasets_share_that_a_crash_left_behind_is_mended_at_the_next_start(
    ctx: Services, member: Caller, owner: Caller, tmp_path: Path
) -> None:
    limit(ctx, owner, more_files=100)
    Pusher(ctx, member, FILES).all()
    project = quota.of(ctx, "default")
    before = project.data()
    (project.folder / "data.json").unlink()
    first_start.ensure(ctx, admin_file=tmp_path / "admin.token", gateway_file=tmp_path / "gateway.token")
    assert project.data() == before and before[1] == 3
