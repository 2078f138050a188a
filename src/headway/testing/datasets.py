"""The contract of datasets as a suite, over any record and any store: a real api, the real client, real servers.

class TestMine(DatasetSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def record(cls): return MyStore(...)      # a record without tables
    @pytest.fixture(scope="class")
    @classmethod
    def server(cls): return S3Server(...)     # None: a folder
"""

from __future__ import annotations

import hashlib
import http.server
import io
import json
import random
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from headway.client.pushing import hashes, sending
from headway.errors import HeadwayError, NotFoundError
from headway.rules import datasets as rules
from headway.storage import layout
from headway.storage.manifests import open_manifest
from headway.store.base import Store
from headway.testing.api import Api
from headway.testing.dataset_project import LARGE, PACK, PART, Project, api_process, in_order, made, served, write
from headway.testing.s3servers import S3Server
from headway.testing.swift_all_in_one import free_port


def example(seed: int = 0) -> dict[str, bytes]:
    """About 1.7 MB: samples of an image and a label in two classes, an empty file, a copy, a large file, odd names."""
    bytes_of = random.Random(seed).randbytes
    files = {}
    for number in range(60):
        files[f"{number % 2}/{number:03}.jpg"] = bytes_of(16_000 + number)
        files[f"{number % 2}/{number:03}.txt"] = f"label {number} of {seed}".encode()
    copy = files["0/002.jpg"]
    return {**files, "empty": b"", "copy.jpg": copy, "large.bin": bytes_of(PART * 2 + 77), "中文/line\nend.txt": b"odd"}


