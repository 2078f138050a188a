"""`headway.data` over packs in files and over HTTP, over folders, with DataLoader, and what it says of damage."""

from __future__ import annotations

import http.server
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headway.errors import FailedError, NotFoundError, UsageError
from headway.script.data import data

from .channels import LARGE, some_files, tell, write_channel

FILES = {
    **some_files(50),
    "a/large.bin": b"".join(b"%09d\n" % n for n in range(LARGE)),
    "b/empty.txt": b"",
    "c/一 二\n.txt": b"three",
}


@pytest.fixture
def channel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    return tmp_path / "data" / "digits"


def read(**options: Any) -> dict[str, bytes]:
    found = {}
    for sample in data(**options):
        assert sample.path not in found
        found[sample.path] = sample.data
    return found


def names(items: Any) -> list[str]:
    return [sample.path for sample in items]


# -- where it comes from


def test_packs_and_parts_in_files(channel: Path, tmp_path: Path) -> None:
    write_channel(channel, tmp_path / "packs", FILES)
    assert read(verify=True) == FILES
    assert read(shuffle=True) == FILES
    assert read(prefix="a/") == {path: content for path, content in FILES.items() if path.startswith("a/")}
    assert {sample.label for sample in data()} == {"a", "b", "c"}


def test_files_that_a_run_finds_in_place(channel: Path, tmp_path: Path) -> None:
    write_channel(channel, tmp_path / "packs", FILES)
    place(tmp_path / "placed", FILES)
    said = f'{{"name": "digits", "version": 3, "root": "{tmp_path / "placed"}", "packs": {{}}, "expires": null}}'
    (channel / "sources.json").write_text(said)
    assert read(verify=True) == FILES


def test_a_folder_outside_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADWAY_DATA", raising=False)
    monkeypatch.delenv("DATA_PATH", raising=False)
    place(tmp_path / "digits", FILES)
    assert read(channel=str(tmp_path / "digits")) == FILES
    with pytest.raises(UsageError, match="DATA_PATH is not set"):
        data()
    with pytest.raises(NotFoundError, match="no folder 'nowhere'"):
        data("nowhere")
    monkeypatch.setenv("DATA_PATH", str(tmp_path / "digits"))
    assert read(shuffle=True) == FILES
    monkeypatch.setenv("DATA_PATH", str(tmp_path))
    assert read(channel="digits") == FILES


def place(folder: Path, files: dict[str, bytes]) -> None:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def test_channels_are_named_where_there_are_several(channel: Path, tmp_path: Path) -> None:
    write_channel(channel, tmp_path / "packs", {"a.txt": b"1"})
    write_channel(channel.parent / "val", tmp_path / "packs", {"b.txt": b"2"})
    assert read(channel="val") == {"b.txt": b"2"}
    with pytest.raises(UsageError, match="2 channels: digits, val"):
        data()
    with pytest.raises(NotFoundError, match="no channel 'test'"):
        data("test")
    with pytest.raises(NotFoundError, match=r"digits@3 has no files under 'x/'"):
        data("digits", prefix="x/")


def test_items_of_files_that_share_a_name(channel: Path, tmp_path: Path) -> None:
    files = {f"{n:03d}.{kind}": f"{n} {kind}".encode() for n in range(20) for kind in ("jpg", "cls", "seg.png")}
    held = write_channel(channel, tmp_path / "packs", files, per_pack=6)
    ours = sorted(data(group=True, shuffle=True), key=lambda item: str(item["__key__"]))
    assert ours[7] == {"__key__": "007", ".jpg": b"7 jpg", ".cls": b"7 cls", ".seg.png": b"7 seg.png"}
    webdataset = pytest.importorskip("webdataset")
    shards = sorted(str(path) for path in held.values())
    theirs = list(webdataset.WebDataset(shards, shardshuffle=False, empty_check=False))
    theirs.sort(key=lambda item: str(item["__key__"]))
    for one, other in zip(ours, theirs, strict=True):
        assert one == {
            (k if k == "__key__" else "." + k): v for k, v in other.items() if k in ("__key__", "jpg", "cls", "seg.png")
        }


