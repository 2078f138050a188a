"""Connections and the stores that projects have through them, over a real S3-compatible server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from headway.errors import ForbiddenError, NotFoundError, RefusedError, UsageError
from headway.rules.access import Caller, Role
from headway.rules.records import Project
from headway.services import connections, datastores
from headway.services.context import Services
from headway.storage.objects import StoreFault, open_access
from headway.testing.s3servers import S3Server
from headway.testing.services import caller, open_services
from headway.wire.storage import ConnectionRequest

SECRET = "headwaysecret"


@pytest.fixture
def server(rclone: S3Server) -> S3Server:
    return rclone


@pytest.fixture
def ctx(tmp_path: Path) -> Services:
    return open_services(tmp_path)


@pytest.fixture
def admin(ctx: Services) -> Caller:
    with ctx.store.read() as tx:
        found = next(u for u in tx.people.users() if u.is_admin)
    return Caller(found.id, found.name, True)


def request(server: S3Server, **changes: Any) -> ConnectionRequest:
    secret = {"access_key_id": server.key_id, "secret_access_key": server.secret}
    values: dict[str, Any] = {"kind": "s3", "endpoint": server.endpoint, "region": "berlin", "secret": secret}
    return ConnectionRequest(**{**values, **changes})


def project(ctx: Services) -> Project:
    with ctx.store.read() as tx:
        found = tx.people.project("default")
    assert found is not None
    return found


def use(ctx: Services, url: str, name: str) -> None:
    with ctx.store.begin() as tx:
        tx.connections.set_storage(project(ctx).id, url, connections.get(tx, name).id)


def test_a_secret_never_comes_back(ctx: Services, admin: Caller, server: S3Server, tmp_path: Path) -> None:
    view = connections.put(ctx, admin, "lab", request(server))
    assert view.secret
    assert SECRET not in view.model_dump_json() + str(connections.listing(ctx, admin))
    assert SECRET not in repr(request(server))
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file


def test_a_project_has_its_store_here_and_on_a_node(ctx: Services, admin: Caller, server: S3Server) -> None:
    connections.put(ctx, admin, "lab", request(server))
    use(ctx, server.url, "lab")
    with ctx.store.read() as tx:
        store = datastores.of(ctx, tx, project(ctx))
        assert datastores.of(ctx, tx, project(ctx)) is store
        access = datastores.access(ctx, tx, project(ctx))
    store.put_bytes("a/b", b"x")
    assert SECRET not in str(access)
    assert open_access(access, ctx.secret_key).get_bytes("a/b") == b"x"


def test_a_changed_secret_is_used_at_once(ctx: Services, admin: Caller, server: S3Server) -> None:
    wrong = {"access_key_id": server.key_id, "secret_access_key": "another"}
    connections.put(ctx, admin, "lab", request(server, secret=wrong))
    use(ctx, server.url, "lab")
    with ctx.store.read() as tx, pytest.raises(StoreFault):
        datastores.of(ctx, tx, project(ctx)).put_bytes("a/b", b"x")
    connections.put(ctx, admin, "lab", request(server))
    with ctx.store.read() as tx:
        datastores.of(ctx, tx, project(ctx)).put_bytes("a/b", b"x")
    # without a secret the one that is there stays
    connections.put(ctx, admin, "lab", request(server, secret=None, region="bonn"))
    with ctx.store.read() as tx:
        assert datastores.of(ctx, tx, project(ctx)).get_bytes("a/b") == b"x"


def test_without_a_storage_url_data_lies_with_the_platform(ctx: Services) -> None:
    with ctx.store.read() as tx:
        assert datastores.of(ctx, tx, project(ctx)) is ctx.objects
        access = datastores.access(ctx, tx, project(ctx))
    ctx.objects.put_bytes("a/b", b"x")
    assert open_access(access, None).get_bytes("a/b") == b"x"


def test_data_outside_a_projects_regions_is_refused(ctx: Services, admin: Caller, server: S3Server) -> None:
    connections.put(ctx, admin, "lab", request(server))
    use(ctx, server.url, "lab")
    for regions, allowed in ((["berlin"], True), (["bonn"], False), ([], True)):
        with ctx.store.begin() as tx:
            tx.connections.set_regions(project(ctx).id, regions)
        with ctx.store.read() as tx:
            for call in (datastores.of, datastores.access):
                if allowed:
                    call(ctx, tx, project(ctx))
                else:
                    with pytest.raises(RefusedError, match="bonn only") as refused:
                        call(ctx, tx, project(ctx))
                    assert refused.value.code == "region"


def test_one_in_use_stays(ctx: Services, admin: Caller, server: S3Server) -> None:
    connections.put(ctx, admin, "lab", request(server))
    use(ctx, server.url, "lab")
    with pytest.raises(RefusedError, match="default") as refused:
        connections.remove(ctx, admin, "lab")
    assert refused.value.code == "in_use"
    with ctx.store.begin() as tx:
        tx.connections.set_storage(project(ctx).id, None, None)
    connections.remove(ctx, admin, "lab")
    assert connections.listing(ctx, admin) == []
    with pytest.raises(NotFoundError):
        connections.remove(ctx, admin, "lab")


def test_only_admins(ctx: Services, server: S3Server) -> None:
    owner = caller(ctx, "olga", Role.OWNER)
    for call in (
        lambda: connections.listing(ctx, owner),
        lambda: connections.put(ctx, owner, "lab", request(server)),
        lambda: connections.remove(ctx, owner, "lab"),
    ):
        with pytest.raises(ForbiddenError):
            call()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"endpoint": "minio.lan:9000"}, "endpoint"),
        ({"endpoint": "https://key:secret@minio.lan"}, "endpoint"),
        ({"region": "Hang Zhou"}, "region"),
        ({"options": {"style": "oblique"}}, "oblique"),
        ({"secret": {"access_key_id": SecretStr("k")}}, "secret_access_key"),
        ({"secret": {"access_key_id": "k", "secret_access_key": SECRET, "sectet": SECRET}}, "sectet"),
    ],
)
def test_what_cannot_be_right(
    ctx: Services, admin: Caller, server: S3Server, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        connections.put(ctx, admin, "lab", request(server, **changes))
    assert SECRET not in str(refused.value)
    assert connections.listing(ctx, admin) == []


def test_another_kind_under_the_same_name(ctx: Services, admin: Caller, server: S3Server) -> None:
    connections.put(ctx, admin, "lab", request(server))
    with pytest.raises(RefusedError, match="of kind s3"):
        connections.put(ctx, admin, "lab", request(server, kind="oss"))
