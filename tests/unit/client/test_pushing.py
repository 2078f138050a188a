"""A whole push, against a server that checks everything it is told."""

from __future__ import annotations

import io
import os
import random
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.client.pushing import sending
from headway.client.pushing.entries import Choice
from headway.client.pushing.progress import Progress
from headway.client.pushing.push import push
from headway.client.transport import Transport
from headway.errors import RefusedError, UsageError
from headway.rules.datasets import group
from headway.wire.datasets import DatasetVersionView

from .receiver import LARGE, PACK, PART, Receiver, receiving


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Receiver, Transport]]:
    monkeypatch.setattr(sending, "FIRST_PAUSE", 0.001)
    with receiving() as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """60 small samples of two files each, an empty file, one that is large, a copy of one."""
    made, bytes_of = tmp_path / "data", random.Random(5).randbytes
    (made / "中文").mkdir(parents=True)
    for n in range(60):
        (made / f"{n:03}.bin").write_bytes(bytes_of(3000 + n))
        (made / f"{n:03}.txt").write_text(f"label {n}")
    (made / "empty").touch()
    (made / "large.bin").write_bytes(bytes_of(PART * 3 + 77))
    (made / "中文" / "line\nend.bin").write_bytes((made / "007.bin").read_bytes())
    _age(made)
    return made


def _age(folder: Path) -> None:
    """As if nothing had been touched for a while; only so are hashes kept. Times of change cannot be set."""
    for path in folder.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))


class Pushing:
    def __init__(self, transport: Transport, cache: Path) -> None:
        self._transport, self._cache = transport, cache
        self.notes: list[str] = []
        self.told: list[Progress] = []

    def __call__(self, given: Path | str, **choice: bool) -> DatasetVersionView:
        self.notes.clear()
        self.told.clear()
        return push(
            self._transport,
            "default",
            "digits",
            given,
            choice=Choice(**choice),
            told=self.told.append,
            notes=self.notes.append,
            cache=self._cache,
        )


@pytest.fixture
def pushing(server: tuple[Receiver, Transport], tmp_path: Path) -> Pushing:
    return Pushing(server[1], tmp_path / "hashes.sqlite")


@pytest.fixture
def receiver(server: tuple[Receiver, Transport]) -> Receiver:
    return server[0]


@pytest.mark.parametrize("direct", [False, True])
def test_what_is_there_is_not_sent_again(pushing: Pushing, receiver: Receiver, folder: Path, direct: bool) -> None:
    receiver.direct = direct
    view = pushing(folder)
    assert (view.files, view.version) == (123, 1)
    assert view.source.endswith(f":{folder}")
    assert len(receiver.packs) > 2
    assert all(len(receiver.objects[p]) <= PACK for p in receiver.packs)
    assert len(receiver.bodies) == len(set(receiver.bodies)) == len(receiver.packs) + 4
    before = list(receiver.bodies)
    again = pushing(folder)
    assert (again.digest, receiver.bodies) == (view.digest, before)
    (folder / "000.txt").write_text("another label")
    assert pushing(folder).digest != view.digest
    assert receiver.packs[receiver.bodies[-1]] == ["000.txt"]
    assert len(receiver.bodies) == len(before) + 1


def test_files_of_a_sample_share_a_pack(pushing: Pushing, receiver: Receiver, folder: Path) -> None:
    pushing(folder)
    of = {name: sha for sha, names in receiver.packs.items() for name in names}
    for name in of:
        assert of[name] == of.get(f"{group(name)}.txt", of[name])


def test_progress_ends_with_everything(pushing: Pushing, folder: Path) -> None:
    pushing(folder)
    last = pushing.told[-1]
    assert (last.stage, last.files, last.of_files) == ("publish", 123, 123)
    assert last.bytes == last.of_bytes
    assert last.sent_bytes > 60 * 3000


def test_a_store_that_cannot_be_reached_is_gone_round(pushing: Pushing, receiver: Receiver, folder: Path) -> None:
    receiver.direct = True
    receiver.trouble = lambda method, path: (403, {"message": "no"}) if path.startswith("/straight") else None
    assert pushing(folder).files == 123


def test_an_answer_that_is_no_stores_is_not_believed(pushing: Pushing, receiver: Receiver, folder: Path) -> None:
    receiver.direct, receiver.tagged = True, False
    asked: list[str] = []
    receiver.trouble = lambda method, path: asked.append(path[path.rindex("/") :])
    assert pushing(folder).files == 123
    assert asked.count("/grants") <= 2
    assert asked.count("/sent") == 0


@pytest.mark.parametrize(
    ("status", "code"), [(500, "failed"), (503, "unreachable"), (409, "removing"), (429, ""), (409, "not_there")]
)
def test_what_passes_is_tried_again(pushing: Pushing, receiver: Receiver, folder: Path, status: int, code: str) -> None:
    met: set[str] = set()

    def once(method: str, path: str) -> tuple[int, dict[str, str]] | None:
        if path in met or method == "GET":
            return None
        met.add(path)
        return status, {"code": code, "message": "later"}

    receiver.trouble = once
    assert pushing(folder).files == 123


