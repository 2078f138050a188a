from __future__ import annotations

import json
from pathlib import Path

from headway.storage import staging


def attempt(root: Path, name: str, *, nodes: int = 1, ended: int = 0) -> None:
    folder = root / "attempts" / name
    folder.mkdir(parents=True)
    (folder / "launch.json").write_text(json.dumps({"nodes": [{"name": f"n{i}"} for i in range(nodes)]}))
    for index in range(ended):
        (folder / f"node-{index}").mkdir()
        (folder / f"node-{index}/exit.json").write_text("{}")


def staged(target: Path, name: str, cell: str = "1") -> Path:
    place = staging.folder(target, name) / cell
    place.mkdir(parents=True)
    (place / "out.bin").write_bytes(b"x")
    return place


def test_what_ended_attempts_left_is_swept_and_nothing_else(tmp_path: Path) -> None:
    root, target = tmp_path / "root", tmp_path / "t"
    attempt(root, "1-1", ended=1)
    attempt(root, "2-1")
    attempt(root, "3-1", nodes=2, ended=1)
    for name in ("1-1", "2-1", "3-1", "4-1"):
        staged(target, name)
    (target / "epoch-1").mkdir()
    (target / ".other").mkdir()
    staging.note(target / ".staging-4-1/1", {"cell": 1})
    assert staging.sweep(target, root) == 1
    assert (target / ".staging-4-1/1/out.bin").exists()
    names = [".staging-2-1", ".staging-3-1", ".staging-4-1"]
    assert sorted(p.name for p in target.iterdir()) == [*sorted([".other", *names]), "epoch-1"]
    assert staging.sweep(tmp_path / "absent", root) == 0


def test_of_given_attempts_all_goes_but_what_one_to_come_could_take_over(tmp_path: Path) -> None:
    for name in ("1-1", "2-1", "3-1"):
        staged(tmp_path, name)
    (tmp_path / "epoch-1").mkdir()
    staging.note(tmp_path / ".staging-2-1/1", {"cell": 1})
    assert staging.clear(tmp_path, ["1-1", "2-1"], finished_too=False) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == [".staging-2-1", ".staging-3-1", "epoch-1"]
    assert staging.clear(tmp_path, ["1-1", "2-1"], finished_too=True) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == [".staging-3-1", "epoch-1"]


def test_what_was_finished_is_taken_over_once(tmp_path: Path) -> None:
    root, target = tmp_path / "root", tmp_path / "t"
    attempt(root, "1-1", ended=1)
    attempt(root, "2-1")
    for name in ("1-1", "2-1"):
        staging.note(staged(target, name), {"cell": 1, "key": name})
        staged(target, name, "2")
    ((outputs, note),) = staging.finished(target, root, "1-2")
    assert note == {"cell": 1, "key": "1-1"} and outputs == target / ".staging-1-1/1"
    place = staging.folder(target, "1-2") / "1"
    assert staging.take_over(outputs, place) and (place / "out.bin").read_bytes() == b"x"
    assert not staging.take_over(outputs, place)
    staging.note(place, {"cell": 1})
    staging.forget(place)
    assert list(staging.finished(target, root, "1-2")) == []


def test_a_note_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    staging.note(staged(tmp_path, "1-1"), {"cell": 1})
    (tmp_path / ".staging-1-1/1.done.json").write_text("{")
    assert list(staging.finished(tmp_path, tmp_path, "1-2")) == []
