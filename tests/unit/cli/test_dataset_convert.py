"""`headway dataset unpack` as it is typed; pack needs a server, see the acceptance tests."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headway.cli.app import app
from headway.client import convert
from headway.client.convert.member import Member
from headway.errors import UsageError


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    path = tmp_path / "x.parquet"
    writer = convert.FORMATS["parquet"].write(path)
    writer.add(Member("a/1.txt", 5, hashlib.sha256(b"hello").hexdigest(), iter([b"hello"])))
    writer.close()
    return path


def headway(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def test_unpack(shard: Path, tmp_path: Path) -> None:
    found = headway("dataset", "unpack", str(shard), "--into", str(tmp_path / "back"))
    assert (tmp_path / "back/a/1.txt").read_bytes() == b"hello"
    assert "1 file, 5 B" in found
    assert f"headway dataset push {tmp_path / 'back'} NAME" in found


def test_unpack_as_json(shard: Path, tmp_path: Path) -> None:
    into = str(tmp_path / "back")
    assert json.loads(headway("dataset", "unpack", str(shard), "--into", into, "--json")) == {
        "into": into,
        "files": 1,
        "bytes": 5,
    }


def test_one_place_is_needed(shard: Path, tmp_path: Path) -> None:
    for places in ([], ["--into", str(tmp_path / "back"), "--push", "x"]):
        with pytest.raises(UsageError, match="one place"):
            headway("dataset", "unpack", str(shard), *places)


def test_an_unknown_format_and_size(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown format 'tar'\."):
        headway("dataset", "pack", "x", "--format", "tar", "--into", str(tmp_path))
    for size in ("0", "many"):
        with pytest.raises(UsageError, match="--shard-bytes"):
            headway("dataset", "pack", "x", "--format", "parquet", "--into", str(tmp_path), "--shard-bytes", size)
