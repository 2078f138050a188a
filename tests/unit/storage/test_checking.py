"""A version's contents are read where they lie, and each damage is told of the files that it hits."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from headway.storage import checking, layout, manifests
from headway.storage.checking import check_version
from headway.storage.manifests import Manifest, open_manifest
from headway.storage.objects import FolderStore

PACK = "a" * 64
CONTENTS = {"a": b"one", "b/c": b"", "b/d": b"three" * 1000, "e": b"one"}
PARTS = [b"first" * 50, b"second" * 50]


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "objects")


@pytest.fixture
def version(store: FolderStore, tmp_path: Path) -> Manifest:
    body = b"x" * 512
    with open(tmp_path / "rows", "wb") as out:
        writer = manifests.Writer(out)
        pack = writer.number("pack", PACK, 9000)
        for path, content in CONTENTS.items():
            writer.add((path, len(content), sha(content)), pack, len(body))
            body += content + b"y" * 700
        numbers = [writer.number("part", sha(p), len(p)) for p in PARTS]
        writer.add(("large", sum(map(len, PARTS)), sha(b"".join(PARTS))), numbers)
        root = writer.root(1.0)
    store.put_bytes(layout.pack_key("p", PACK), body)
    for part in PARTS:
        store.put_bytes(layout.part_key("p", sha(part)), part)
    manifests.put(store, "p", root, tmp_path / "rows")
    return open_manifest(store, "p", root["digest"])


@pytest.mark.parametrize("gap", [0, 1 << 20])
def test_a_whole_version(store: FolderStore, version: Manifest, gap: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "_GAP", gap)
    found = check_version(store, "p", version)
    assert (found.files, found.bytes, found.faults, found.faulty) == (5, version.bytes, {}, 0)
    answers = iter([True, False, True, False, False])
    assert check_version(store, "p", version, lambda: next(answers)).bytes == 5003


@pytest.mark.parametrize("gap", [0, 1 << 20])
def test_damage_is_of_the_files_that_it_hits(
    store: FolderStore, version: Manifest, gap: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "_GAP", gap)
    key = layout.pack_key("p", PACK)
    whole = store.get_bytes(key)
    at = whole.index(b"threethree") + 7
    store.put_bytes(key, whole[:at] + b"?" + whole[at + 1 :])
    assert set(check_version(store, "p", version).faults) == {"b/d"}
    store.put_bytes(key, whole[: at + 1])
    assert set(check_version(store, "p", version).faults) == {"b/d", "e"}
    store.delete(key)
    assert check_version(store, "p", version).faulty == 4
    part = layout.part_key("p", sha(PARTS[1]))
    store.put_bytes(part, b"other")
    assert "not what its name says" in check_version(store, "p", version).faults["large"]
    store.delete(part)
    assert "is gone" in check_version(store, "p", version).faults["large"]
    store.delete(layout.rows_key("p", version.digest))
    assert "manifest cannot be read" in check_version(store, "p", version).faults[""]
