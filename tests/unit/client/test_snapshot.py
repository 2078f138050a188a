"""What belongs to a code snapshot, and that its digest depends on content alone."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from headway.client import snapshot
from headway.errors import UsageError


def fill(folder: Path) -> None:
    (folder / "src").mkdir(parents=True)
    (folder / "train.py").write_text("print(1)")
    (folder / "src" / "net.py").write_text("x = 1")
    (folder / "run.sh").write_text("#!/bin/sh")
    (folder / "run.sh").chmod(0o755)
    (folder / ".gitignore").write_text("data/\n*.log\n!keep.log\n")
    (folder / "data").mkdir()
    (folder / "data" / "big.bin").write_text("...")
    (folder / "a.log").write_text("")
    (folder / "keep.log").write_text("")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.pyc").write_text("")


EXPECTED = [".gitignore", "keep.log", "run.sh", "src/net.py", "train.py"]


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@t"]
    subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True)


def test_outside_git_gitignore_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    folder = tmp_path / "code"
    fill(folder)
    taken = snapshot.take(folder)
    with tarfile.open(fileobj=io.BytesIO(taken.content)) as tar:
        assert tar.getnames() == EXPECTED
        assert tar.getmember("run.sh").mode == 0o755
        assert tar.getmember("train.py").mode == 0o644
    assert (taken.files, taken.commit, taken.dirty) == (5, None, False)


def test_a_report_of_ours_is_no_code_but_any_other_page_is(tmp_path: Path) -> None:
    from datetime import datetime, timezone

    from headway.report import page

    (tmp_path / "train.py").write_text("print(1)")
    before = snapshot.take(tmp_path).digest
    drawing = {"title": "x", "evaluation": {"name": "x"}}
    (tmp_path / "report.html").write_text(page.render(drawing, {}, at=datetime.now(timezone.utc)))
    assert snapshot.take(tmp_path).digest == before
    (tmp_path / "template.html").write_text("<!DOCTYPE html>\n<html><head><meta charset='utf-8'></head></html>")
    assert snapshot.files_of(tmp_path) == ["template.html", "train.py"]


def test_in_git_commit_and_dirty_state_are_noted(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    fill(folder)
    git(folder, "init")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "x")
    clean = snapshot.take(folder)
    assert snapshot.files_of(folder) == EXPECTED
    assert clean.commit is not None and len(clean.commit) == 40
    assert not clean.dirty
    (folder / "new.py").write_text("")
    dirty = snapshot.take(folder)
    assert dirty.dirty
    assert dirty.commit == clean.commit
    assert dirty.digest != clean.digest
    (folder / "new.py").unlink()
    (folder / "train.py").unlink()
    assert "train.py" not in snapshot.files_of(folder)


def test_digest_depends_on_content_alone(tmp_path: Path) -> None:
    for name in ("a", "b"):
        fill(tmp_path / name)
    os.utime(tmp_path / "b" / "train.py", (1, 1))
    assert snapshot.take(tmp_path / "a").digest == snapshot.take(tmp_path / "b").digest
    (tmp_path / "b" / "train.py").write_text("print(2)")
    assert snapshot.take(tmp_path / "a").digest != snapshot.take(tmp_path / "b").digest
    leave = ("train.py",)
    assert snapshot.take(tmp_path / "a", leave).digest == snapshot.take(tmp_path / "b", leave).digest


def test_links_out_of_the_folder_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "in.py").write_text("x")
    (folder / "link.py").symlink_to("in.py")
    (folder / "out.py").symlink_to("../secret")
    assert snapshot.files_of(folder) == ["in.py", "link.py"]


def test_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "LIMIT_BYTES", 10)
    (tmp_path / "model.bin").write_bytes(b"x" * 11)
    with pytest.raises(UsageError, match=r"largest file is model\.bin"):
        snapshot.take(tmp_path)
    with pytest.raises(UsageError, match="is no folder"):
        snapshot.take(tmp_path / "nowhere")


def test_a_file_that_other_code_imports_is_not_left_out(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import net\nfrom lib.shared import x\n")
    for name in ("net.py", "predictor.py", "shared.py", "cases.yaml"):
        (tmp_path / name).write_text("# from predictor import nothing\n")
    named = ("net.py", "predictor.py", "shared.py", "cases.yaml")
    assert snapshot.imported_by_none(tmp_path, named) == ("predictor.py", "cases.yaml")


def test_a_folder_may_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("a")
    (tmp_path / "data.py").write_text("")
    assert snapshot.take(tmp_path, leave_out=("data",)).files == 1
