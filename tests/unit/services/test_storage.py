"""Where a project's data lies: shown, changed, checked; folders here, servers in tests/contract."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from headway.errors import ForbiddenError, NotFoundError, RefusedError, UsageError
from headway.rules.access import Caller, Role
from headway.services import datastores, storage
from headway.services.context import Services
from headway.testing.services import caller, open_services
from headway.wire.storage import StorageCheckRequest, StorageRequest


@pytest.fixture
def ctx(tmp_path: Path) -> Services:
    return replace(open_services(tmp_path), clock=time.time, region="berlin")


@pytest.fixture
def admin(ctx: Services) -> Caller:
    with ctx.store.read() as tx:
        found = next(u for u in tx.people.users() if u.is_admin)
    return Caller(found.id, found.name, True)


def test_a_project_begins_with_the_platforms_own(ctx: Services, admin: Caller) -> None:
    view = storage.show(ctx, admin, "default")
    assert (view.url, view.connection, view.region, view.regions, view.refused) == (None, None, "berlin", [], "")


def test_a_project_gets_a_folder_of_its_own(ctx: Services, admin: Caller, tmp_path: Path) -> None:
    storage.use(ctx, admin, "default", StorageRequest(url=f"file://{tmp_path}/data"))
    with ctx.store.read() as tx:
        project = tx.people.project("default")
        assert project is not None
        datastores.of(ctx, tx, project).put_bytes("a/b", b"x")
    assert (tmp_path / "data" / "a" / "b").read_bytes() == b"x"
    assert storage.use(ctx, admin, "default", StorageRequest(url="")).url is None


def test_regions_are_held_to(ctx: Services, admin: Caller, tmp_path: Path) -> None:
    view = storage.use(ctx, admin, "default", StorageRequest(regions=["bonn", "bonn"]))
    assert view.regions == ["bonn"]
    assert "berlin" in view.refused
    with pytest.raises(RefusedError) as refused:
        storage.use(ctx, admin, "default", StorageRequest(url=f"file://{tmp_path}/data"))
    assert refused.value.code == "region"
    assert storage.use(ctx, admin, "default", StorageRequest(regions=["berlin"])).refused == ""


def test_a_store_with_versions_stays(ctx: Services, admin: Caller, tmp_path: Path) -> None:
    with ctx.store.begin() as tx:
        project = tx.people.project("default")
        assert project is not None
        dataset = tx.products.add_dataset(project_id=project.id, name="digits", now=1.0)
        tx.products.add_dataset_version(
            dataset_id=dataset.id, version=1, digest="d" * 64, files=1, bytes=1, statistics={}, source="",
            created_by=admin.user_id, created_at=1.0,
        )  # fmt: skip
    with pytest.raises(RefusedError) as refused:
        storage.use(ctx, admin, "default", StorageRequest(url=f"file://{tmp_path}/data"))
    assert refused.value.code == "in_use"
    # the same again changes nothing, and regions may change
    assert storage.use(ctx, admin, "default", StorageRequest(url="", regions=["berlin"])).regions == ["berlin"]


@pytest.mark.parametrize("url", ["memory:///", "ftp://a/b", "s3://key:secret@bucket", "nonsense", "oss://bucket"])
def test_urls_that_name_no_store(ctx: Services, admin: Caller, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OSS_ACCESS_KEY_ID", raising=False)
    with pytest.raises(UsageError) as refused:
        storage.use(ctx, admin, "default", StorageRequest(url=url))
    assert "secret@" not in str(refused.value)
    assert storage.show(ctx, admin, "default").url is None


def test_a_connection_that_is_not_there(ctx: Services, admin: Caller) -> None:
    with pytest.raises(NotFoundError):
        storage.use(ctx, admin, "default", StorageRequest(url="s3://b", connection="nothing"))


def test_checks(ctx: Services, admin: Caller, tmp_path: Path) -> None:
    member = caller(ctx, "mia", Role.MEMBER)
    own = storage.check(ctx, member, "default", StorageCheckRequest())
    assert own.ok
    assert own.url == ctx.objects_url
    (tmp_path / "file").write_text("x")
    other = storage.check(ctx, admin, "default", StorageCheckRequest(url=f"file://{tmp_path}/file/data"))
    assert not other.ok
    assert [line.what for line in other.lines if not line.ok] == ["write"]


def test_who_may(ctx: Services, tmp_path: Path) -> None:
    owner, viewer = caller(ctx, "olga", Role.OWNER), caller(ctx, "vic", Role.VIEWER)
    assert storage.show(ctx, viewer, "default").project == "default"
    for call in (
        lambda: storage.use(ctx, owner, "default", StorageRequest(url=f"file://{tmp_path}/data")),
        lambda: storage.use(ctx, owner, "default", StorageRequest(regions=[])),
        lambda: storage.check(ctx, owner, "default", StorageCheckRequest(url=f"file://{tmp_path}/data")),
        lambda: storage.check(ctx, viewer, "default", StorageCheckRequest()),
    ):
        with pytest.raises(ForbiddenError):
            call()
