"""Pushes while what they stand on breaks: the server's clock and disk, the client's cache, another's `rm`."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headway.client import Client
from headway.client.pushing import hashes
from headway.client.pushing.hashes import default_path
from headway.errors import RefusedError
from headway.rules.access import Role
from headway.store.base import Store
from headway.testing.api import Api, serve
from headway.testing.dataset_project import Project, write
from headway.testing.datasets import DatasetGround, example
from headway.testing.services import caller, open_services

from .test_datasets import Sqlite
from .test_datasets_full import mount

MONTH = 30 * 86_400.0


class Jumping:
    """The real clock, and how far it is wrong."""

    wrong = 0.0

    def __call__(self) -> float:
        return time.time() + self.wrong


def disk(folder: Path, size: str, *words: str) -> Callable[[], None]:
    """Mounts an empty disk there; what unmounts it. Skips where nothing can be mounted."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.geteuid() != 0 or mount(folder, size, *words):
        pytest.skip("a tmpfs cannot be mounted")

    def unmount() -> None:
        subprocess.run(["umount", "-l", folder], check=True)

    return unmount


class TestClock(Sqlite, DatasetGround):
    @pytest.fixture(scope="class")
    @classmethod
    def clock(cls) -> Jumping:
        return Jumping()

    @pytest.fixture(scope="class")
    @classmethod
    def api(cls, record: Store, clock: Jumping, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
        with serve(replace(open_services(tmp_path_factory.mktemp("home"), record), clock=clock)) as api:
            yield api

    @pytest.mark.parametrize("wrong", [MONTH, -MONTH])
    def test_a_clock_that_jumps_and_a_collection_then(
        self, project: Project, folder: Path, clock: Jumping, wrong: float
    ) -> None:
        """Everything that the push has sent and said looks a month old, and goes: it begins anew by itself."""
        clock.wrong = 0.0
        caller(project.api.ctx, "olga", Role.OWNER, project.name)
        token = project.api.token("olga")
        project.line.hold(900_000)
        found: list[int] = []
        pushing = threading.Thread(target=lambda: found.append(project.push(folder).version))
        pushing.start()
        assert project.line.held.wait(60)
        clock.wrong = wrong
        with Client(project.api.url, token, project=project.name) as owner:
            owner.datasets.gc(dry_run=False)
        project.line.release()
        pushing.join()
        clock.wrong = 0.0
        assert found == [1]
        assert project.contents(project.client.datasets.find("digits").digest) == example()


class TestServersDisk(Sqlite, DatasetGround):
    @pytest.mark.parametrize(
        "words, code",
        # the first ends in the middle of a pack or part; in the last there is no room for a push's folder
        [
            (("192k",), "no_space"),
            (("64m", "nr_inodes=4"), "no_inodes"),
            (("64m", "nr_inodes=1"), "no_inodes"),
            (("64m", "ro"), "read_only"),
        ],
    )
    @pytest.mark.parametrize("what", ["packs", "parts"])
    def test_no_space_for_what_comes_in(
        self, project: Project, folder: Path, words: tuple[str, ...], code: str, what: str
    ) -> None:
        if what == "parts":
            shutil.rmtree(folder)
            write(folder, {"large.bin": example()["large.bin"]})
        unmount = disk(project.api.ctx.project_folder(project.name), *words)
        try:
            with pytest.raises(RefusedError) as refused:
                project.push(folder)
        finally:
            unmount()
        assert refused.value.code == code
        assert project.numbers() == project.keys("manifests") == []
        assert project.push(folder).version == 1
        assert project.verify(1).faulty == 0


class TestClientsCache(Sqlite, DatasetGround):
    @pytest.mark.parametrize("words", [("64k",), ("64m", "nr_inodes=2"), ("64k", "ro")])
    def test_a_disk_that_takes_nothing(
        self, project: Project, folder: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(hashes, "_RACY", 0)
        unmount = disk(default_path().parent, *words)
        try:
            if "ro" not in words:
                (default_path().parent / "other").write_bytes(b"")
            first = project.push(folder)
            assert project.push(folder) == first
        finally:
            unmount()
        assert project.verify(1).faulty == 0

    def test_a_cache_that_is_hurt(self, project: Project, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(hashes, "_RACY", 0)
        first = project.push(folder)
        body = bytearray(default_path().read_bytes())
        body[200:-200:7] = b"x" * len(body[200:-200:7])
        default_path().write_bytes(body)
        assert project.push(folder) == first
        (folder / "new.txt").write_bytes(b"new")
        second = project.push(folder)
        assert project.contents(second.digest) == {**example(), "new.txt": b"new"}


class TestRemovedMeanwhile(Sqlite, DatasetGround):
    def test_versions_that_go_while_they_are_pushed_again(self, project: Project, folder: Path) -> None:
        """Whatever comes first: a version that was told is one that is whole, or was removed."""
        project.push(folder)
        over = threading.Event()

        def remove() -> None:
            while not over.is_set():
                for number in project.numbers():
                    project.client.datasets.rm("digits", number)

        removing = threading.Thread(target=remove)
        removing.start()
        try:
            told = [project.push(folder).version for _ in range(5)]
        finally:
            over.set()
            removing.join()
        assert told == sorted(told)
        last = project.push(folder)
        assert last.version >= told[-1]
        assert project.verify(last.version).faulty == 0
