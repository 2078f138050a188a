from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from headway.storage import indexes

VALID: dict[str, Any] = {
    "cell": 1, "job": 3, "checkpoint": "epoch-1.pt", "checkpoint_id": 7, "sha256": "a" * 64, "row": "epoch-1",
    "case": "猫", "repeat": 2, "key": "k", "state": "valid", "score": 0.5, "scores": '{"score": 0.5, "psnr": 30}',
    "path": "outputs/epoch-1/猫", "outputs": '[{"name": "out.mp4", "bytes": 9, "sha256": "b", "kind": "video"}]',
    "publication": "p", "bytes": 20, "files": 2, "ran": 1, "tries": 1, "reason": "", "cause": None, "seconds": 1.5,
    "ended_at": 9.0,
}  # fmt: skip
WAITING: dict[str, Any] = {
    **VALID, "cell": 2, "state": "waiting", "score": None, "scores": "{}", "outputs": "[]", "publication": None,
    "seconds": None, "ended_at": None, "cause": "exit", "reason": "a\nb",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    indexes.publish(tmp_path, [VALID, WAITING])
    return tmp_path


def test_a_line_a_cell_in_their_order(folder: Path) -> None:
    for row, line in zip([VALID, WAITING], indexes.read(folder), strict=True):
        assert line == {**row, "scores": json.loads(row["scores"]), "outputs": json.loads(row["outputs"])}
        assert list(line) == list(row)
    assert len((folder / indexes.INDEX).read_bytes().splitlines()) == 2


def test_an_index_of_nothing_is_no_empty_file(tmp_path: Path) -> None:
    indexes.publish(tmp_path, [])
    assert list(indexes.read(tmp_path)) == [] and (tmp_path / indexes.INDEX).stat().st_size


@pytest.mark.parametrize("text", ["[1]\n", "{\n"])
def test_what_is_no_index_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / indexes.INDEX).write_text(text)
    with pytest.raises(ValueError):
        list(indexes.read(tmp_path))


def test_the_table_says_the_same(folder: Path) -> None:
    import pyarrow.parquet

    assert indexes.stale(folder)
    indexes.write_table(folder)
    assert not indexes.stale(folder)
    rows = pyarrow.parquet.read_table(folder / indexes.TABLE).to_pylist()
    for row, line in zip(rows, indexes.read(folder), strict=True):
        assert json.loads(row.pop("outputs")) == line.pop("outputs")
        scores = {name.removeprefix("score."): row.pop(name) for name in list(row) if name.startswith("score.")}
        assert {k: v for k, v in scores.items() if v is not None} == line.pop("scores")
        assert row == line


def test_an_older_table_is_stale(folder: Path) -> None:
    indexes.write_table(folder)
    os.utime(folder / indexes.TABLE, ns=(0, 0))
    assert indexes.stale(folder)
    assert not indexes.stale(folder / "nowhere") and indexes.made(folder / "nowhere") == 0.0


def test_a_process_of_its_own_makes_it(folder: Path) -> None:
    process = indexes.start_table(folder)
    assert process.communicate(timeout=60)[1] == b"" and process.returncode == 0
    assert (folder / indexes.TABLE).exists()


def test_a_process_that_cannot_says_why(tmp_path: Path) -> None:
    process = indexes.start_table(tmp_path)
    said = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 1 and str(tmp_path) in said and "Traceback" not in said


def test_a_full_place_is_told_apart(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise indexes.TargetFullError("no_space", folder, "It is full.")

    monkeypatch.setattr(indexes, "publish_bytes", full)
    assert indexes.main([str(folder)]) == indexes.FULL
