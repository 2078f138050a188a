"""A push on each kind of record, and two of the same at once."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path

from headway.errors import RefusedError
from headway.rules import datasets as rules
from headway.rules.access import Caller, Role
from headway.services import people, publishing, pushes
from headway.services.context import Services
from headway.store.base import Store
from headway.testing.services import caller, open_services
from headway.wire.datasets import KnownRequest, LargeFile, LargeRequest, PublishRequest, PushRequest, RowsRequest
from headway.wire.people import QuotaRequest

#: SHA-256 of b"x"
X = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
ROWS = [("a", 1, X), ("b", 1, X)]


def push(ctx: Services, who: Caller) -> int:
    """The number of the version that it ends in."""
    mine = pushes.create(ctx, who, "default", PushRequest(name="d")).id
    path: Path = pushes.receiving(ctx, who, "default", mine) / "body"
    path.write_bytes(b"x")
    pushes.put_part(ctx, who, "default", mine, X, path, X)
    pushes.large(ctx, who, "default", mine, LargeRequest(files=[LargeFile(sha256=X, bytes=1, parts=[X])]))
    assert pushes.known(ctx, who, "default", mine, KnownRequest(contents=[X], parts=[X])).contents == [0]
    pushes.rows(ctx, who, "default", mine, RowsRequest(start=0, rows=ROWS))
    request = PublishRequest(files=2, bytes=2, digest=rules.digest(ROWS))
    return publishing.publish(ctx, who, "default", mine, request).version


def at_once(count: int, act: Callable[[], int]) -> list[int]:
    gate, found = threading.Barrier(count), list[int]()

    def body() -> None:
        gate.wait()
        found.append(act())

    threads = [threading.Thread(target=body) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_two_of_the_same_at_once_are_one_version(empty_store: Store, tmp_path: Path) -> None:
    ctx = open_services(tmp_path, empty_store)
    who = caller(ctx, "mia", Role.MEMBER)
    found = at_once(2, lambda: push(ctx, who))
    assert len(found) == 2
    assert len(set(found)) == 1
    assert push(ctx, who) == found[0]


def test_two_at_once_do_not_take_the_same_room(empty_store: Store, tmp_path: Path) -> None:
    ctx = open_services(tmp_path, empty_store)
    who, owner = caller(ctx, "mia", Role.MEMBER), caller(ctx, "olga", Role.OWNER)
    people.set_quota(ctx, owner, "default", QuotaRequest(quota_bytes=1000))
    mine = pushes.create(ctx, who, "default", PushRequest(name="d")).id
    names = iter("abcd")

    def part() -> int:
        content = next(names).encode() * 600
        sha256 = hashlib.sha256(content).hexdigest()
        path: Path = pushes.receiving(ctx, who, "default", mine) / sha256
        path.write_bytes(content)
        try:
            return pushes.put_part(ctx, who, "default", mine, sha256, path, sha256).bytes
        except RefusedError as refused:
            assert refused.code == "over_quota"
            return 0

    assert sorted(at_once(4, part)) == [0, 0, 0, 600]
    assert people.project(ctx, owner, "default").data.bytes == 600
