"""What a run finds as its data: real helpers, real disks, folders and S3 servers as stores."""

from __future__ import annotations

import json
import os
import shutil
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.protocol import columns
from headway.storage import layout
from headway.storage.cache import Cache, Limits
from headway.storage.objects import FolderStore, open_access
from headway.testing.s3servers import rclone_server

from .conftest import Helper, Home, mounted, unmounted
from .versions import make, packed, sha

Start = Callable[..., tuple[Helper, str]]

FILES = {
    "train/0/a.png": b"aaaa",
    "train/1/b.png": b"bb",
    "empty": b"",
    "again/a.png": b"aaaa",
    "中文\n.txt": b"c" * 300,
}
BIG = {"big/model.bin": bytes(range(256)) * 10}


def plan(home: Home, attempt: str, *uses: dict[str, Any], nodes: int = 1, environment: Any = None, **more: Any) -> Path:
    stores = more.pop("stores", [{"url": f"file://{home.root}/objects", "connection": None, "secret": None}])
    folder = home.plan(attempt, datasets=list(uses), stores=stores, **more)
    launch = json.loads((folder / "launch.json").read_text())
    launch |= {"nodes": [{"name": f"n{n}"} for n in range(nodes)], "environment": environment or {}}
    (folder / "launch.json").write_text(json.dumps(launch))
    return folder


@pytest.fixture
def store(home: Home) -> FolderStore:
    return FolderStore(home.root / "objects")


def tree(folder: Path) -> dict[str, bytes]:
    folder = folder.resolve()
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def index(folder: Path, channel: str = "d", node: int = 0) -> tuple[list[list[Any]], dict[str, Any]]:
    """The rows and the sources that `headway.data` finds."""
    place = folder / f"node-{node}/data" / channel
    found = columns.read(str(place / columns.FILE))
    rows: list[list[Any]] = [
        [found.path(n), found.sizes[n], found.sha256(n).hex(), found.parts.get(n) or [found.pack[n], found.offsets[n]]]
        for n in range(len(found))
    ]
    return rows, json.loads((place / "sources.json").read_text())


def logged(helper: Helper) -> str:
    return "\n".join(w["log"] for w in helper.said if "log" in w)


def test_the_files_are_there_before_the_start_and_gone_after_the_end(
    home: Home, helpers: Start, store: FolderStore
) -> None:
    folder = plan(home, "1-1", make(store, "p", FILES, large=BIG))
    helper, _ = helpers(folder)
    helper.prepared()
    assert tree(folder / "data/d") == {**FILES, **BIG}
    rows, sources = index(folder)
    assert [r[0] for r in rows] == [
        "again/a.png",
        "big/model.bin",
        "empty",
        "train/0/a.png",
        "train/1/b.png",
        "中文\n.txt",
    ]
    assert sources["root"] == str(folder / "data/d") and sources["packs"] == {}
    (folder / "data/d/train/made.txt").write_text("the folders are the run's own")
    assert "0 files" in logged(helper) and "6 (" in logged(helper) and "/s" in logged(helper)
    place = Path(os.path.realpath(folder / "data/d"))
    assert helper.end() == 0
    assert not place.exists() and not (folder / "node-0/data").exists()
    helper, _ = helpers(plan(home, "2-1", make(store, "q", FILES, large=BIG)))
    helper.prepared()
    assert "6 files" in logged(helper) and "0 (0 B) were fetched" in logged(helper)


def test_a_helper_that_takes_over_leaves_what_the_run_reads(home: Home, helpers: Start, store: FolderStore) -> None:
    folder = plan(home, "1-1", make(store, "p", FILES))
    helper, _ = helpers(folder)
    helper.prepared()
    (folder / "data/d/own.txt").write_text("kept")
    before = (folder / "data/d/train/0/a.png").stat().st_ino
    helper.kill()
    second, _ = helpers(folder)
    second.prepared()
    assert (folder / "data/d/own.txt").read_text() == "kept"
    assert (folder / "data/d/train/0/a.png").stat().st_ino == before
    assert second.end() == 0


def test_one_killed_while_it_fetches_is_gone_on_with(home: Home, helpers: Start, store: FolderStore) -> None:
    files = {f"{n}.bin": bytes([n]) * (1 << 20) for n in range(40)}
    folder = plan(home, "1-1", make(store, "p", files, pack_files=4))
    units = home.path / "cache/units"
    helper, _ = helpers(folder)
    while not list(units.glob("*/" + "?" * 64)):
        os.sched_yield()
    helper.process.send_signal(signal.SIGKILL)
    helper.process.wait(20)
    second, _ = helpers(folder)
    second.prepared()
    assert tree(folder / "data/d") == files
    assert second.end() == 0