def test_by_number(channel: Path, tmp_path: Path) -> None:
    write_channel(channel, tmp_path / "packs", FILES)
    by_number = data(map=True, transform=lambda sample: (sample.path, sample.data))
    assert len(by_number) == len(FILES)
    assert dict(by_number[n] for n in range(len(FILES))) == FILES
    assert by_number[-1] == by_number[len(FILES) - 1]
    with pytest.raises(IndexError):
        by_number[len(FILES)]


# -- ranks, epochs, states


def test_ranks_share_an_epoch(channel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_channel(channel, tmp_path / "packs", FILES)
    monkeypatch.setenv("WORLD_SIZE", "4")
    seen: Counter[str] = Counter()
    for rank in range(4):
        monkeypatch.setenv("RANK", str(rank))
        seen.update(names(data(shuffle=True)))
    assert seen == Counter(FILES.keys())
    with pytest.raises(UsageError, match="rank 4 of 4"):
        data(rank=4)


def test_each_epoch_has_an_order_of_its_own(channel: Path, tmp_path: Path) -> None:
    write_channel(channel, tmp_path / "packs", FILES)
    shuffled = data(shuffle=True, seed=5)
    first, second = names(shuffled), names(shuffled)
    assert first != second
    shuffled.set_epoch(0)
    assert names(shuffled) == first
    assert names(data(shuffle=True, seed=6)) != first


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_pass_goes_on_where_it_was_cut(channel: Path, tmp_path: Path, shuffle: bool) -> None:
    write_channel(channel, tmp_path / "packs", FILES)
    whole = names(data(shuffle=shuffle, window=5))
    first = data(shuffle=shuffle, window=5)
    passing = iter(first)
    seen = [next(passing).path for _ in range(20)]
    second = data(shuffle=shuffle, window=5, resume=first.state_dict())
    passing = iter(second)
    seen += [next(passing).path for _ in range(13)]
    third = data(shuffle=shuffle, window=5, resume=second.state_dict())
    assert seen + names(third) == whole
    assert third.epoch == 1
    with pytest.raises(UsageError, match="another order: items was 53 and is"):
        data(prefix="a/", shuffle=shuffle, window=5).load_state_dict(first.state_dict())


@pytest.mark.parametrize(("workers", "again"), [(0, 2), (2, 2), (1, 0)])
def test_a_loader_goes_on_where_the_script_was(channel: Path, tmp_path: Path, workers: int, again: int) -> None:
    pytest.importorskip("torch")
    write_channel(channel, tmp_path / "packs", FILES)
    loader = data(shuffle=True).loader(4, workers)
    seen: list[str] = []
    for number, batch in enumerate(loader):
        seen += names(batch)
        if number == 4:
            break
    state = loader.state_dict()
    rest = data(shuffle=True, resume=state).loader(4, again)
    for batch in rest:
        seen += names(batch)
        last = rest.state_dict()
    assert Counter(seen) == Counter(FILES.keys())
    assert [names(batch) for batch in data(shuffle=True, resume=last).loader(4)] == []
    # and the epoch after it is whole again
    assert Counter(path for batch in rest for path in names(batch)) == Counter(FILES.keys())


def test_a_dataloader_of_the_script_gets_each_item_once(channel: Path, tmp_path: Path) -> None:
    torch_data = pytest.importorskip("torch.utils.data")
    write_channel(channel, tmp_path / "packs", FILES)
    streamed = torch_data.DataLoader(data(shuffle=True), batch_size=None, num_workers=2)
    assert Counter(names(streamed)) == Counter(FILES.keys())
    mapped = torch_data.DataLoader(data(map=True), batch_size=None, num_workers=2, shuffle=True)
    assert Counter(names(mapped)) == Counter(FILES.keys())


# -- damage


def test_damage_is_named(channel: Path, tmp_path: Path) -> None:
    held = write_channel(channel, tmp_path / "packs", {"a/one.jpg": b"one", "a/two.jpg": b"two"})
    (pack,) = held.values()
    good = pack.read_bytes()
    pack.write_bytes(good.replace(b"two", b"owt"))
    with pytest.raises(FailedError, match=r"'a/two.jpg' of digits@3 cannot be read: its content is not"):
        read(verify=True)
    pack.write_bytes(good[: good.index(b"two")])
    with pytest.raises(FailedError, match=r"'a/two.jpg' of digits@3 cannot be read: 0 of 3 bytes"):
        read()
    pack.unlink()
    with pytest.raises(FailedError, match=r"'a/one.jpg' of digits@3 cannot be read: No such file"):
        read()
    (channel / "columns").write_bytes(b"nothing")
    with pytest.raises(FailedError, match=r"index in .* is damaged"):
        data()


# -- over the network


class Store(http.server.ThreadingHTTPServer):
    """Serves the packs' folder under /<token>/; what it does wrong is set by the test."""

    folder: Path
    token = "first"
    #: bytes after which each connection is cut; 0: never
    cut = 0
    ranges = True
    requests = 0


class Handler(http.server.BaseHTTPRequestHandler):
    server: Store

    def do_GET(self) -> None:
        self.server.requests += 1
        token, name = self.path.strip("/").split("/")
        if token != self.server.token:
            self.send_error(403)
            return
        whole = (self.server.folder / name).read_bytes()
        body = whole
        if self.server.ranges:
            first, last = self.headers["Range"].removeprefix("bytes=").split("-")
            body = whole[int(first) : int(last) + 1]
        self.send_response(206 if self.server.ranges else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: self.server.cut or None])

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving(folder: Path) -> Iterator[tuple[Store, str]]:
    store = Store(("127.0.0.1", 0), Handler)
    store.folder = folder
    thread = threading.Thread(target=store.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield store, f"http://127.0.0.1:{store.server_address[1]}"
    finally:
        store.shutdown()
        store.server_close()
        thread.join()


def cut(store: Store) -> None:
    store.cut = 1500


def answer_whole(store: Store) -> None:
    store.ranges = False


@pytest.mark.parametrize("fault", [lambda store: None, cut, answer_whole])
def test_packs_over_the_network(channel: Path, tmp_path: Path, fault: Callable[[Store], None]) -> None:
    with serving(tmp_path / "packs") as (store, url):
        held = write_channel(channel, tmp_path / "packs", FILES, urls=f"{url}/first")
        fault(store)
        assert read() == FILES
        if not store.cut and store.ranges:
            assert store.requests == len(held)
        assert read(shuffle=True) == FILES


def test_a_url_that_ended_is_replaced(channel: Path, tmp_path: Path) -> None:
    with serving(tmp_path / "packs") as (store, url):
        held = write_channel(channel, tmp_path / "packs", some_files(60), urls=f"{url}/first")
        passing = iter(data())
        found = {next(passing).path}
        store.token = "second"
        tell(channel, held, f"{url}/second")
        found.update(names(passing))
    assert found == some_files(60).keys()


def test_damage_in_a_store_is_named(channel: Path, tmp_path: Path) -> None:
    with serving(tmp_path / "packs") as (_, url):
        held = write_channel(channel, tmp_path / "packs", {"a/two.jpg": b"two"}, urls=f"{url}/first")
        (pack,) = held.values()
        pack.write_bytes(pack.read_bytes().replace(b"two", b"owt"))
        with pytest.raises(FailedError, match=r"'a/two.jpg' of digits@3 cannot be read: its content"):
            read()
        pack.unlink()
        pack.with_suffix(".gone").touch()
        tell(channel, {}, None)
        with pytest.raises(FailedError, match=r"'a/two.jpg' of digits@3 cannot be read: nothing says where"):
            read()
