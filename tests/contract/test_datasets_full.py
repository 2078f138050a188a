"""A push onto a disk that is full: told, nothing seen of it, and resumed once there is space."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.errors import RefusedError
from headway.testing.dataset_project import Project
from headway.testing.datasets import DatasetGround, example

from .test_datasets import Sqlite


def mount(folder: Path, size: str, *words: str) -> int:
    command = ["mount", "-t", "tmpfs", "-o", ",".join([f"size={size}", *words]), "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True).returncode


@pytest.fixture
def small_store(tmp_path: Path) -> Iterator[Path]:
    """Where the project's store is going to be: a disk of 1 MiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    folder = tmp_path / "store"
    folder.mkdir()
    if mount(folder, "1m"):
        pytest.skip("a tmpfs cannot be mounted")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.usefixtures("small_store")
class TestFull(Sqlite, DatasetGround):
    def test_a_store_that_is_full(self, small_store: Path, project: Project, folder: Path) -> None:
        with pytest.raises(RefusedError) as refused:
            project.push(folder)
        assert refused.value.code == "no_space"
        assert project.numbers() == []
        assert project.keys("manifests") == project.keys("datasets") == []
        arrived = project.arrived()
        assert arrived > 0
        assert mount(small_store, "64m", "remount") == 0
        view = project.push(folder)
        assert view.version == 1
        assert view.sent_bytes == project.arrived() - arrived
        assert project.contents(view.digest) == example()