def test_a_conflict_at_the_end_pushes_again(pushing: Pushing, receiver: Receiver, folder: Path) -> None:
    met: list[str] = []

    def removed(method: str, path: str) -> tuple[int, dict[str, str]] | None:
        if not path.endswith("/publish") or met:
            return None
        met.append(path)
        gone = next(iter(receiver.packs))
        del receiver.packs[gone]
        receiver.contents.clear()
        return 409, {"code": "conflict", "message": "removed meanwhile"}

    receiver.trouble = removed
    assert pushing(folder).files == 123


def test_a_refusal_ends_it(pushing: Pushing, receiver: Receiver, folder: Path) -> None:
    receiver.trouble = lambda method, path: (409, {"code": "quota", "message": "Full."}) if "packs" in path else None
    with pytest.raises(RefusedError, match="Full"):
        pushing(folder)
    assert not receiver.versions


def test_what_was_sent_before_it_broke_is_not_sent_again(pushing: Pushing, receiver: Receiver, folder: Path) -> None:
    def late(method: str, path: str) -> tuple[int, dict[str, str]] | None:
        full = len(receiver.bodies) >= 2 and method == "PUT"
        return (409, {"code": "no_space", "message": "Full."}) if full else None

    receiver.trouble = late
    with pytest.raises(RefusedError):
        pushing(folder)
    receiver.trouble = lambda method, path: None
    pushing(folder)
    assert len(receiver.bodies) == len(set(receiver.bodies))
    held = [name for names in receiver.packs.values() for name in names]
    assert len(held) == len(set(held))


def test_a_large_file_in_the_cache_whose_parts_are_gone(pushing: Pushing, receiver: Receiver, folder: Path) -> None:
    pushing(folder)
    receiver.large.clear()
    receiver.versions.clear()
    sent = len(receiver.bodies)
    assert pushing(folder).files == 123
    assert len(receiver.bodies) == sent  # its parts were asked for, and are there


def test_a_file_that_keeps_changing(
    pushing: Pushing, receiver: Receiver, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headway.client.pushing import reading

    read, busy = reading.fill, folder / "030.bin"

    def fill(fd: int, view: memoryview, *where: object) -> bool:
        with busy.open("ab") as file:
            file.write(b"x")
        return read(fd, view, *where)  # type: ignore[arg-type]

    monkeypatch.setattr(reading, "fill", fill)
    with pytest.raises(UsageError, match=r"030\.bin changes while it is read") as refused:
        pushing(folder)
    assert refused.value.code == "changing"
    assert not receiver.versions


def test_a_file_that_changed_once_is_pushed_as_it_is_in_the_end(
    pushing: Pushing, receiver: Receiver, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headway.client.pushing import reading

    read, left = reading.fill, [folder / "large.bin", folder / "030.bin"]

    def fill(fd: int, view: memoryview, *where: object) -> bool:
        found = read(fd, view, *where)  # type: ignore[arg-type]
        at = os.readlink(f"/proc/self/fd/{fd}")
        if left and at == str(left[-1]):
            left.pop().write_bytes(b"y" * (LARGE if "large" in at else 5))
        return found

    monkeypatch.setattr(reading, "fill", fill)
    pushing(folder)
    sizes = {r[0]: r[1] for r in receiver.rows}
    assert (sizes["030.bin"], sizes["large.bin"]) == (5, LARGE)


def test_archives_and_a_folder_hold_the_same(
    pushing: Pushing, receiver: Receiver, folder: Path, tmp_path: Path
) -> None:
    digests = {pushing(folder).digest}
    for ending in ("tar", "tar.gz"):
        path = tmp_path / f"data.{ending}"
        with tarfile.open(path, "w:gz" if ending.endswith("gz") else "w") as tar:
            tar.add(folder, ".")
        digests.add(pushing(path).digest)
    assert len(digests) == 1
    assert len(receiver.bodies) == len(set(receiver.bodies))


def test_a_single_file(pushing: Pushing, receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b\n")
    pushing(tmp_path / "table.csv")
    assert [r[:2] for r in receiver.rows] == [["table.csv", 4]]


def test_a_name_that_is_none(pushing: Pushing, server: tuple[Receiver, Transport], folder: Path) -> None:
    with pytest.raises(UsageError, match="'No Name' is no name"):
        push(server[1], "default", "No Name", folder)


def test_many_files_of_one_push_take_no_memory_for_each(pushing: Pushing, receiver: Receiver, tmp_path: Path) -> None:
    """More files than a pack may hold, and than one request tells."""
    path = tmp_path / "many.tar"
    with tarfile.open(path, "w") as tar:
        for n in range(25_000):
            tar.addfile(tarfile.TarInfo(f"{n // 500}/{n}"), io.BytesIO())
    assert pushing(path).files == 25_000
    assert len(receiver.bodies) == 1  # all are the same empty content
