"""Every write's errors told apart, with the real fault: before, during and after a write, and at the gate."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.helper.gate import Gate
from headway.storage import diskquota, holders, writing
from headway.storage.full import REMEDIES, TargetFullError
from headway.storage.group import Wanted, publish_cells
from headway.storage.probe import probe
from headway.storage.publish import Publication, Published, file_digest, found_folder, publish_checked, verify_folder
from headway.storage.settling import Settled, settle_cells

from . import filesystems as fs

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")

OUTPUTS = [{"name": "a.json", "kind": "json"}, {"name": "deep/b.bin", "kind": "file"}]
BIG = 1 << 20
Fault = contextlib.AbstractContextManager[Any]


class Place:
    """A target on a real file system, and the fault that can be made there."""

    def __init__(self, folder: Path, cause: str, says: str, fault: Callable[[], Fault]) -> None:
        self.target = folder / "outputs"
        self.target.mkdir()
        self.cause, self.says, self.fault = cause, says, fault


@contextlib.contextmanager
def _after(work: Callable[[], object], undo: Callable[[], object]) -> Iterator[None]:
    work()
    try:
        yield
    finally:
        undo()


@contextlib.contextmanager
def _filled(folder: Path) -> Iterator[None]:
    filler = fs.fill(folder)
    try:
        yield
    finally:
        filler.unlink()


@contextlib.contextmanager
def _no_inodes(folder: Path) -> Iterator[None]:
    used = fs.use_inodes(folder)
    try:
        yield
    finally:
        for path in used:
            path.unlink()
        (folder / "many").rmdir()


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    with fs.held_deleted(fs.fill(folder)):
        yield


Made = contextlib.AbstractContextManager[Place]
PLACES: dict[str, Callable[[Path], Made]] = {}


def place(make: Callable[[Path], Iterator[Place]]) -> Callable[[Path], Made]:
    PLACES[make.__name__] = made = contextlib.contextmanager(make)
    return made


@place
def tmpfs_space(base: Path) -> Iterator[Place]:
    with fs.tmpfs(base, "size=8m") as folder:
        yield Place(folder, "no_space", "has no space left|bytes free", lambda: _filled(folder))


@place
def ext4_space(base: Path) -> Iterator[Place]:
    with fs.ext4(base) as folder:
        yield Place(folder, "no_space", "has no space left|bytes free", lambda: _filled(folder))


@place
def tmpfs_inodes(base: Path) -> Iterator[Place]:
    with fs.tmpfs(base, "size=8m,nr_inodes=60") as folder:
        yield Place(folder, "no_inodes", "has no inodes left|inodes free", lambda: _no_inodes(folder))


@place
def ext4_inodes(base: Path) -> Iterator[Place]:
    with fs.ext4(base, "-N", "64") as folder:
        yield Place(folder, "no_inodes", "has no inodes left|inodes free", lambda: _no_inodes(folder))


@place
def btrfs_quota(base: Path) -> Iterator[Place]:
    with fs.btrfs(base) as folder:
        yield Place(folder, "over_quota", "the btrfs quota of subvolume", lambda: fs.over_limit(folder))


@place
def ext4_read_only(base: Path) -> Iterator[Place]:
    with fs.ext4(base) as folder:

        def remount(mode: str) -> Callable[[], None]:
            return lambda: fs.run("mount", "-o", f"remount,{mode}", folder)

        yield Place(folder, "read_only", "mounted read-only", lambda: _after(remount("ro"), remount("rw")))


@place
def ext4_immutable(base: Path) -> Iterator[Place]:
    with fs.ext4(base) as folder:
        target = folder / "outputs"
        fault = lambda: _after(lambda: fs.run("chattr", "+i", target), lambda: fs.run("chattr", "-i", target))  # noqa: E731
        yield Place(folder, "no_permission", r"marked as immutable \(chattr \+i\)", fault)


@place
def tmpfs_deleted_open(base: Path) -> Iterator[Place]:
    with fs.tmpfs(base, "size=8m") as folder:
        yield Place(folder, "deleted_open", "belong to deleted files that are still open in", lambda: _held(folder))


def _answering(operation: str, number: int, cause: str, says: str) -> None:
    def make(base: Path) -> Iterator[Place]:
        with fs.fuse(base) as served:
            fault = lambda: _after(lambda: served.answers(**{operation: number}), served.answers)  # noqa: E731
            yield Place(served.folder, cause, says, fault)

    make.__name__ = f"fuse_{operation}_{errno.errorcode[number]}"
    place(make)


for _operation in ("write", "fsync", "mkdir"):
    _answering(_operation, errno.EIO, "io_error", "gives input/output errors")
_answering("rename", errno.EIO, "io_error", "gives input/output errors")
_answering("write", errno.EDQUOT, "over_quota", "over a quota of its file system")
_answering("flush", errno.EDQUOT, "over_quota", "over a quota of its file system")
_answering("write", errno.ENOSPC, "no_space", "has no space left")
_answering("mkdir", errno.EMLINK, "folder_limit", "takes no more entries")
_answering("create", errno.ESTALE, "stale_handle", "is a stale handle")
_answering("write", errno.ENOTCONN, "io_error", "gives input/output errors")
_answering("write", errno.EROFS, "read_only", "mounted read-only")


@pytest.fixture(autouse=True)
def _nothing_is_known_of_a_number_that_another_mount_had() -> None:
    holders._known.clear()


@pytest.fixture(params=list(PLACES))
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    base = tmp_path / "base"
    base.mkdir()
    with PLACES[request.param](base) as made:
        yield made


def _staged(folder: Path, value: int = 1) -> Path:
    (folder / "deep").mkdir(parents=True)
    (folder / "a.json").write_text(json.dumps({"value": value}))
    (folder / "deep" / "b.bin").write_bytes(os.urandom(BIG))
    return folder


def _publish(staging: Path, target: Path) -> Publication:
    return _publisher(staging, target)()


def _publisher(staging: Path, target: Path) -> Callable[[], Publication]:
    """What a helper does once it has checked what a worker wrote."""
    files = [
        Published(output["name"], (path := staging / output["name"]).stat().st_size, file_digest(path), output["kind"])
        for output in OUTPUTS
    ]
    return lambda: publish_checked(staging, target, files, {"key": "k"}, None)


def _refused(at: Place, full: TargetFullError) -> None:
    assert full.cause == at.cause, (full.cause, full.message, full.figures)
    assert re.search(at.says, full.message), full.message
    assert full.path == str(at.target)
    assert full.remedy
    json.dumps(full.to_json())


def _only_temporaries(target: Path) -> None:
    assert [n for n in os.listdir(target) if not n.endswith(".publishing.tmp")] == []


def test_before_a_write(at: Place, tmp_path: Path) -> None:
    target = at.target / "cell"
    publish = _publisher(_staged(tmp_path / "staging"), target)
    with at.fault(), pytest.raises(TargetFullError) as fault:
        publish()
    _refused(at, fault.value)
    _only_temporaries(at.target)
    assert not publish().found
    assert verify_folder(target).files


#: a probe makes no folder, and renames nothing
_UNSEEN = ("fuse_mkdir_EIO", "fuse_mkdir_EMLINK", "fuse_rename_EIO")


@pytest.mark.parametrize("at", [name for name in PLACES if name not in _UNSEEN], indirect=True)
def test_a_probe_says_the_same(at: Place) -> None:
    with at.fault(), pytest.raises(TargetFullError) as fault:
        probe(at.target)
    _refused(at, fault.value)
    probe(at.target)


def test_during_a_write(at: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    staging, target = _staged(tmp_path / "staging"), at.target / "cell"
    copy, began = writing.copy, contextlib.ExitStack()

    def first_then_fault(source: Path, place: Path, digest: str, mode: int) -> None:
        copy(source, place, digest, mode)
        if source.name == "a.json":
            began.enter_context(at.fault())

    monkeypatch.setattr(writing, "copy", first_then_fault)
    with began, pytest.raises(TargetFullError) as fault:
        _publish(staging, target)
    _refused(at, fault.value)
    monkeypatch.undo()
    _only_temporaries(at.target)
    assert not _publish(staging, target).found
    assert verify_folder(target).files


def test_after_a_write_what_is_there_stays_and_the_next_one_waits(at: Place, tmp_path: Path) -> None:
    first = _publish(_staged(tmp_path / "one"), at.target / "one")
    publish = _publisher(_staged(tmp_path / "two", 2), at.target / "two")
    with at.fault():
        there = found_folder(at.target / "one", "k")
        assert there and there.id == first.id
        with pytest.raises(TargetFullError) as fault:
            publish()
    _refused(at, fault.value)
    assert _publish(tmp_path / "one", at.target / "one").found
    assert not publish().found


class Heard:
    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.paused, self.resumed = threading.Event(), threading.Event()

    def event(self, name: str, /, **fields: Any) -> None:
        self.events.append({"event": name, **fields})
        (self.paused if name == "paused" else self.resumed).set()

    def log(self, text: str) -> None:
        pass


def test_at_the_gate_it_goes_on_by_itself_when_the_cause_is_gone(at: Place, tmp_path: Path) -> None:
    publish = _publisher(_staged(tmp_path / "staging"), at.target / "cell")
    heard, done = Heard(), []
    gate = Gate(heard, seconds=0.05)  # type: ignore[arg-type]
    work = threading.Thread(target=lambda: done.append(gate.through(publish)))
    with at.fault():
        work.start()
        assert heard.paused.wait(20)
        assert not done
    lifted = time.monotonic()
    work.join(20)
    assert done and not done[0].found
    assert time.monotonic() - lifted < 5
    assert [e["event"] for e in heard.events] == ["paused", "resumed"]
    assert heard.events[0]["cause"] == at.cause
    assert re.search(at.says, heard.events[0]["message"])
    assert verify_folder(at.target / "cell").id == done[0].id


def test_a_group_of_cells_waits_whole_and_is_published_once(at: Place) -> None:
    rules: list[dict[str, Any]] = [{**output} for output in OUTPUTS]
    staged = settle_cells([_staged(at.target / ".staging" / str(n), n) for n in range(2)], rules)
    wanted = [Wanted(s, at.target / "row" / f"{n}", {"key": n}) for n, s in enumerate(staged) if isinstance(s, Settled)]
    assert len(wanted) == 2
    with at.fault():
        refused = publish_cells(wanted)
    # what lies there already needs so little more that it may fit even now
    for outcome in refused:
        assert isinstance(outcome, Publication) or (isinstance(outcome, TargetFullError) and outcome.cause == at.cause)
    for outcome, one in zip(publish_cells(wanted), wanted, strict=True):
        assert isinstance(outcome, Publication)
        assert verify_folder(one.target).id == outcome.id
    assert sorted(os.listdir(at.target / "row")) == ["0", "1"]


# what is told


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    staging = _staged(tmp_path / "staging")
    for above in (tmp_path / ("x" * 300), tmp_path.joinpath(*["y" * 200] * 22)):
        with pytest.raises(TargetFullError) as fault:
            _publish(staging, above / "cell")
        assert fault.value.cause == "name_too_long"
        assert fault.value.figures["path_length"] > 255
        with pytest.raises(TargetFullError) as fault:
            probe(above)
        assert fault.value.cause == "name_too_long"


def test_who_holds_deleted_files_is_named(tmp_path: Path) -> None:
    with fs.tmpfs(tmp_path, "size=8m") as folder:
        filler = fs.fill(folder)
        with fs.held_deleted(filler) as pid:
            with pytest.raises(TargetFullError) as fault:
                probe(folder)
            held = fault.value.figures["holders"]
            assert [(h["pid"], h["path"]) for h in held] == [(pid, str(filler))]
            assert held[0]["bytes"] == fault.value.figures["deleted_bytes"] > 7 << 20
            assert f"(process {pid})" in fault.value.message
            with pytest.raises(TargetFullError) as fault:
                probe(folder, bytes=1 << 20)
            assert fault.value.cause == "deleted_open"
            # closing them would not be enough
            with pytest.raises(TargetFullError) as fault:
                probe(folder, bytes=1 << 30, write=False)
            assert fault.value.cause == "no_space"
        probe(folder, bytes=1 << 20)


def test_the_figures_of_a_btrfs_quota(tmp_path: Path) -> None:
    with fs.btrfs(tmp_path) as folder:
        assert diskquota.left(folder) == []
        fs.limit(folder, 4 << 20)
        (folder / "a").write_bytes(os.urandom(1 << 20))
        os.sync()
        (left,) = diskquota.left(folder)
        assert left.name.startswith("the btrfs quota of subvolume ")
        assert 2 << 20 < (left.free_bytes or 0) < 3 << 20
        assert left.free_files is None
        assert diskquota.left(folder / "not" / "yet") == [left]
        probe(folder, bytes=1 << 20)
        with pytest.raises(TargetFullError, match=left.name) as fault:
            probe(folder, bytes=8 << 20)
        assert fault.value.cause == "over_quota"
        assert fault.value.figures["quotas"][0]["name"] == left.name


def test_a_mount_that_is_dead(tmp_path: Path) -> None:
    with fs.fuse(tmp_path) as served:
        served.answers(getattr=errno.ESTALE, statfs=errno.ESTALE, create=errno.ESTALE, mkdir=errno.ESTALE)
        with pytest.raises(TargetFullError) as fault:
            probe(served.folder / "new")
        assert fault.value.cause == "stale_handle"
        served.answers()
        probe(served.folder / "new")


def test_too_many_open_files(tmp_path: Path) -> None:
    target, heard = tmp_path / "target", Heard()
    probe(target)
    with fs.few_files():
        with pytest.raises(TargetFullError) as fault:
            probe(target)
        gate = Gate(heard, seconds=0.05)  # type: ignore[arg-type]
        work = threading.Thread(target=lambda: gate.through(lambda: probe(target)))
        work.start()
        assert heard.paused.wait(20)
    assert fault.value.cause == "too_many_open_files"
    assert fault.value.figures["limit_open_files"] == 3
    work.join(20)
    assert [e["event"] for e in heard.events] == ["paused", "resumed"]
    assert heard.events[0]["cause"] == "too_many_open_files"


def test_cells_wait_while_nothing_can_be_opened(tmp_path: Path) -> None:
    (settled,) = settle_cells([_staged(tmp_path / "staged")], [{**output} for output in OUTPUTS])
    assert isinstance(settled, Settled)
    wanted = [Wanted(settled, tmp_path / "row" / "cell", {"key": 1})]
    with fs.few_files():
        (refused,) = publish_cells(wanted)
    assert isinstance(refused, TargetFullError)
    assert refused.cause == "too_many_open_files"
    (done,) = publish_cells(wanted)
    assert isinstance(done, Publication)


@pytest.mark.campaign
def test_a_folder_whose_index_is_full(tmp_path: Path) -> None:
    with fs.ext4(tmp_path, "-b", "1024", "-N", "256", "-O", "^has_journal", size=64 << 20) as folder:
        target = folder / "outputs"
        target.mkdir()
        publish = _publisher(_staged(tmp_path / "staging"), target / ("cell" * 40))
        names = fs.crowd(target)
        with pytest.raises(TargetFullError) as fault:
            publish()
        assert fault.value.cause == "folder_limit", fault.value.message
        for name in names:
            (target / name).unlink()
        assert not publish().found


def test_every_cause_has_a_remedy_and_was_met_here(tmp_path: Path) -> None:
    # the last two in test_mounts and test_claims
    met = {"name_too_long", "too_many_open_files", "unmounted", "taken"}
    for name, make in PLACES.items():
        if not name.startswith("fuse_") or name in ("fuse_create_ESTALE", "fuse_write_EIO", "fuse_mkdir_EMLINK"):
            base = tmp_path / name
            base.mkdir()
            with make(base) as made:
                met.add(made.cause)
    assert met == set(REMEDIES)
