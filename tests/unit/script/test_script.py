"""What a user's script may call, with and without headway around it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import headway


def test_without_headway_nothing_is_in_the_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    headway.log(step=1, loss=0.5)
    assert headway.resume() is None
    assert headway.should_stop() is False


def test_stop_and_resume_look_at_what_there_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADWAY_STOP_FILE", str(tmp_path / "stop"))
    assert headway.should_stop() is False
    (tmp_path / "stop").touch()
    assert headway.should_stop() is True
    (tmp_path / "epoch-1.pt").touch()
    monkeypatch.setenv("RESUME_FROM", str(tmp_path / "epoch-1.pt"))
    assert str(headway.resume()) == str(tmp_path / "epoch-1.pt")


def test_a_checkpoint_is_saved_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CHECKPOINT_PATH", str(tmp_path / "c"))
    path = headway.save_checkpoint(b"state", "epoch-1.bin", epoch=1, metrics={"acc": 0.5})
    assert Path(str(path)).read_bytes() == b"state"
    note = json.loads((tmp_path / "c" / "epoch-1.bin.json").read_text())
    found = path.stat()
    assert note.pop("written") == [found.st_ino, found.st_size, found.st_mtime_ns]
    assert note.pop("save_seconds") == note.pop("blocked_seconds") >= 0
    assert note == {"step": None, "epoch": 1, "metrics": {"acc": 0.5}}
    assert sorted(p.name for p in (tmp_path / "c").iterdir()) == ["epoch-1.bin", "epoch-1.bin.json"]
