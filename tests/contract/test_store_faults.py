"""Real servers' refusals, each told by its cause, and never with what is secret."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.errors import UsageError
from headway.storage import secrets
from headway.storage.objects import MissingObjectError, ObjectStore, StoreFault, open_access
from headway.storage.objects.faults import Fault
from headway.testing.s3servers import S3Server
from headway.testing.swift_all_in_one import free_port

WRONG = "wrong-secret-of-a-test"


@pytest.fixture(params=["rclone", "swift"])
def server(request: pytest.FixtureRequest) -> S3Server:
    found: S3Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def key(tmp_path: Path) -> Path:
    secrets.ensure_key(tmp_path / "key")
    return tmp_path / "key"


def calls(store: ObjectStore, *, but: str = "") -> dict[str, Callable[[], object]]:
    found: dict[str, Callable[[], object]] = {
        "list": lambda: list(store.details()),
        "read": lambda: store.get_bytes("a/b"),
        "stream": lambda: store.stream("a/b", 1, 2),
        "write": lambda: store.put_bytes("a/b", b"x"),
    }
    return {k: v for k, v in found.items() if k != but}


def refused(call: Callable[[], object], *hidden: str) -> StoreFault:
    """The fault; what is hidden stands nowhere in it, not even in its traceback."""
    with pytest.raises(StoreFault) as caught:
        call()
    told = "".join(traceback.format_exception(caught.value, chain=True))
    assert not [h for h in hidden if h in told]
    return caught.value


def test_a_wrong_secret(server: S3Server, key: Path) -> None:
    store = open_access(server.access(key, secret_access_key=WRONG), key)
    for call in calls(store).values():
        assert refused(call, WRONG).fault is Fault.WRONG_KEY


def test_a_key_that_is_not_known(server: S3Server, key: Path) -> None:
    store = open_access(server.access(key, access_key_id="nobody:nobody"), key)
    for call in calls(store).values():
        assert refused(call, server.secret).fault is Fault.WRONG_KEY


def test_a_bucket_that_is_not_there(server: S3Server, key: Path) -> None:
    store = open_access(server.access(key, "s3://nothing-here/x"), key)
    for call in calls(store).values():
        fault = refused(call, server.secret)
        assert fault.fault is Fault.NO_BUCKET
        assert "nothing-here" in fault.message


def test_a_key_that_may_only_read(swift: S3Server, key: Path) -> None:
    assert swift.reader is not None
    owner = open_access(swift.access(key, f"s3://{swift.shown_bucket}/x"), key)
    owner.put_bytes("a/b", b"0123")
    name, secret = swift.reader
    access = swift.access(key, f"s3://{swift.shown_bucket}/x", access_key_id=name, secret_access_key=secret)
    store = open_access(access, key)
    assert [s.key for s in store.details()] == ["a/b"]
    assert store.get_bytes("a/b") == b"0123"
    written = refused(lambda: store.put_bytes("a/b", b"x"), secret)
    assert (written.fault, written.doing) == (Fault.NOT_ALLOWED, "write an object")
    removed = refused(lambda: store.delete("a/b"), secret)
    assert (removed.fault, removed.doing) == (Fault.NOT_ALLOWED, "delete an object")
    assert owner.get_bytes("a/b") == b"0123"


def test_a_key_that_may_not_list(swift: S3Server, key: Path) -> None:
    assert swift.reader is not None
    name, secret = swift.reader
    store = open_access(swift.access(key, access_key_id=name, secret_access_key=secret), key)
    listed = refused(lambda: list(store.details()), secret)
    assert (listed.fault, listed.doing) == (Fault.NOT_ALLOWED, "list objects")


def at(server: S3Server, key: Path, endpoint: str) -> ObjectStore:
    access = server.access(key)
    return open_access({**access, "connection": {**access["connection"], "endpoint": endpoint}}, key)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries end at once: these places will not answer."""
    monkeypatch.setattr("headway.storage.objects.opening._MOST_RETRIES", 0)


@pytest.mark.usefixtures("impatient")
def test_endpoints_that_are_none(rclone: S3Server, key: Path) -> None:
    places = {
        f"http://127.0.0.1:{free_port()}": Fault.REFUSED,
        "http://nothing.invalid": Fault.NO_HOST,
        rclone.endpoint.replace("http://", "https://"): Fault.TLS,
    }
    for endpoint, fault in places.items():
        for call in calls(at(rclone, key, endpoint)).values():
            assert refused(call, rclone.secret).fault is fault, endpoint


def test_a_missing_object_is_no_fault(server: S3Server, key: Path) -> None:
    store = open_access(server.access(key), key)
    with pytest.raises(MissingObjectError):
        store.get_bytes("a/b")


def test_variables_of_the_process_do_not_mix_in(rclone: S3Server, key: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENDPOINT_URL", "ENDPOINT_URL_S3", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "REGION"):
        monkeypatch.setenv(f"AWS_{name}", "http://127.0.0.1:9" if "URL" in name else "of-somebody-else")
    store = open_access(rclone.access(key), key)
    store.put_bytes("a/b", b"x")
    assert store.get_bytes("a/b") == b"x"


def test_another_key_file(rclone: S3Server, key: Path, tmp_path: Path) -> None:
    access = rclone.access(key)
    assert rclone.secret not in str(access)
    secrets.ensure_key(tmp_path / "other")
    with pytest.raises(UsageError, match="does not open"):
        open_access(access, tmp_path / "other")
    with pytest.raises(UsageError, match="cannot be read"):
        open_access(access, tmp_path / "nothing")
    (tmp_path / "nonsense").write_text("nonsense")
    with pytest.raises(UsageError, match="holds no key"):
        open_access(access, tmp_path / "nonsense")


def test_a_connection_of_another_kind(rclone: S3Server, key: Path) -> None:
    with pytest.raises(UsageError, match="of kind oss"):
        open_access(rclone.access(key, "oss://bucket/x"), key)