class DatasetGround:
    """What suites over a project's data stand on."""

    @pytest.fixture(scope="class")
    @classmethod
    def server(cls) -> S3Server | None:
        """Where the data lies; None: in a folder."""
        return None

    @pytest.fixture(scope="class")
    @classmethod
    def api(cls, record: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
        with served(tmp_path_factory.mktemp("home"), record) as api:
            yield api

    @pytest.fixture
    def project(self, api: Api, server: S3Server | None, tmp_path: Path) -> Iterator[Project]:
        with made(api, tmp_path, server) as found:
            yield found

    @pytest.fixture(autouse=True)
    def _small(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Little data fills several packs, what may pass is tried again soon, and no other test's hashes are known."""
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        for name, size in (("PACK_BYTES", PACK), ("LARGE_BYTES", LARGE), ("PART_BYTES", PART)):
            monkeypatch.setattr(rules, name, size)
        monkeypatch.setattr(sending, "FIRST_PAUSE", 0.01)

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        return write(tmp_path / "data", example())


class DatasetSuite(DatasetGround):
    # what a push makes

    def test_a_push_becomes_a_version(self, project: Project, folder: Path) -> None:
        files = example()
        view = project.push(folder)
        assert (view.name, view.version, view.parents, view.created_by) == ("digits", 1, [], "mia")
        assert (view.files, view.bytes) == (len(files), sum(map(len, files.values())))
        assert view.source.endswith(f":{folder}")
        assert project.contents(view.digest) == files
        rows = [(p, len(files[p]), hashlib.sha256(files[p]).hexdigest()) for p in in_order(files)]
        assert view.digest == rules.digest(rows)
        facts = json.loads(project.store.get_bytes(layout.version_key(project.name, "digits", 1)))
        said = {k: facts[k] for k in ("digest", "files", "bytes", "parents", "created_by", "source")}
        assert said == {k: getattr(view, k) for k in said}
        checked = project.verify(1)
        assert (checked.read_files, checked.read_bytes, checked.faulty) == (view.files, view.bytes, 0)

    def test_only_what_is_missing_is_sent(
        self, project: Project, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(hashes, "_RACY", 0)
        first = project.push(folder)
        before, keys = project.line.sent, project.keys()
        assert project.push(folder) == first
        assert project.line.sent - before < PACK / 8
        assert project.keys() == keys
        write(folder, {"0/000.jpg": b"another", "0/new.jpg": b"new"})
        second = project.push(folder)
        assert (second.version, second.parents) == (2, ["digits@1"])
        assert 0 < second.sent_bytes < PACK / 8
        assert project.contents(second.digest) == {**example(), "0/000.jpg": b"another", "0/new.jpg": b"new"}
        assert project.contents(first.digest) == example()

    def test_a_content_is_stored_once(self, project: Project, folder: Path) -> None:
        project.push(folder)
        stored = project.arrived()
        assert stored < 1.1 * sum(map(len, set(example().values())))
        other = write(folder.with_name("other"), {f"b/{path}": content for path, content in example().items()})
        view = project.push(other, "other")
        assert (view.version, view.sent_bytes, project.arrived()) == (1, 0, stored)
        assert project.verify(1, "other").faulty == 0

    def test_packs_are_full_indexed_and_read_in_sequence(self, project: Project, folder: Path) -> None:
        project.push(folder)
        packs, place = project.packs(), dict[str, str]()
        for key, body in packs.items():
            assert key == layout.pack_key(project.name, hashlib.sha256(body).hexdigest())
            index = json.loads(project.store.get_bytes(key.replace(".tar", ".json")))["contents"]
            with tarfile.open(fileobj=io.BytesIO(body), mode="r|") as tar:
                members = [(m.name, m.offset_data, m.size) for m in tar]
            assert [name for name, _, _ in members] == sorted((n for n, _, _ in members), key=rules.order)
            found = [[hashlib.sha256(body[at : at + size]).hexdigest(), at, size] for _, at, size in members]
            assert index == found
            place.update({name: key for name, _, _ in members})
        sizes = sorted(map(len, packs.values()))
        assert sizes[-1] <= PACK
        assert all(size > 0.8 * PACK for size in sizes[1:])
        assert all(place[name] == place[name.replace(".jpg", ".txt")] for name in place if name.endswith(".jpg"))

    def test_webdataset_reads_packs_as_they_are(self, project: Project, folder: Path) -> None:
        webdataset = pytest.importorskip("webdataset")
        project.push(folder)
        shards = []
        for key, body in project.packs().items():
            shards.append(str(folder.with_name(Path(key).name)))
            Path(shards[-1]).write_bytes(body)
        samples = list(webdataset.WebDataset(shards, shardshuffle=False))
        found = {s["__key__"]: (s["jpg"], s["txt"]) for s in samples if "txt" in s and "jpg" in s}
        files = example()
        names = [f"{n % 2}/{n:03}" for n in range(60)]
        assert found == {n: (files[f"{n}.jpg"], files[f"{n}.txt"]) for n in names}

    def test_a_large_file_is_made_of_parts(self, project: Project, folder: Path) -> None:
        view = project.push(folder)
        row = open_manifest(project.store, project.name, view.digest).find("large.bin")
        assert row is not None
        assert [size for _, size in row.parts] == [PART, PART, 77]
        whole = [project.store.get_bytes(layout.part_key(project.name, sha256)) for sha256, _ in row.parts]
        assert [hashlib.sha256(part).hexdigest() for part in whole] == [sha256 for sha256, _ in row.parts]
        assert b"".join(whole) == example()["large.bin"]

    def test_progress_is_told(self, project: Project, folder: Path) -> None:
        view = project.push(folder)
        last = project.told[-1]
        assert (last.stage, last.files, last.bytes) == ("publish", view.files, view.bytes)
        assert (last.of_files, last.of_bytes) == (view.files, view.bytes)
        assert last.sent_bytes >= view.sent_bytes > 0
        assert next(p.bytes for p in project.told if p.stage == "send") == 0

    @pytest.mark.parametrize("kind", ["tar", "tar.gz", "url"])
    def test_archives_and_urls_hold_what_a_folder_does(self, project: Project, folder: Path, kind: str) -> None:
        archive = folder.with_name("data.tar.gz" if kind == "tar.gz" else "data.tar")
        with tarfile.open(archive, "w:gz" if kind == "tar.gz" else "w") as tar:
            tar.add(folder, ".")
        first = project.push(folder)
        with _web(archive.parent) as url:
            view = project.push(f"{url}/{archive.name}" if kind == "url" else archive, "other")
        assert (view.digest, view.sent_bytes) == (first.digest, 0)
        assert archive.name in view.source

    def test_two_of_the_same_at_once_are_one_version(self, project: Project, folder: Path) -> None:
        found: list[int] = []
        threads = [threading.Thread(target=lambda: found.append(project.push(folder).version)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [1, 1]
        assert project.numbers() == [1]
        assert project.verify(1).faulty == 0

    # interrupted

    @pytest.mark.parametrize("seed", [1, 2])
    def test_connections_cut_anywhere(self, project: Project, folder: Path, seed: int) -> None:
        cuts = random.Random(seed).sample(range(1_500_000), 3)
        project.line.cut_after(*cuts)
        view = project.push(folder)
        assert project.line.done == 3
        assert project.contents(view.digest) == example()
        # a cut costs what is under way, and no more
        whole = sum(map(len, set(example().values())))
        assert project.line.sent < 1.2 * whole + 3 * sending.CONNECTIONS * PACK

    def test_a_client_that_is_killed(self, project: Project, folder: Path) -> None:
        project.line.hold(900_000)
        with project.begin_push(folder) as process:
            assert project.line.held.wait(60)
            process.kill()
        project.line.release()
        assert project.numbers() == []
        assert project.keys("manifests") == project.keys("datasets") == []
        arrived = project.arrived()
        assert arrived > 0
        view = project.push(folder)
        assert view.version == 1
        assert view.sent_bytes <= project.arrived() - arrived + sending.CONNECTIONS * PACK
        assert project.verify(1).faulty == 0

    def test_an_api_that_is_killed(self, project: Project, folder: Path) -> None:
        with api_process(project) as (process, url):
            project.api_line.target = url
            project.line.hold(900_000)
            found: list[int] = []
            pushing = threading.Thread(target=lambda: found.append(project.push(folder).version))
            pushing.start()
            assert project.line.held.wait(60)
            process.kill()
            process.wait()
        project.api_line.target = project.api.url
        project.api_line.cut()
        project.line.release()
        pushing.join()
        assert found == [1]
        assert project.verify(1).faulty == 0

    # looked at

    def test_files_are_listed_written_out_and_pulled(self, project: Project, folder: Path, tmp_path: Path) -> None:
        files, datasets = example(), project.client.datasets
        project.push(folder)
        assert [row[0] for row in datasets.files("digits@1")] == in_order(files)
        assert [row[0] for row in datasets.files("digits", "中文")] == ["中文/line\nend.txt"]
        for path in ("large.bin", "empty", "0/004.jpg", "中文/line\nend.txt"):
            assert b"".join(datasets.cat("digits@1", path)) == files[path]
        with pytest.raises(NotFoundError, match="no file 'nothing'"):
            b"".join(datasets.cat("digits@1", "nothing"))
        into = tmp_path / "into"
        assert datasets.pull("digits@1", into).fetched_files == len(files)
        assert {str(p.relative_to(into)): p.read_bytes() for p in into.rglob("*") if p.is_file()} == files
        (into / "large.bin").unlink()
        assert datasets.pull("digits@1", into).fetched_files == 1

    def test_versions_are_compared(self, project: Project, folder: Path) -> None:
        first = project.push(folder)
        write(folder, {"0/000.txt": b"relabelled", "new.txt": b"new"})
        (folder / "1/001.jpg").rename(folder / "1/moved.jpg")
        (folder / "empty").unlink()
        second = project.push(folder)
        found = project.client.datasets.diff("digits@1", "digits@2")
        assert (found.added, found.removed, found.changed, found.moved) == (1, 1, 1, 1)
        assert found.same == first.files - 3
        assert found.new_bytes == len(b"relabelled") + len(b"new")
        assert {(c.path, c.what) for c in found.changes} == {
            ("0/000.txt", "changed"), ("1/moved.jpg", "moved"), ("empty", "removed"), ("new.txt", "added"),
        }  # fmt: skip
        assert project.client.datasets.find("digits") == second

    # damaged

    @pytest.mark.parametrize("what", ["flipped", "gone", "rows", "root"])
    def test_damage_is_found_and_the_next_push_mends_it(
        self, project: Project, folder: Path, what: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(hashes, "_RACY", 0)
        view = project.push(folder)
        # a later version counts on the same packs
        write(folder, {"zz/more.jpg": b"more"})
        later = project.push(folder)
        _hurt(project, what, later.digest)
        with pytest.raises(HeadwayError) as told:
            project.client.datasets.pull("digits@2", folder.with_name("into"))
        assert "headway dataset verify" in told.value.remedy
        found = project.verify(2)
        assert found.faulty > 0
        assert all(reason for reason in found.faults.values())
        assert project.client.datasets.versions("digits")[1].damaged
        mended = project.push(folder)
        assert (mended.version, mended.digest, mended.damaged) == (2, later.digest, False)
        assert project.verify(2).faulty == 0
        assert project.contents(later.digest) == {**example(), "zz/more.jpg": b"more"}
        (folder / "zz/more.jpg").unlink()
        again = project.push(folder)
        assert project.contents(again.digest) == example()
        assert again.digest == view.digest

    def test_a_push_mends_every_version_that_holds_the_same(self, project: Project, folder: Path) -> None:
        view = project.push(folder)
        other = write(folder.with_name("other"), {f"b/{path}": content for path, content in example().items()})
        project.push(other, "other")
        _hurt(project, "gone", view.digest)
        before = set(project.packs())
        assert project.verify(1).faulty > 0
        datasets = project.client.datasets
        assert [datasets.versions(name)[0].damaged for name in ("digits", "other")] == [True, True]
        # by other names, so in another pack
        assert project.push(other, "other").version == 1
        assert len(set(project.packs()) - before) == 1
        assert [datasets.versions(name)[0].damaged for name in ("digits", "other")] == [False, False]
        assert project.verify(1).faulty == project.verify(1, "other").faulty == 0
        assert project.contents(view.digest) == example()

    def test_a_sample_of_all_finds_what_the_whole_does(self, project: Project, folder: Path) -> None:
        view = project.push(folder)
        _hurt(project, "gone", view.digest)
        some = project.verify(1, sample=0.2)
        assert 0 < some.read_files < some.files
        assert 0 < project.verify(1, sample=1.0).faulty < some.files


class DirectSuite(DatasetGround):
    """Of stores over a network: bodies go straight to them."""

    def test_bodies_go_straight_to_the_store(self, project: Project, folder: Path) -> None:
        project.push(folder)
        assert project.store_line is not None
        assert project.api_line.sent < PACK / 2
        assert project.store_line.sent > project.arrived()

    def test_a_store_that_is_away_for_a_while(self, project: Project, folder: Path) -> None:
        line = project.store_line
        assert line is not None
        there, line.target = line.target, f"http://127.0.0.1:{free_port()}"
        found: list[int] = []
        pushing = threading.Thread(target=lambda: found.append(project.push(folder).version))
        pushing.start()
        for _ in range(4):
            assert line.turned_away.acquire(timeout=60)
        line.target = there
        pushing.join()
        assert found == [1]
        assert project.verify(1).faulty == 0

    def test_a_store_that_only_the_server_reaches(self, project: Project, folder: Path) -> None:
        assert project.store_line is not None
        project.store_line.barred = b"X-Amz-Signature="
        view = project.push(folder)
        assert project.api_line.sent > view.bytes
        assert project.contents(view.digest) == example()


def _hurt(project: Project, what: str, digest: str) -> None:
    """Flips a bit in a pack and in a part, or removes one of each, or a half of the manifest."""
    store = project.store
    if what in ("rows", "root"):
        store.delete((layout.rows_key if what == "rows" else layout.root_key)(project.name, digest))
        return
    for key in (min(project.packs()), project.keys("parts")[0]):
        if what == "gone":
            store.delete(key)
            continue
        body = bytearray(store.get_bytes(key))
        body[len(body) // 2] ^= 1
        store.put_bytes(key, bytes(body))


@contextmanager
def _web(folder: Path) -> Iterator[str]:
    """The folder on an HTTP server."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *about: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