def test_channels_and_projects_lie_apart(home: Home, helpers: Start, store: FolderStore) -> None:
    first = make(store, "p", FILES, channel="train")
    second = make(store, "p", {"x": b"1"}, name="e", channel="test")
    folder = plan(home, "1-1", first, second)
    helper, _ = helpers(folder)
    helper.prepared()
    assert tree(folder / "data/train") == FILES and tree(folder / "data/test") == {"x": b"1"}
    assert len(index(folder, "train")[0]) == 5 and len(index(folder, "test")[0]) == 1


def test_a_manifest_of_before_is_read_too(home: Home, helpers: Start, store: FolderStore) -> None:
    tar, offsets = packed({sha(b"aaaa"): b"aaaa"})
    store.put_bytes(layout.pack_key("p", sha(tar)), tar)
    file = {"path": "a/b.png", "bytes": 4, "sha256": sha(b"aaaa"), "pack": sha(tar), "offset": offsets[sha(b"aaaa")]}
    digest = sha(json.dumps([["a/b.png", 4, sha(b"aaaa")]], separators=(",", ":")).encode())
    store.put_bytes(layout.root_key("p", digest), json.dumps({"files": [file], "created": 1.0, "source": ""}).encode())
    use = {**make(store, "p", {"x": b""}), "digest": digest}
    folder = plan(home, "1-1", use)
    helper, _ = helpers(folder)
    helper.prepared()
    assert tree(folder / "data/d") == {"a/b.png": b"aaaa"}
    assert index(folder)[0] == [["a/b.png", 4, sha(b"aaaa"), [0, 512]]]


def test_nodes_of_a_gang_have_their_data_each(home: Home, helpers: Start, store: FolderStore, monkeypatch: Any) -> None:
    folder = plan(home, "1-1", make(store, "p", FILES), nodes=2)
    started = []
    for node in range(2):
        monkeypatch.setenv("NODE_RANK", str(node))
        started.append(helpers(folder)[0])
    for node, helper in enumerate(started):
        helper.prepared()
        assert tree(folder / f"node-{node}/files/d") == FILES
        assert index(folder, node=node)[1]["root"] == str(folder / f"node-{node}/files/d")
    assert started[0].end() == 0
    # they share one machine here: the other's files stay
    assert tree(folder / "node-1/files/d") == FILES
    assert started[1].end() == 0
    assert Cache(home.path / "cache").counts().misses == 5


def test_a_stream_has_sources_and_no_files(home: Home, helpers: Start, store: FolderStore) -> None:
    use = make(store, "p", FILES, large=BIG, mode="stream")
    folder = plan(home, "1-1", use)
    helper, _ = helpers(folder)
    helper.prepared()
    assert tree(folder / "data/d") == {}
    rows, sources = index(folder)
    assert len(rows) == 6 and sources["root"] is None and sources["expires"] is None
    packs = {name: Path(place["path"]).read_bytes() for name, place in sources["packs"].items()}
    assert len(packs) == 6 and all(sha(content) == name for name, content in packs.items())
    # out of the store itself: nobody looked at them on the way
    assert not any(place["checked"] for place in sources["packs"].values())
    assert not (home.path / "cache/units").exists()


def test_a_warmed_stream_reads_from_the_cache(home: Home, helpers: Start, store: FolderStore) -> None:
    use = make(store, "p", FILES, mode="stream")
    helper, _ = helpers(plan(home, "1-1", use, environment={"HEADWAY_WARM": "1"}))
    helper.prepared()
    assert helper.end() == 0
    shutil.rmtree(store.folder / "projects/p/packs")
    folder = plan(home, "2-1", use)
    second, _ = helpers(folder)
    second.prepared()
    sources = index(folder)[1]["packs"]
    assert all(Path(place["path"]).is_relative_to(home.path / "cache") for place in sources.values())
    assert all(place["checked"] for place in sources.values())
    assert all(sha(Path(place["path"]).read_bytes()) == name for name, place in sources.items())
    # pinned: nobody takes them away while it reads
    assert Cache(home.path / "cache").clear() == (0, 0)


