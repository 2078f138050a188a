"""Whose a target's folder is: the first installation's that comes, for ever, whoever comes at the same moment."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from headway.storage import installation
from headway.storage.claims import MARK, claim
from headway.storage.full import TargetFullError


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    return tmp_path / "one", tmp_path / "two"


def test_the_first_has_it_and_the_second_is_told_whose_it_is(tmp_path: Path, roots: tuple[Path, Path]) -> None:
    one, two = roots
    folder = tmp_path / "disk/evaluation-1"
    for _ in range(2):
        claim(folder, one, fresh=True)
    with pytest.raises(TargetFullError) as taken:
        claim(folder, two)
    assert taken.value.cause == "taken" and str(one) in taken.value.message
    assert installation.name_of(one) in taken.value.message and str(folder) in taken.value.message
    assert "eval target" in taken.value.remedy and "eval adopt" in taken.value.remedy
    assert str(folder / MARK) in taken.value.remedy
    assert [p.name for p in folder.iterdir()] == [MARK]
    # what it says to do when that headway is gone for good
    (folder / MARK).unlink()
    claim(folder, two)


def test_outputs_without_a_mark_are_ours_only_if_we_have_been_there(tmp_path: Path, roots: tuple[Path, Path]) -> None:
    folder = tmp_path / "evaluation-1"
    (folder / "epoch-1/case").mkdir(parents=True)
    (folder / ".staging-12345678-1-1").mkdir()
    with pytest.raises(TargetFullError, match="did not write") as taken:
        claim(folder, roots[0], fresh=True)
    assert taken.value.cause == "taken" and not (folder / MARK).exists()
    claim(folder, roots[0])
    claim(folder, roots[0], fresh=True)


def test_an_empty_folder_is_the_first_ones(tmp_path: Path, roots: tuple[Path, Path]) -> None:
    (tmp_path / "evaluation-1").mkdir()
    claim(tmp_path / "evaluation-1", roots[0], fresh=True)


@pytest.mark.parametrize("content", ["", "[]", '{"installation": 1}', "\xff"])
def test_a_mark_that_says_nothing_is_nobodys(tmp_path: Path, roots: tuple[Path, Path], content: str) -> None:
    (tmp_path / MARK).write_text(content)
    with pytest.raises(TargetFullError, match="cannot be made out") as taken:
        claim(tmp_path, roots[0])
    assert str(tmp_path / MARK) in taken.value.remedy


def test_a_file_system_without_hard_links_takes_marks(
    tmp_path: Path, roots: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for root in roots:
        installation.lasting_name_of(root)

    def link(*_: object) -> None:
        raise OSError(errno.EPERM, "no links")

    monkeypatch.setattr(os, "link", link)
    folder = tmp_path / "evaluation-1"
    claim(folder, roots[0])
    claim(folder, roots[0])
    with pytest.raises(TargetFullError):
        claim(folder, roots[1])
    assert json.loads((folder / MARK).read_text())["root"] == str(roots[0])


def come(folder: Path, root: Path, gate: Barrier, result: Path) -> None:
    gate.wait()
    try:
        claim(folder, root, fresh=True)
        result.write_text("mine")
    except TargetFullError as taken:
        result.write_text(taken.cause)


def test_of_many_that_come_at_once_one_has_it(tmp_path: Path) -> None:
    for turn in range(5):
        gate, started, results = multiprocessing.Barrier(6), [], []
        for number in range(6):
            root = tmp_path / f"root-{turn}-{number}"
            root.mkdir()
            results.append(root / "result")
            one = multiprocessing.Process(target=come, args=(tmp_path / f"out-{turn}", root, gate, results[-1]))
            one.start()
            started.append(one)
        for one in started:
            one.join(30)
        assert sorted(path.read_text() for path in results) == ["mine", *["taken"] * 5]


def test_a_root_that_takes_no_writes_claims_nothing(
    tmp_path: Path, roots: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would not know its own mark once it takes writes again."""

    def link(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(TargetFullError) as full:
        claim(tmp_path / "evaluation-1", roots[0])
    assert full.value.path == str(roots[0]) and not (tmp_path / "evaluation-1").exists()
