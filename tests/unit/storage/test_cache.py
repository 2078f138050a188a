"""The node's cache over a folder store: what is held, who gets room, what a run sees."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.storage.cache import Cache, Content, Limits, Pin, Unit
from headway.storage.cache.fill import Filled, fetch, fill
from headway.storage.cache.place import place
from headway.storage.objects import FolderStore, MissingObjectError
from headway.storage.verify import InvalidError

from . import filesystems

PAGE = 4096


class Counting(FolderStore):
    """Counts the reads; `gate` holds them up."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.reads = 0
        self.reading = threading.Event()
        self.gate = threading.Event()
        self.gate.set()

    def stream(self, key: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        self.reads += 1
        self.reading.set()
        assert self.gate.wait(20)
        return super().stream(key, start, length)


@pytest.fixture
def store(tmp_path: Path) -> Counting:
    return Counting(tmp_path / "objects")


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def pack(store: FolderStore, *contents: bytes, gap: int = 512, label: str = "") -> Unit:
    """A unit of one object with these contents, each behind a gap as in a tar."""
    whole, held = b"", []
    for number, content in enumerate(contents):
        whole += bytes(gap)
        held.append(Content(sha(content), len(content), len(whole), f"{label}{number}.bin"))
        whole += content
    key = f"projects/p/packs/{sha(whole)}.tar"
    store.put_bytes(key, whole)
    return Unit(sha(whole), ((key, None),), tuple(held))


def numbered(store: FolderStore, number: int, files: int = 1, size: int = PAGE) -> Unit:
    return pack(store, *(bytes([number, n]) * (size // 2) for n in range(files)), label=f"{number}/")


@contextlib.contextmanager
def run(cache: Cache, name: str = "1-1.0") -> Iterator[Pin]:
    pin = Pin(cache.folder, name)
    yield pin
    cache.leave(pin)


def filled(cache: Cache, store: FolderStore, pin: Pin, *units: Unit) -> Filled:
    cache.pin(pin, units)
    return fill(cache, store, units, lambda size, fetched: None)


def held(cache: Cache, unit: Unit) -> list[bytes]:
    folder = cache.unit(unit.name)
    return [folder.content(c.sha256).read_bytes() for c in unit.contents if folder.holds(c)]


def test_what_is_wanted_is_fetched_once_and_only_that(tmp_path: Path, store: Counting) -> None:
    cache = Cache(tmp_path / "cache")
    unit = pack(store, b"aaaa", b"bb", b"", b"cccc" * 100)
    part = Unit(unit.name, unit.objects, unit.contents[:2])
    with run(cache) as pin:
        first = filled(cache, store, pin, part)
        assert (first.misses, first.miss_bytes, first.hits, first.left) == (2, 6, 0, [])
        assert held(cache, unit) == [b"aaaa", b"bb"] and store.reads == 1
    with run(cache, "2-1.0") as pin:
        second = filled(cache, store, pin, unit)
        assert (second.hits, second.misses) == (2, 2)
        assert held(cache, unit) == [b"aaaa", b"bb", b"", b"cccc" * 100]
        assert filled(cache, store, pin, unit).hits == 4
    counts = cache.counts()
    assert (counts.hits, counts.misses, counts.miss_bytes) == (6, 4, 406)
    assert cache.unit(unit.name).content(unit.contents[0].sha256).stat().st_mode & 0o777 == 0o444


def test_a_large_file_is_put_together_of_its_parts(tmp_path: Path, store: Counting) -> None:
    parts = [b"x" * 1000, b"y" * 1000, b"z" * 10]
    objects = []
    for content in parts:
        key = f"projects/p/parts/{sha(content)}"
        store.put_bytes(key, content)
        objects.append((key, len(content)))
    whole = b"".join(parts)
    cache = Cache(tmp_path / "cache")
    unit = Unit(sha(whole), tuple(objects), (Content(sha(whole), len(whole), 0, "big.bin"),))
    with run(cache) as pin:
        filled(cache, store, pin, unit)
        assert held(cache, unit) == [whole]


def test_far_apart_contents_are_read_apart(tmp_path: Path, store: Counting) -> None:
    unit = pack(store, b"a" * 100, b"b" * (3 << 20), b"c" * 100)
    (tmp_path / "into").mkdir()
    wanted = [unit.contents[0], unit.contents[2]]
    assert list(fetch(store, unit, wanted, tmp_path / "into")) == wanted
    assert store.reads == 2 and len(list((tmp_path / "into").iterdir())) == 2


def test_two_runs_that_want_one_thing_fetch_it_once(tmp_path: Path, store: Counting) -> None:
    cache, unit = Cache(tmp_path / "cache"), numbered(store, 1, files=50)
    store.gate.clear()
    done: list[Filled] = []

    def one(name: str) -> None:
        with run(cache, name) as pin:
            done.append(filled(cache, store, pin, unit))

    threads = [threading.Thread(target=one, args=(f"{n}-1.0",)) for n in range(4)]
    for thread in threads:
        thread.start()
    assert store.reading.wait(20)
    store.gate.set()
    for thread in threads:
        thread.join(20)
    assert sorted(f.misses for f in done) == [0, 0, 0, 50] and sum(f.hits for f in done) == 150
    assert store.reads == 1


def test_a_content_that_was_written_to_is_fetched_again(tmp_path: Path, store: Counting) -> None:
    cache, unit = Cache(tmp_path / "cache"), pack(store, b"right", b"other")
    with run(cache) as pin:
        filled(cache, store, pin, unit)
    victim = cache.unit(unit.name).content(unit.contents[0].sha256)
    victim.chmod(0o644)
    victim.write_bytes(b"wrong")
    with run(cache, "2-1.0") as pin:
        again = filled(cache, store, pin, unit)
        assert (again.hits, again.misses, again.corrupt) == (1, 1, 1)
        assert held(cache, unit) == [b"right", b"other"]


@pytest.mark.parametrize("when", ["a week later", "after a boot"])
def test_a_content_that_rotted_is_found_when_it_is_read_anew(
    tmp_path: Path, store: Counting, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000_000.0]
    cache, unit = Cache(tmp_path / "cache", clock=lambda: now[0]), pack(store, b"right", b"other")
    with run(cache) as pin:
        filled(cache, store, pin, unit)
    victim = cache.unit(unit.name).content(unit.contents[0].sha256)
    before = victim.stat()
    victim.chmod(0o644)
    victim.write_bytes(b"wrong")
    os.utime(victim, ns=(before.st_atime_ns, before.st_mtime_ns))
    if when == "after a boot":
        note = cache.unit(unit.name).note()
        note.boot = "another"
        cache.unit(unit.name).write_note(note)
    else:
        now[0] += 8 * 86_400
    with run(cache, "2-1.0") as pin:
        again = filled(cache, store, pin, unit)
        assert (again.corrupt, again.misses) == (1, 1) and held(cache, unit) == [b"right", b"other"]
        assert filled(cache, store, pin, unit).hits == 2 and cache.counts().corrupt == 1


def test_verify_reads_all_and_removes_what_is_wrong(tmp_path: Path, store: Counting) -> None:
    cache, unit = Cache(tmp_path / "cache"), pack(store, b"right", b"other")
    with run(cache) as pin:
        filled(cache, store, pin, unit)
    assert cache.verify() == []
    victim = cache.unit(unit.name).content(unit.contents[1].sha256)
    times = victim.stat().st_mtime_ns
    victim.chmod(0o644)
    victim.write_bytes(b"OTHER")
    os.utime(victim, ns=(times, times))
    assert cache.verify() == [unit.contents[1].sha256] and held(cache, unit) == [b"right"]
    assert cache.state().files == 1


def test_bytes_in_the_store_that_are_not_the_manifests_are_named(tmp_path: Path, store: Counting) -> None:
    cache, unit = Cache(tmp_path / "cache"), pack(store, b"right", b"other", label="train/")
    path = store.folder / unit.objects[0][0]
    path.write_bytes(path.read_bytes().replace(b"other", b"OTHER"))
    with run(cache) as pin:
        with pytest.raises(InvalidError, match=r"train/1\.bin"):
            filled(cache, store, pin, unit)
        assert held(cache, unit) == [b"right"]
        path.write_bytes(path.read_bytes()[:-3])
        with pytest.raises(InvalidError, match=r"train/1\.bin"):
            filled(cache, store, pin, unit)
        path.unlink()
        with pytest.raises(MissingObjectError):
            filled(cache, store, pin, unit)


def test_the_least_recently_used_go_down_to_the_low_mark(tmp_path: Path, store: Counting) -> None:
    now = [1.0]
    cache = Cache(tmp_path / "cache", Limits(bytes=10 * PAGE, high=1.0, low=0.5), clock=lambda: now[0])
    units = [numbered(store, n, files=2) for n in range(6)]
    for unit in [*units[:5], units[0]]:
        now[0] += 1
        with run(cache) as pin:
            assert not filled(cache, store, pin, unit).left
    now[0] += 1
    with run(cache) as pin:
        # ten pages are held: two more come only when seven have gone
        assert not filled(cache, store, pin, units[5]).left
    assert [bool(held(cache, u)) for u in units] == [True, False, False, False, False, True]
    counts = cache.counts()
    assert (counts.evicted_units, counts.evicted_bytes) == (4, 8 * PAGE)
    assert cache.state().bytes == 4 * PAGE


def test_what_a_live_run_uses_stays(tmp_path: Path, store: Counting) -> None:
    cache = Cache(tmp_path / "cache", Limits(bytes=4 * PAGE))
    mine, yours = numbered(store, 1, files=4), numbered(store, 2, files=4)
    with run(cache, "1-1.0") as pin:
        assert not filled(cache, store, pin, mine).left
        with run(cache, "2-1.0") as other:
            assert filled(cache, store, other, yours).left == [yours]
            assert len(held(cache, mine)) == 4 and held(cache, yours) == []
            assert cache.counts().refused == 4
        assert cache.clear() == (0, 0)
    with run(cache, "3-1.0") as other:
        assert not filled(cache, store, other, yours).left
        assert held(cache, mine) == []


def test_a_killed_helpers_pin_stands_while_its_runner_lives(tmp_path: Path, store: Counting) -> None:
    cache, unit = Cache(tmp_path / "cache"), numbered(store, 1)
    with run(cache, "9-1.0") as pin:
        filled(cache, store, pin, unit)
    code = f"""
from pathlib import Path
import os
from headway.protocol import identity
from headway.storage.cache import Cache, Pin, Unit
cache = Cache(Path({str(cache.folder)!r}))
runner = identity.of(os.getppid()) if RUNNER else None
cache.pin(Pin(cache.folder, "1-1.0", runner), [Unit({unit.name!r}, (), ())])
(cache.place("1-1") / "d").mkdir(parents=True, exist_ok=True)
os.kill(os.getpid(), 9)
"""
    for runner in (True, False):
        command = [sys.executable, "-c", code.replace("RUNNER", str(runner))]
        assert subprocess.run(command, timeout=30).returncode == -9
        assert cache.clear()[0] == (0 if runner else 1)
        assert cache.place("1-1").exists() is runner
    assert held(cache, unit) == []


def test_a_fill_that_was_killed_is_gone_on_with(tmp_path: Path, store: Counting) -> None:
    cache, unit = Cache(tmp_path / "cache"), numbered(store, 1, files=8, size=4 << 20)
    code = f"""
import os
from pathlib import Path
from headway.storage.cache import Cache, Content, Pin, Unit
from headway.storage.cache.fill import fill
from headway.storage.objects import FolderStore
cache = Cache(Path({str(cache.folder)!r}))
unit = {unit!r}
told = []
def tell(size, fetched):
    told.append(size)
    if len(told) == 3:
        os.kill(os.getpid(), 9)
cache.pin(Pin(cache.folder, "1-1.0"), [unit])
fill(cache, FolderStore(Path({str(store.folder)!r})), [unit], tell)
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=30).returncode == -9
    with run(cache, "1-1.0") as pin:
        again = filled(cache, store, pin, unit)
        assert (again.hits, again.misses, again.corrupt) == (3, 5, 0)
    assert cache.state().bytes == 8 * (4 << 20) and cache.state().pinned_units == 0


def test_a_disk_that_fills_meanwhile_takes_what_it_can(tmp_path: Path, store: Counting) -> None:
    with filesystems.tmpfs(tmp_path, "size=4m") as disk:
        cache = Cache(disk / "cache", Limits(bytes=1 << 30))
        units = [numbered(store, n, size=1 << 20) for n in range(3)]
        store.gate.clear()

        def fill_up() -> None:
            assert store.reading.wait(20)
            filesystems.fill(disk)
            store.gate.set()

        filler = threading.Thread(target=fill_up)
        filler.start()
        with run(cache) as pin:
            assert len(filled(cache, store, pin, *units).left) == 3
            filler.join()
            (disk / "filler").unlink()
            assert filled(cache, store, pin, *units).left == []


@pytest.mark.parametrize("options", ["size=2m", "size=64m,nr_inodes=40"])
def test_space_and_inodes_are_counted_before_the_first_byte(tmp_path: Path, store: Counting, options: str) -> None:
    with filesystems.tmpfs(tmp_path, options) as disk:
        cache = Cache(disk / "cache", Limits(high=0.9, low=0.1))
        old, new = numbered(store, 1, files=20, size=50_000), numbered(store, 2, files=25, size=50_000)
        huge = numbered(store, 3, files=60, size=50_000)
        with run(cache) as pin:
            assert not filled(cache, store, pin, old).left
        with run(cache) as pin:
            assert not filled(cache, store, pin, new).left
            assert held(cache, old) == [] and cache.counts().evicted_units == 1
            reads = store.reads
            assert filled(cache, store, pin, huge).left == [huge]
            assert store.reads == reads


def test_a_place_has_folders_of_its_own_and_files_that_cannot_be_written(tmp_path: Path, store: Counting) -> None:
    cache, unit = Cache(tmp_path / "cache"), pack(store, b"aaaa", b"bb")
    with run(cache) as pin:
        filled(cache, store, pin, unit)
        folder = cache.place("1-1") / "digits"
        names = ["train/0/a.png", "b.png", "again/a.png"]
        contents = [cache.unit(unit.name).content(unit.contents[n].sha256) for n in (0, 1, 0)]
        assert place(folder, zip(names, contents, strict=True)) is True
        assert place(folder, []) is False
        assert {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()} == {
            "train/0/a.png": b"aaaa", "again/a.png": b"aaaa", "b.png": b"bb",
        }  # fmt: skip
        assert (folder / "b.png").stat().st_mode & 0o777 == 0o444
        (folder / "train" / "notes.txt").write_text("the script's own")
        (folder / "b.png").unlink()
        assert held(cache, unit) == [b"aaaa", b"bb"]
    assert not folder.exists()


def test_where_files_can_share_blocks_what_a_script_changes_stays_with_it(tmp_path: Path, store: Counting) -> None:
    try:
        with filesystems.btrfs(tmp_path) as disk:
            cache, unit = Cache(disk / "cache"), pack(store, b"a" * 100_000)
            with run(cache) as pin:
                filled(cache, store, pin, unit)
                content = cache.unit(unit.name).content(unit.contents[0].sha256)
                folder = cache.place("1-1") / "d"
                place(folder, [("a.bin", content)])
                (folder / "a.bin").chmod(0o644)
                (folder / "a.bin").write_bytes(b"changed")
                assert held(cache, unit) == [b"a" * 100_000]
    except (AssertionError, FileNotFoundError) as error:
        if "mkfs.btrfs" in str(error):
            pytest.skip("there is no btrfs here")
        raise


def test_a_file_has_more_names_than_a_disk_allows(tmp_path: Path) -> None:
    with filesystems.ext4(tmp_path, "-N", "70000", size=96 << 20) as disk:
        content = disk / "content"
        content.write_bytes(b"")
        for number in range(65_000 - 1):
            (disk / "links").mkdir(exist_ok=True)
            os.link(content, disk / "links" / str(number))
        assert place(disk / "place", [("a", content), ("b", content)])
        assert sorted(os.listdir(disk / "place")) == ["a", "b"]


def test_several_helpers_of_one_run_place_once(tmp_path: Path) -> None:
    content = tmp_path / "content"
    content.write_bytes(b"x")
    made: list[bool] = []
    threads = [
        threading.Thread(
            target=lambda: made.append(place(tmp_path / "run" / "d", [(f"{n}", content) for n in range(99)]))
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(made) == [False, False, False, True] and len(list((tmp_path / "run" / "d").iterdir())) == 99
