"""What a stage's key depends on: mending what only a later stage uses must not train again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from headway.client.flow import FlowRunner

EXAMPLE = Path(__file__).parents[3] / "examples" / "digits"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "digits", ignore=shutil.ignore_patterns("data", "__pycache__")))


def keys(folder: Path) -> tuple[str, str]:
    """Of training and evaluation, as requests would have them; nothing is asked of a server."""
    nobody: Any = None
    runner = FlowRunner(nobody, folder / "flow.yaml", nobody)
    runner._references = lambda names: list(names)  # type: ignore[method-assign]
    runner.job = nobody = type("Job", (), {"id": 1})()
    return runner.train_request()["key"], runner.evaluate_request()["key"]


@pytest.mark.parametrize(
    ("name", "trains", "evaluates"),
    [
        ("train.py", True, True),
        ("net.py", True, True),  # imported by the training
        ("evaluate.py", False, True),
        ("cases.yaml", False, True),
        ("predictor.py", False, False),
        ("flow.yaml", False, False),
        ("data/train/0/0001.png", False, False),  # the dataset's own, known by its version
    ],
)
def test_an_edit_repeats_what_depends_on_it(folder: Path, name: str, trains: bool, evaluates: bool) -> None:
    before = keys(folder)
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((path.read_bytes() if path.exists() else b"") + b"\n# mended\n")
    after = keys(folder)
    assert (before[0] != after[0], before[1] != after[1]) == (trains, evaluates)
