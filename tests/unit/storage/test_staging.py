from __future__ import annotations

import json
from pathlib import Path

import pytest

from headway.storage import installation, staging


def attempt(root: Path, name: str, *, nodes: int = 1, ended: int = 0) -> None:
    folder = root / "attempts" / name
    folder.mkdir(parents=True)
    (folder / "launch.json").write_text(json.dumps({"nodes": [{"name": f"n{i}"} for i in range(nodes)]}))
    for index in range(ended):
        (folder / f"node-{index}").mkdir()
        (folder / f"node-{index}/exit.json").write_text("{}")


def staged(target: Path, root: Path, name: str, cell: str = "1") -> Path:
    place = staging.folder(target, root, name) / cell
    place.mkdir(parents=True)
    (place / "out.bin").write_bytes(b"x")
    return place


def names(target: Path, root: Path) -> list[str]:
    """What is in the target, with the installation of `root` left out of names."""
    return sorted(p.name.replace(f"-{installation.name_of(root)}-", "-") for p in target.iterdir())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


def test_what_ended_attempts_left_is_swept_and_nothing_else(root: Path, target: Path, tmp_path: Path) -> None:
    attempt(root, "1-1", ended=1)
    attempt(root, "2-1")
    attempt(root, "3-1", nodes=2, ended=1)
    for name in ("1-1", "2-1", "3-1", "4-1"):
        staged(target, root, name)
    (target / "epoch-1").mkdir()
    (target / ".other").mkdir()
    kept = staging.folder(target, root, "4-1") / "1"
    staging.note(kept, {"cell": 1})
    assert staging.sweep(target, root) == 1
    assert (kept / "out.bin").exists()
    assert names(target, root) == [".other", ".staging-2-1", ".staging-3-1", ".staging-4-1", "epoch-1"]
    assert staging.sweep(tmp_path / "absent", root) == 0


def test_of_given_attempts_all_goes_but_what_one_to_come_could_take_over(root: Path, target: Path) -> None:
    for name in ("1-1", "2-1", "3-1"):
        staged(target, root, name)
    (target / "epoch-1").mkdir()
    staging.note(staging.folder(target, root, "2-1") / "1", {"cell": 1})
    assert staging.clear(target, root, ["1-1", "2-1"], finished_too=False) == 1
    assert names(target, root) == [".staging-2-1", ".staging-3-1", "epoch-1"]
    assert staging.clear(target, root, ["1-1", "2-1"], finished_too=True) == 1
    assert names(target, root) == [".staging-3-1", "epoch-1"]


def test_what_was_finished_is_taken_over_once(root: Path, target: Path) -> None:
    attempt(root, "1-1", ended=1)
    attempt(root, "2-1")
    for name in ("1-1", "2-1"):
        staging.note(staged(target, root, name), {"cell": 1, "key": name})
        staged(target, root, name, "2")
    ((outputs, note),) = staging.finished(target, root, "1-2")
    assert note == {"cell": 1, "key": "1-1"} and outputs == staging.folder(target, root, "1-1") / "1"
    place = staging.folder(target, root, "1-2") / "1"
    assert staging.take_over(outputs, place) and (place / "out.bin").read_bytes() == b"x"
    assert not staging.take_over(outputs, place)
    staging.note(place, {"cell": 1})
    staging.forget(place)
    assert list(staging.finished(target, root, "1-2")) == []


def test_a_note_that_cannot_be_read_is_passed_over(root: Path, target: Path) -> None:
    place = staged(target, root, "1-1")
    staging.note(place, {"cell": 1})
    place.with_name("1.done.json").write_text("{")
    assert list(staging.finished(target, root, "1-2")) == []


def test_two_installations_leave_each_other_alone_though_their_attempts_are_called_alike(
    root: Path, target: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    attempt(root, "1-1", ended=1)
    attempt(other, "1-1")
    attempt(other, "7-1")
    theirs = [staged(target, other, "1-1"), staged(target, other, "7-1"), staged(target, other, "7-1", "2")]
    staging.note(theirs[1], {"cell": 1, "key": "k"})
    ours = staged(target, root, "1-1")
    assert ours != theirs[0]
    assert list(staging.finished(target, root, "1-2")) == []
    assert staging.sweep(target, root) == 1
    assert staging.clear(target, root, ["1-1", "7-1"], finished_too=True) == 0
    assert not ours.exists() and all((place / "out.bin").exists() for place in theirs)


def test_an_installation_keeps_its_name_wherever_its_root_is(root: Path, tmp_path: Path) -> None:
    name = installation.name_of(root)
    assert len(name) == 8 and [p.name for p in root.iterdir()] == ["installation"]
    moved = tmp_path / "moved"
    root.rename(moved)
    assert installation.name_of(moved) == name
    assert installation.name_of(tmp_path / "absent") == installation.name_of(tmp_path / "absent") != name
