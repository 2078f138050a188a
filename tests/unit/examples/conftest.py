"""The digits example as its users have it: a folder with scripts, run by an interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "examples" / "digits"

Script = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def script() -> Script:
    """Runs `python NAME ARGUMENTS` in the example's folder with only the variables given; returns what it printed."""

    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **variables}
        return subprocess.run(
            [sys.executable, *words], cwd=FOLDER, env=environment, capture_output=True, text=True, timeout=120
        )

    return run


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory, script: Script) -> Path:
    folder = tmp_path_factory.mktemp("digits") / "data"
    done = script("make_data.py", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, script: Script, data: Path) -> tuple[Path, str]:
    """Four epochs by one process: the folder with the checkpoints, and what was printed."""
    folder = tmp_path_factory.mktemp("trained")
    done = script("train.py", "--epochs", "4", DATA_PATH=str(data), CHECKPOINT_PATH=str(folder))
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The example's folder, importable for the length of a test."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield FOLDER
    for name in ("net", "evaluate", "predictor", "make_data", "train"):
        sys.modules.pop(name, None)
