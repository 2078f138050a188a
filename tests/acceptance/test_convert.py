"""Statistics and conversions of versions in a real store, by the commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from .conftest import Server

FORMATS = ["webdataset", "tfrecord", "parquet"]


@pytest.fixture(scope="module")
def pushed(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`odd@1`: a leak, an empty file, names with line ends and Chinese, a large file."""
    folder = tmp_path_factory.mktemp("odd")
    for path, grey in (("train/0/a.png", 10), ("train/1/b.png", 20), ("test/0/c.png", 10)):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), grey).save(folder / path)
    (folder / "测试").mkdir()
    (folder / "测试" / "line\nend.txt").write_text("内容")
    (folder / "empty").touch()
    (folder / "large.bin").write_bytes(bytes(range(256)) * (40 << 12))
    done = server.cli("dataset", "push", "odd", str(folder))
    assert done.returncode == 0, done.stderr
    assert "warning: 1 file of test is in train too" in done.stdout
    return folder


def test_statistics_out_of_the_store_are_those_of_the_push(server: Server, pushed: Path) -> None:
    with server.client() as client:
        before = client.datasets.find("odd@1").statistics
        client.datasets.put_statistics("odd", 1, {})
    again = server.cli("dataset", "stats", "odd@1", "--refresh", "--json")
    assert json.loads(again.stdout) == before, again.stderr
    with server.client() as client:
        assert client.datasets.find("odd@1").statistics == before


def test_warnings_before_an_evaluation_or_job(server: Server, pushed: Path) -> None:
    done = server.cli("job", "submit", "--data", "odd@1", "--dry-run", "--", "true")
    assert "warning: odd@1: 1 file of test is in train too" in done.stderr


@pytest.mark.parametrize("form", FORMATS)
def test_a_version_comes_back_as_the_same_version(server: Server, pushed: Path, tmp_path: Path, form: str) -> None:
    done = server.cli("dataset", "pack", "odd@1", "--format", form, "--into", str(tmp_path), "--shard-bytes", "1MB")
    assert done.returncode == 0, done.stderr
    shards = sorted(str(path) for path in tmp_path.iterdir())
    assert len(shards) >= 2
    back = server.cli("dataset", "unpack", *shards, "--push", "odd", "--json")
    assert back.returncode == 0, back.stderr
    assert json.loads(back.stdout)["version"] == 1
    full = server.cli("dataset", "pack", "odd@1", "--format", form, "--into", str(tmp_path))
    assert full.returncode == 3
    assert "is not empty" in full.stderr
