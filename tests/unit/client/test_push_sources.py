"""What a push is given: folders, archives, files and URLs, good and bad."""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import os
import random
import socket
import tarfile
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from headway.client.pushing import archives, fetch
from headway.client.pushing.entries import Choice, Entry, Source
from headway.client.pushing.hashes import HashCache
from headway.client.pushing.packing import Pack, header
from headway.client.pushing.sources import opened, scratch_folder
from headway.errors import FailedError, UsageError
from headway.rules.datasets import order

STRANGE = [
    "a/b",
    "a.b/c",
    "a-b",
    "中文/图.png",
    "line\nend",
    "Z",
    "x" * 120 + "/" + "y" * 90,
    "n/" * 60 + "deep",
    "é.txt",
]


def paths(given: Path | str, **choice: bool) -> tuple[list[str], list[str]]:
    """What is taken of a source, and what is said about it."""
    with opened(given, Choice(**choice)) as source:
        notes = source.scan(lambda entry: None).notes
        return [e.path for e in source.entries()], notes


def read(source: Source, entry: Entry) -> bytes:
    fd = source.open(entry)
    try:
        return os.pread(fd, entry.bytes, entry.offset)
    finally:
        os.close(fd)


def contents(given: Path | str) -> dict[str, bytes]:
    with opened(given, Choice()) as source:
        source.scan(lambda entry: None)
        return {e.path: read(source, e) for e in source.entries()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    for path in STRANGE:
        (made / path).parent.mkdir(parents=True, exist_ok=True)
        (made / path).write_text(path)
    return made


# -- folders


def test_any_names_in_the_order_of_a_version(folder: Path) -> None:
    found, notes = paths(folder)
    assert found == sorted(STRANGE, key=order)
    assert notes == []
    assert contents(folder) == {p: p.encode() for p in STRANGE}


def test_hidden_ones_are_left_out_unless_asked_for(folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").touch()
    (folder / "a" / ".DS_Store").touch()
    found, notes = paths(folder)
    assert found == sorted(STRANGE, key=order)
    assert notes == ["2 hidden left out ('.git', 'a/.DS_Store'); --hidden takes them."]
    assert set(paths(folder, hidden=True)[0]) - set(STRANGE) == {".git/HEAD", "a/.DS_Store"}


def test_links(folder: Path, tmp_path: Path) -> None:
    (folder / "inside").symlink_to("Z")
    assert contents(folder)["inside"] == b"Z"
    (tmp_path / "secret").write_text("x")
    (folder / "out").symlink_to(tmp_path / "secret")
    (folder / "nowhere").symlink_to("gone")
    (folder / "round").symlink_to("round")
    (folder / "up").symlink_to("a")
    with pytest.raises(UsageError, match="4 are links that lead out") as refused:
        paths(folder)
    assert "('nowhere', 'out', 'round' and 1 more)" in refused.value.message
    assert "--skip-links" in refused.value.remedy
    found, notes = paths(folder, skip_links=True)
    assert found == sorted([*STRANGE, "inside"], key=order)
    assert "left out: 4" in notes[0]


def test_what_is_no_file(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(str(folder / "socket"))
    with pytest.raises(UsageError, match=r"2 are no files .*'pipe', 'socket'"):
        paths(folder)
    assert paths(folder, skip_unreadable=True)[0] == sorted(STRANGE, key=order)


@pytest.fixture
def nobody() -> Iterator[Path]:
    """A folder, for one who is not root: root reads everything."""
    with tempfile.TemporaryDirectory() as made:
        os.chmod(made, 0o755)
        user = os.geteuid()
        if user == 0:
            os.chown(made, 65534, -1)
            os.seteuid(65534)
        try:
            yield Path(made)
        finally:
            os.seteuid(user)


def test_what_cannot_be_read(nobody: Path) -> None:
    for name in ("b", "c/d", "e"):
        (nobody / name).parent.mkdir(exist_ok=True)
        (nobody / name).touch()
    (nobody / "b").chmod(0)
    (nobody / "c").chmod(0)
    with pytest.raises(UsageError, match=r"2 cannot be read \('b', 'c'\)"):
        paths(nobody)
    found, notes = paths(nobody, skip_unreadable=True)
    assert (found, notes) == (["e"], ["left out: 2 cannot be read ('b', 'c')."])


def test_names_that_clash_on_other_disks_are_said(folder: Path) -> None:
    (folder / "É.txt").touch()
    (folder / "a" / "B").touch()
    _, notes = paths(folder)
    assert len(notes) == 1
    assert notes[0].startswith("2 names differ from another only in case")


def test_names_that_no_version_can_hold(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    with open(os.path.join(os.fsencode(tmp_path / "d"), b"\xff\xfe"), "wb"):
        pass
    with pytest.raises(UsageError, match=r"1 have a name that is not UTF-8 \(.*xff"):
        paths(tmp_path / "d")


def test_nothing_to_push(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no files"):
        paths(tmp_path)
    (tmp_path / ".hidden").touch()
    with pytest.raises(UsageError, match="no files but 1 hidden"):
        paths(tmp_path)
    with pytest.raises(UsageError, match="There is no"):
        paths(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="is no file"):
        paths("/dev/null")


# -- archives


def tarred(path: Path, *members: tarfile.TarInfo | tuple[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for member in members:
            if isinstance(member, tuple):
                entry = tarfile.TarInfo(member[0])
                entry.size = len(member[1])
                tar.addfile(entry, io.BytesIO(member[1]))
            else:
                tar.addfile(member)
    return path


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


def zipped(path: Path, *members: tuple[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("ending", [".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2"])
def test_tars(tmp_path: Path, ending: str) -> None:
    mode = {".tar": "w", ".tar.gz": "w:gz", ".tgz": "w:gz", ".tar.xz": "w:xz", ".tar.bz2": "w:bz2"}[ending]
    path = tarred(tmp_path / f"x{ending}", *((f"./{p}", p.encode()) for p in STRANGE), ("./Z", b"later"), mode=mode)
    assert contents(path) == {**{p: p.encode() for p in STRANGE}, "Z": b"later"}
    assert paths(path)[0] == sorted(STRANGE, key=order)


def test_zips(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.zip", *((p, p.encode() * 50) for p in STRANGE), ("empty", b""), ("a/", b""))
    assert contents(path) == {**{p: p.encode() * 50 for p in STRANGE}, "empty": b""}


def test_links_in_a_tar(tmp_path: Path) -> None:
    good = [
        ("d/file", b"content"),
        special("d/sym", tarfile.SYMTYPE, "../d/hard"),
        special("d/hard", tarfile.LNKTYPE, "d/file"),
    ]
    assert contents(tarred(tmp_path / "a.tar", *good)) == dict.fromkeys(("d/file", "d/sym", "d/hard"), b"content")
    bad = [*good, special("out", tarfile.SYMTYPE, "../../etc/passwd"), special("abs", tarfile.LNKTYPE, "/etc/passwd")]
    bad += [special("loop", tarfile.SYMTYPE, "loop"), special("folder", tarfile.SYMTYPE, "d")]
    path = tarred(tmp_path / "b.tar", *bad)
    with pytest.raises(UsageError, match="4 are links that lead out"):
        paths(path)
    assert paths(path, skip_links=True)[0] == ["d/file", "d/hard", "d/sym"]


@pytest.mark.parametrize(
    ("member", "said"),
    [
        (("../up", b"x"), "lead out of it"),
        (("a/../../up", b"x"), "lead out of it"),
        (("/etc/passwd", b"x"), "lead out of it"),
        (special("dev", tarfile.CHRTYPE), "are devices or pipes"),
        (special("pipe", tarfile.FIFOTYPE), "are devices or pipes"),
        (("good/below", b"x"), "are in a folder that is a file as well"),
        (("x" * 256, b"x"), "have a name that is too long"),
    ],
)
def test_members_that_are_refused(tmp_path: Path, member: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        paths(tarred(tmp_path / "x.tar", ("good", b"x"), member))


def test_zip_members_that_lead_out(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"lead out of it \('\.\./up'\)"):
        paths(zipped(tmp_path / "x.zip", ("../up", b"x"), ("good", b"x")))


@pytest.mark.parametrize("cut", [700, 512, 100])
def test_a_tar_that_is_cut_off(tmp_path: Path, cut: int) -> None:
    path = tarred(tmp_path / "x.tar", ("a", b"x" * 600))
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(UsageError, match="is damaged"):
        paths(path)


@pytest.mark.parametrize("name", ["x.tar", "x.zip", "x.tar.gz", "x.tar.xz", "x.tar.bz2"])
def test_archives_that_are_none(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"nothing of the kind" * 100)
    with pytest.raises(UsageError, match=r"is damaged|cannot be read"):
        paths(tmp_path / name)


def test_bombs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_HARMLESS", 4 << 20)
    with pytest.raises(UsageError, match="may be a bomb"):
        paths(zipped(tmp_path / "x.zip", ("zeros", bytes(8 << 20))))
    with pytest.raises(UsageError, match="may be a bomb"):
        paths(tarred(tmp_path / "x.tar.gz", ("zeros", bytes(8 << 20)), mode="w:gz"))


def test_archives_of_other_kinds(tmp_path: Path) -> None:
    (tmp_path / "x.tar.zst").write_bytes(b"x")
    with pytest.raises(UsageError, match="of a kind that is not read"):
        paths(tmp_path / "x.tar.zst")


def test_a_tar_that_changes_meanwhile(tmp_path: Path) -> None:
    path = tarred(tmp_path / "x.tar", ("a", b"x"))
    with opened(path, Choice()) as source:
        source.scan(lambda entry: None)
        path.write_bytes(path.read_bytes() + b"more")
        with pytest.raises(UsageError, match="changed while"):
            list(source.entries())


# -- URLs

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextlib.contextmanager
def web(answer: Answer) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *about: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


BODY = random.Random(1).randbytes(3 << 20)


def give(
    handler: BaseHTTPRequestHandler, *, most: int, tag: str = '"v1"', asked: list[str], partial: int = 206
) -> None:
    """Whole or from where it was asked for, cut off after `most` bytes."""
    begin = int((handler.headers.get("Range") or "bytes=0-")[6:-1])
    asked.append(str(begin))
    handler.send_response(partial if begin else 200)
    if begin:
        handler.send_header("Content-Range", f"bytes {begin}-{len(BODY) - 1}/{len(BODY)}")
    handler.send_header("Content-Length", str(len(BODY) - begin))
    handler.send_header("ETag", tag)
    handler.end_headers()
    handler.wfile.write(BODY[begin : begin + most])


@pytest.mark.parametrize("partial", [206, 200])
def test_a_url_is_resumed_where_it_broke_off(tmp_path: Path, partial: int) -> None:
    asked: list[str] = []
    told: list[tuple[int, int]] = []
    with web(functools.partial(give, most=1 << 20, asked=asked, partial=partial)) as url:
        path = fetch.fetch(f"{url}/x/table.csv?key=secret", tmp_path, lambda *n: told.append(n), pause=0)
    assert (path.name, path.read_bytes()) == ("table.csv", BODY)
    assert len(asked) >= 3
    assert asked[0] == "0" != asked[1]
    assert told[-1] == (len(BODY), len(BODY))


def test_a_url_that_cannot_be_resumed_begins_anew(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        give(handler, most=len(BODY) if asked else 1 << 20, tag="", asked=asked)

    with web(answer) as url:
        assert fetch.fetch(f"{url}/x", tmp_path, lambda *n: None, pause=0).read_bytes() == BODY
    assert asked == ["0", "0"]


def test_a_url_that_always_breaks_off(tmp_path: Path) -> None:
    with (
        web(functools.partial(give, most=0, asked=[])) as url,
        pytest.raises(FailedError, match="could not be fetched"),
    ):
        fetch.fetch(f"{url}/x?key=secret", tmp_path, lambda *n: None, pause=0)


def test_a_url_that_gives_nothing() -> None:
    with web(lambda handler: handler.send_error(404)) as url, pytest.raises(UsageError, match="answers 404") as refused:
        paths(f"{url}/x?key=secret")
    assert "secret" not in str(refused.value)


def test_a_url_of_an_archive(tmp_path: Path) -> None:
    made = zipped(tmp_path / "x.zip", ("a/b", b"content")).read_bytes()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(made)

    with web(answer) as url:
        assert contents(f"{url}/some%20where/x.zip?key=secret") == {"a/b": b"content"}
        with opened(f"{url}/x.zip?key=secret", Choice()) as source:
            assert source.label == f"{url}/x.zip"


# -- packs


def test_packs_are_tars_and_repeat() -> None:
    def fill() -> bytes:
        pack = Pack(bytearray(1 << 16), 1 << 16)
        for path in STRANGE:
            body = path.encode() * 3
            pack.place(path, len(body))[:] = body
            pack.keep(path, len(body), path)
        pack.drop({STRANGE[0], STRANGE[4]})
        raw = bytes(pack.close())
        for content in pack.contents:
            assert raw[content.offset :][: content.bytes] == content.path.encode() * 3
        return raw

    raw = fill()
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        kept = [p for n, p in enumerate(STRANGE) if n not in (0, 4)]
        assert [m.name for m in tar] == kept
    assert fill() == raw


def test_a_pack_is_full_before_it_overflows() -> None:
    pack = Pack(bytearray(10_240), 10_240)
    fitting = next(size for size in range(10_240, 0, -1) if pack.fits("a", size))
    pack.place("a", fitting)
    pack.keep("a", fitting, "0")
    assert len(pack.close()) == 10_240
    assert len(header("a", fitting)) == 512


# -- the hash cache


def entries(folder: Path) -> list[Entry]:
    with opened(folder, Choice()) as source:
        return list(source.entries())


def test_hashes_are_known_until_a_file_changes(folder: Path, tmp_path: Path) -> None:
    base = tmp_path / "hashes.sqlite"
    before = [e._replace(stamp=e.stamp._replace(changed=0, modified=0)) for e in entries(folder) if e.stamp]
    cache = HashCache(str(folder), base)
    for number, entry in enumerate(before):
        assert cache.look(entry) is None
        cache.add(entry, f"{number:064x}")
    cache.close()
    cache = HashCache(str(folder), base)
    for _ in range(2):
        assert [cache.look(e) for e in before] == [f"{n:064x}" for n in range(len(before))]
        cache.rewind()
    stamp = before[0].stamp
    assert stamp is not None
    for other in (
        before[0]._replace(bytes=9),
        *(before[0]._replace(stamp=stamp._replace(**{k: 7})) for k in stamp._fields),
    ):
        cache.rewind()
        assert cache.look(other) is None
    cache.close()


def test_hashes_outlive_a_look_that_stops_halfway(folder: Path, tmp_path: Path) -> None:
    base = tmp_path / "hashes.sqlite"
    before = [e._replace(stamp=e.stamp._replace(changed=0, modified=0)) for e in entries(folder) if e.stamp]
    cache = HashCache(str(folder), base)
    for number, entry in enumerate(before):
        cache.add(entry, f"{number:064x}")
    cache.close()
    for _ in range(2):
        cache = HashCache(str(folder), base)
        assert cache.look(before[0]) == f"{0:064x}"
        cache.close()
        del cache
        gc.collect()  # what is left of a look ends here at the latest


def test_a_file_of_this_moment_is_not_kept(folder: Path, tmp_path: Path) -> None:
    cache = HashCache(str(folder), tmp_path / "hashes.sqlite")
    for entry in entries(folder):
        cache.add(entry, "0" * 64)
    cache.close()
    cache = HashCache(str(folder), tmp_path / "hashes.sqlite")
    assert {cache.look(e) for e in entries(folder)} == {None}
    cache.close()


def test_a_cache_that_is_broken_is_made_anew_or_done_without(folder: Path, tmp_path: Path) -> None:
    base = tmp_path / "hashes.sqlite"
    base.write_bytes(b"no database at all" * 500)
    entry = entries(folder)[0]
    old = entry._replace(stamp=entry.stamp._replace(changed=0, modified=0) if entry.stamp else None)
    for place in (base, tmp_path / "data" / "Z" / "no folder"):
        cache = HashCache(str(folder), place)
        cache.add(old, "1" * 64)
        cache.close()
    cache = HashCache(str(folder), base)
    assert cache.look(old) == "1" * 64
    cache.close()


def test_what_a_killed_push_left_is_removed_and_a_living_one_keeps_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with scratch_folder() as living:
        (living / "mine").write_bytes(b"mine")
        dead, young = tmp_path / f"{living.name}-dead", tmp_path / f"{living.name}-young"
        for folder in (dead, young):
            folder.mkdir()
            (folder / "unpacked").write_bytes(b"left")
        for folder in (dead, living):
            os.utime(folder, (1.0, 1.0))
        with scratch_folder() as other:
            assert {path.name for path in tmp_path.iterdir()} == {living.name, other.name, young.name}
        assert (living / "mine").read_bytes() == b"mine"
    assert list(tmp_path.iterdir()) == [young]


def test_a_folder_needs_no_temporary_files_and_an_archive_says_so(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tarfile.open(tmp_path / "data.tar", "w") as tar:
        tar.add(folder, ".")
    expected, _ = paths(folder)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    assert paths(folder)[0] == expected
    with pytest.raises(FailedError, match="no place for temporary files") as failed:
        paths(tmp_path / "data.tar")
    assert failed.value.code == "no_space"
