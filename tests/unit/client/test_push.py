"""Scanning and packing a dataset."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from PIL import Image

from headway.client import push
from headway.errors import UsageError


def fill(folder: Path) -> None:
    for split, digit, name, grey in (("train", 0, "a", 10), ("train", 1, "b", 20), ("test", 0, "c", 30)):
        place = folder / split / str(digit)
        place.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), grey).save(place / f"{name}.png")
    (folder / ".hidden").write_text("x")
    (folder / "readme.txt").write_text("hello")


def test_scan(tmp_path: Path) -> None:
    fill(tmp_path)
    found = push.scan(tmp_path)
    assert [f.path for f in found] == ["readme.txt", "test/0/c.png", "train/0/a.png", "train/1/b.png"]
    assert found[0].bytes == 5
    assert found[0].sha256 == hashlib.sha256(b"hello").hexdigest()


def test_nothing_to_push(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no files"):
        push.scan(tmp_path)
    with pytest.raises(UsageError, match="is no folder"):
        push.scan(tmp_path / "nowhere")


def test_every_content_is_where_the_pack_says(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "large.bin").write_bytes(bytes(range(256)) * 20)
    files = push.scan(tmp_path)
    made = list(push.packs(tmp_path, files, limit=1000))
    assert len(made) == 2
    seen = 0
    for pack in made:
        body = pack.path.read_bytes()
        pack.path.unlink()
        assert hashlib.sha256(body).hexdigest() == pack.sha256
        for sha256, offset in pack.offsets.items():
            file = next(f for f in files if f.sha256 == sha256)
            assert hashlib.sha256(body[offset : offset + file.bytes]).hexdigest() == sha256
            seen += 1
    assert seen == len(files)


def test_a_file_that_changes_meanwhile(tmp_path: Path) -> None:
    fill(tmp_path)
    files = push.scan(tmp_path)
    (tmp_path / "readme.txt").write_text("hullo")
    with pytest.raises(UsageError, match=r"readme\.txt changed"):
        list(push.packs(tmp_path, files))
