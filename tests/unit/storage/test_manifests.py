"""Manifests come back as they were written, page by page, and damage is seen."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from headway.rules import datasets as rules
from headway.storage import layout, manifests
from headway.storage.manifests import Manifest, Placed, open_manifest
from headway.storage.objects import FolderStore, MissingObjectError
from headway.storage.verify import InvalidError

EMPTY = hashlib.sha256(b"").hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "objects")


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "PAGE_ROWS", 3)


def written(store: FolderStore, tmp_path: Path, paths: list[str]) -> tuple[Manifest, list[Placed]]:
    rows = []
    with open(tmp_path / "rows", "wb") as out:
        writer = manifests.Writer(out)
        pack = writer.number("pack", "a" * 64, 9000)
        for at, path in enumerate(sorted(paths, key=rules.order)):
            if at % 4 == 3:
                numbers = [writer.number("part", c * 64, 70) for c in "bc"]
                writer.add((path, 140, EMPTY), numbers)
                rows.append(Placed(path, 140, EMPTY, None, None, (("b" * 64, 70), ("c" * 64, 70))))
            else:
                writer.add((path, at, EMPTY), pack, 512 * at)
                rows.append(Placed(path, at, EMPTY, "a" * 64, 512 * at, ()))
        root = writer.root(12.5)
    manifests.put(store, "p", root, tmp_path / "rows")
    return open_manifest(store, "p", root["digest"]), rows


PATHS = ["a", "b/c", "b/d\n", "b.txt", "目录/x", 'q"uote', "z", "b/e/f", "b/e/g"]


def test_it_comes_back(store: FolderStore, tmp_path: Path) -> None:
    manifest, rows = written(store, tmp_path, PATHS)
    assert list(manifest.rows()) == rows
    assert [row for n in range(manifest.pages) for row in manifest.page(n)] == rows
    assert manifest.pages == 3
    assert manifest.digest == rules.digest((r.path, r.bytes, r.sha256) for r in rows)
    assert (manifest.files, manifest.bytes, manifest.created) == (9, sum(r.bytes for r in rows), 12.5)
    assert [(p.kind, p.sha256, p.bytes) for p in manifest.packs] == [
        ("pack", "a" * 64, 9000), ("part", "b" * 64, 70), ("part", "c" * 64, 70),
    ]  # fmt: skip


def test_files_are_found_by_path(store: FolderStore, tmp_path: Path) -> None:
    manifest, rows = written(store, tmp_path, PATHS)
    for at, row in enumerate(rows):
        assert manifest.find(row.path) == row
        assert list(manifest.since(row.path)) == rows[at:]
        assert list(manifest.since(row.path, after=True)) == rows[at + 1 :]
    for path in ("", "0", "b", "b/", "b/dd", "zz"):
        assert manifest.find(path) is None
    assert list(manifest.since("")) == rows
    assert list(manifest.since("zz")) == [r for r in rows if rules.order(r.path) > ["zz"]]


def test_what_is_missing_or_damaged(store: FolderStore, tmp_path: Path) -> None:
    with pytest.raises(MissingObjectError):
        open_manifest(store, "p", "0" * 64)
    manifest, _ = written(store, tmp_path, PATHS)
    key = layout.rows_key("p", manifest.digest)
    whole = store.get_bytes(key)
    store.put_bytes(key, whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
    with pytest.raises(InvalidError):
        list(manifest.rows())
    with pytest.raises(InvalidError):
        manifest.page(0)
    store.put_bytes(key, whole[:-20])
    with pytest.raises(InvalidError):
        list(manifest.rows())
    root = layout.root_key("p", manifest.digest)
    for text in (b"{}", b"[]", b"nothing", json.dumps({"format": 2, "digest": "x"}).encode()):
        store.put_bytes(root, text)
        with pytest.raises(InvalidError):
            open_manifest(store, "p", manifest.digest)


def test_rows_of_another_version_are_not_taken(store: FolderStore, tmp_path: Path) -> None:
    first, _ = written(store, tmp_path, ["a", "b", "c"])
    second, _ = written(store, tmp_path, ["a", "b", "d"])
    store.put_bytes(layout.rows_key("p", first.digest), store.get_bytes(layout.rows_key("p", second.digest)))
    with pytest.raises(InvalidError):
        list(first.rows())


def test_one_of_before_is_read(store: FolderStore) -> None:
    files = [
        {"path": path, "bytes": 0, "sha256": EMPTY, "pack": "a" * 64, "offset": 512} for path in ("b.txt", "b/c", "a")
    ]
    rows = sorted([f["path"], f["bytes"], f["sha256"]] for f in files)
    digest = hashlib.sha256(json.dumps(rows, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()
    store.put_bytes(layout.root_key("p", digest), json.dumps({"files": files, "created": 1.0}).encode())
    manifest = open_manifest(store, "p", digest)
    assert [r.path for r in manifest.rows()] == ["a", "b/c", "b.txt"] == [r.path for r in manifest.page(0)]
    assert manifest.find("b/c") == Placed("b/c", 0, EMPTY, "a" * 64, 512, ())
    with pytest.raises(InvalidError):
        store.put_bytes(layout.root_key("p", "0" * 64), json.dumps({"files": files}).encode())
        open_manifest(store, "p", "0" * 64)


def test_keys_are_named() -> None:
    for kind, name in (("pack", "ab" * 32), ("part", "ab" * 32), ("manifest", "ab" * 32), ("version", "digits/3")):
        for key in layout.keys("p", kind, name):
            assert layout.named("p", key) == (kind, name)
    assert layout.keys("p", "version", "digits/3") == (layout.version_key("p", "digits", 3),)
    name = "ab" * 32
    others = [f"projects/p/{key}" for key in (f"snapshots/{name}.tar", f"packs/{name}", f"manifests/{name}.tar")]
    for key in (*others, "projects/p/parts/mine.txt", "x"):
        assert layout.named("p", key) is None
