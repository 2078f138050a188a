"""The contract of `rm` and `gc` as a suite, over any record and any store; see `testing.datasets`."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.client import Client
from headway.errors import ForbiddenError, NotFoundError, RefusedError
from headway.rules.access import Role
from headway.storage import layout
from headway.testing.dataset_project import Project, write
from headway.testing.datasets import DatasetGround, example
from headway.testing.services import caller
from headway.wire.datasets import GcView

_NOBODYS = "a" * 64


class KeepingSuite(DatasetGround):
    @pytest.fixture
    def owner(self, project: Project) -> Iterator[Client]:
        caller(project.api.ctx, "olga", Role.OWNER, project.name)
        with Client(project.api.url, project.api.token("olga"), project=project.name) as client:
            yield client

    # rm

    def test_what_a_job_was_given_stays(self, project: Project, folder: Path) -> None:
        project.push(folder)
        datasets = project.client.datasets
        used = project.client.jobs.submit(["true"], datasets=["digits"], held=True)
        write(folder, {"new.txt": b"new"})
        project.push(folder)
        with pytest.raises(RefusedError, match=rf"digits@1 cannot be removed, for job {used.id} used it") as refused:
            datasets.rm("digits", 1)
        assert refused.value.code == "in_use"
        project.client.runs.stop(used.id)
        with pytest.raises(RefusedError, match=f"job {used.id} "):
            datasets.rm("digits", 1)
        datasets.rm("digits", 2)
        assert project.numbers() == [1]
        with pytest.raises(NotFoundError, match="no version 2"):
            datasets.rm("digits", 2)
        # its number is not given again
        assert project.push(folder).version == 3

    # gc

    def test_only_what_no_version_names_goes(self, project: Project, folder: Path, owner: Client) -> None:
        project.push(folder)
        first = project.keys()
        write(folder, {"1/001.jpg": b"other", "more.bin": random.Random(7).randbytes(300_000)})
        project.push(folder)
        both = project.keys()
        assert _collected(owner).objects == 0
        project.client.datasets.rm("digits", 2)
        shown = _collected(project.client, dry_run=True)
        assert {item.why for item in shown.items} == {"unreferenced"}
        assert shown.bytes > 300_000
        assert project.keys() == both
        # a push may still come back to what it sent lately
        assert owner.datasets.gc(dry_run=False).objects == 0
        done = _collected(owner)
        assert (done.objects, done.bytes) == (shown.objects, shown.bytes)
        assert project.keys() == first
        assert project.verify(1).faulty == 0
        # and its contents are sent again
        assert project.push(folder).version == 3
        assert project.verify(3).faulty == 0

    def test_of_a_push_that_was_killed_nothing_stays(self, project: Project, folder: Path, owner: Client) -> None:
        project.line.hold(900_000)
        with project.begin_push(folder) as process:
            assert project.line.held.wait(60)
            process.kill()
        project.line.release()
        assert project.keys()
        shown = _collected(owner, dry_run=True)
        assert sum(item.bytes for item in shown.items if item.key.startswith("projects/")) > 0
        _collected(owner)
        # what was on its way in when the line was cut may have come after the first look
        _collected(owner)
        assert project.keys() == []
        assert project.push(folder).version == 1
        assert project.verify(1).faulty == 0

    def test_what_the_record_does_not_know(self, project: Project, folder: Path, owner: Client) -> None:
        project.push(folder)
        before = project.keys()
        project.store.put_bytes(layout.part_key(project.name, _NOBODYS), b"lost")
        project.store.put_bytes(project.key("parts/mine.txt"), b"of somebody else")
        # a store's clock and ours may differ by a second
        until = time.monotonic() + 30
        while not (found := _collected(owner)).items and time.monotonic() < until:
            pass
        assert [(item.why, item.bytes) for item in found.items] == [("never registered", 4)]
        assert set(project.keys()) == {*before, project.key("parts/mine.txt")}

    def test_a_collection_that_was_cut_off_is_finished(self, project: Project, folder: Path, owner: Client) -> None:
        project.push(folder)
        project.client.datasets.rm("digits", 1)
        ctx = project.api.ctx
        with ctx.store.begin() as tx:
            home = tx.people.project(project.name)
            assert home is not None
            rows = tx.datasets.all_objects(home.id)
            assert all(tx.datasets.condemn(row) for row in rows[: len(rows) // 2])
        _collected(owner)
        assert project.keys() == []
        with ctx.store.read() as tx:
            assert tx.datasets.all_objects(home.id) == []
        assert project.push(folder).version == 2
        assert project.verify(2).faulty == 0

    def test_nothing_goes_where_a_manifest_cannot_be_read(self, project: Project, folder: Path, owner: Client) -> None:
        view = project.push(folder)
        write(folder, {"new.txt": b"new"})
        project.push(folder)
        project.store.delete(layout.root_key(project.name, view.digest))
        before = project.keys()
        with pytest.raises(RefusedError, match="manifest of digits@1 cannot be read") as refused:
            _collected(owner)
        assert refused.value.code == "unreadable"
        assert project.keys() == before

    def test_only_owners_remove(self, project: Project, folder: Path) -> None:
        project.push(folder)
        with pytest.raises(ForbiddenError):
            _collected(project.client)

    def test_pushes_and_collections_at_once(self, project: Project, tmp_path: Path, owner: Client) -> None:
        over = threading.Event()
        faults: list[BaseException] = []

        def push(name: str) -> None:
            try:
                for number in range(3):
                    # the large file and half of the others are those of all pushes
                    files = {p: c for p, c in example().items() if "3" not in p or p == "large.bin"}
                    write(tmp_path / name, {**files, "own": f"{name} {number}".encode()})
                    _push(project, tmp_path / name, name)
                    if number == 1:
                        project.client.datasets.rm(name, min(project.numbers(name)))
            except BaseException as error:
                faults.append(error)
                raise

        def collect() -> None:
            while not over.is_set():
                owner.datasets.gc(dry_run=False, older_than=1)

        collecting = threading.Thread(target=collect)
        pushing = [threading.Thread(target=push, args=(name,)) for name in ("one", "two")]
        for thread in (*pushing, collecting):
            thread.start()
        for thread in pushing:
            thread.join()
        over.set()
        collecting.join()
        assert not faults
        for name in ("one", "two"):
            numbers = project.numbers(name)
            assert len(numbers) == 2
            assert all(project.verify(number, name).faulty == 0 for number in numbers)
        used = len(project.keys())
        _collected(owner)
        assert all(project.verify(max(project.numbers(name)), name).faulty == 0 for name in ("one", "two"))
        assert len(project.keys()) <= used


def _push(project: Project, folder: Path, name: str) -> None:
    """As often as it takes: one that loses what it sent in all its rounds says so, and has published nothing."""
    while True:
        try:
            project.push(folder, name)
            return
        except RefusedError as error:
            if error.code not in ("conflict", "removing", "not_there"):
                raise


def _collected(client: Client, *, dry_run: bool = False) -> GcView:
    return client.datasets.gc(dry_run=dry_run, older_than=0)