def test_a_folder_is_read_where_it_is(home: Home, helpers: Start, store: FolderStore) -> None:
    source = home.path / "source"
    for path, content in FILES.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_bytes(content)
    use = make(store, "p", FILES, mode="link", source=f"here:{source}")
    folder = plan(home, "1-1", use)
    helper, _ = helpers(folder)
    helper.prepared()
    assert os.path.realpath(folder / "data/d") == str(source) and index(folder)[1]["root"] == str(folder / "data/d")
    assert helper.end() == 0 and tree(source) == FILES


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda source: (source / "train/0/a.png").unlink(), "train/0/a.png is not there"),
        (lambda source: (source / "train/0/a.png").write_bytes(b"aaaaa"), "has 5 bytes, not 4"),
        (lambda source: (source / "train/0/a.png").write_bytes(b"AAAA"), "train/0/a.png has another content"),
        (shutil.rmtree, "there is no such folder"),
    ],
)
def test_a_folder_that_is_not_what_was_pushed_is_refused(
    home: Home, helpers: Start, store: FolderStore, change: Callable[[Path], None], said: str
) -> None:
    source = home.path / "source"
    (source / "train/0").mkdir(parents=True)
    (source / "train/0/a.png").write_bytes(b"aaaa")
    change(source)
    use = make(store, "p", {"train/0/a.png": b"aaaa"}, mode="link", source=f"here:{source}")
    helper, _ = helpers(plan(home, "1-1", use))
    error = helper.until(lambda w: "error" in w)["error"]
    assert said in error and "d@1" in error and ":link" in error


def test_damage_in_the_store_names_the_file_and_what_to_do(home: Home, helpers: Start, store: FolderStore) -> None:
    use = make(store, "p", FILES)
    for key in list(store.list("projects/p/packs")):
        store.put_bytes(key, store.get_bytes(key).replace(b"bb", b"BB"))
    helper, _ = helpers(plan(home, "1-1", use))
    error = helper.until(lambda w: "error" in w)["error"]
    assert "d@1" in error and "train/1/b.png" in error and "headway dataset verify d@1" in error


def test_a_manifest_whose_paths_lead_out_is_refused(home: Home, helpers: Start, store: FolderStore) -> None:
    helper, _ = helpers(plan(home, "1-1", make(store, "p", {"../out": b"x"})))
    assert "'../out' does not stay inside" in helper.until(lambda w: "error" in w)["error"]
    assert not list(home.path.rglob("out"))


# -- too little room


def test_what_the_cache_has_no_room_for_is_fetched_for_the_run(home: Home, helpers: Start, store: FolderStore) -> None:
    files = {f"{n}.bin": bytes([n]) * 4000 for n in range(20)}
    folder = plan(home, "1-1", make(store, "p", files, pack_files=5), cache_limits={"bytes": 10 * 4096})
    helper, _ = helpers(folder)
    helper.prepared()
    assert tree(folder / "data/d") == files
    assert any("has no room for 10 files" in w["message"] for w in helper.events("warning"))
    state = Cache(home.path / "cache", Limits(10 * 4096)).state()
    assert state.bytes == 10 * 4096 and state.counts.refused == 10
    assert helper.end() == 0 and not (folder / "node-0/overflow").exists()


def test_a_cache_that_cannot_be_written_is_done_without(home: Home, helpers: Start, store: FolderStore) -> None:
    (home.path / "cache").write_text("no folder")
    folder = plan(home, "1-1", make(store, "p", FILES))
    helper, _ = helpers(folder)
    helper.prepared()
    assert tree(folder / "data/d") == FILES
    assert helper.end() == 0


def test_full_disks_everywhere_degrade_to_streaming(home: Home, helpers: Start, tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "elsewhere")
    files = {f"{n}.bin": bytes([n]) * 100_000 for n in range(30)}
    use = make(store, "p", files)
    disk = tmp_path / "disk"
    mounted(disk, "size=2m")
    try:
        home.root, home.project = disk / "root", disk / "root/projects/p"
        stores = [{"url": f"file://{store.folder}", "connection": None, "secret": None}]
        folder = plan(home, "1-1", use, cache=str(disk / "cache"), stores=stores)
        helper, _ = helpers(folder)
        helper.prepared()
        text = (folder / "data/d/README-headway-stream.txt").read_text()
        assert "d@1" in text and 'headway.data("d")' in text
        assert any("streamed" in w["message"] for w in helper.events("warning"))
        rows, sources = index(folder)
        assert len(rows) == 30 and sources["root"] is None and len(sources["packs"]) == 15
        assert helper.end() == 0
    finally:
        unmounted(disk)


def test_a_bucket_is_read_into_the_cache_and_streamed_by_urls(home: Home, helpers: Start, tmp_path: Path) -> None:
    with rclone_server(tmp_path / "served") as server:
        access = server.access(tmp_path / "secret.key")
        store = open_access(access, tmp_path / "secret.key")
        use = make(store, "p", FILES, large=BIG)
        given = {"stores": [access], "secret_key": str(tmp_path / "secret.key")}
        cached, streamed = plan(home, "1-1", use, **given), plan(home, "2-1", {**use, "mode": "stream"}, **given)
        for folder in (cached, streamed):
            helper, _ = helpers(folder)
            helper.prepared()
        assert tree(cached / "data/d") == {**FILES, **BIG}
        sources = index(streamed)[1]
        assert sources["expires"] > 0
        for name, place in sources["packs"].items():
            with urllib.request.urlopen(place["url"]) as answer:
                assert sha(answer.read()) == name
