"""A target that cannot be looked at is a pause with its cause, never "nothing stands there", nor an OSError."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.storage import staging
from headway.storage.full import TargetFullError
from headway.storage.group import Wanted, publish_cells
from headway.storage.publish import (
    Publication,
    found_folder,
    publish_bytes,
    publish_file,
    publish_folder,
    publish_tree,
    published_key,
    remove,
)
from headway.storage.quota import ProjectQuota
from headway.storage.settling import Settled, settle_cells

from . import filesystems as fs

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")

OUTPUTS = [{"name": "a.json", "kind": "json"}]
Look = Callable[["Place"], Any]


def settle(folder: Path) -> Settled:
    (settled,) = settle_cells([folder], OUTPUTS)
    assert isinstance(settled, Settled), settled
    return settled


class Place:
    """A folder in which something of each sort stands already, and its sources elsewhere."""

    def __init__(self, folder: Path, sources: Path) -> None:
        self.folder, self.source = folder, sources / "source"
        self.source.mkdir()
        (self.source / "a.json").write_text("{}")
        self.quota = ProjectQuota(folder)
        for look in LOOKS.values():
            if look is not _finished:
                look(self)
        left = staging.folder(folder, sources, "1-1") / "7"
        left.mkdir(parents=True)
        staging.note(left, {"cell": 7})
        # the same bytes from a place that is still there, for the group
        self.settled = settle(self.source)


def _folder(at: Place) -> Publication:
    return publish_folder(at.source, at.folder / "folder", outputs=OUTPUTS, manifest={"key": "k"})


def _tree(at: Place) -> Publication:
    return publish_tree(at.source, at.folder / "tree", outputs=OUTPUTS)


def _file(at: Place) -> Publication:
    return publish_file(at.source / "a.json", at.folder / "file.json", kind="json")


def _bytes(at: Place) -> Publication:
    return publish_bytes(b"{}", at.folder / "bytes.json", kind="json")


def _found(at: Place) -> Publication | None:
    return found_folder(at.folder / "folder", "k")


def _key(at: Place) -> Any:
    return published_key(at.folder / "folder")


def _remove(at: Place) -> bool:
    made = at.folder / "removed"
    with contextlib.suppress(FileExistsError):
        made.touch()
    return remove(made, quota=None)


def _cells(at: Place) -> Any:
    settled = getattr(at, "settled", None) or settle(at.source)
    (outcome,) = publish_cells([Wanted(settled, at.folder / "folder", {"key": "k"})])
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _quota(at: Place) -> Any:
    at.quota.set_limits(1 << 20, None) if not (at.folder / "quota.json").exists() else None
    return at.quota.check(1, 1)


def _reserve(at: Place) -> bool:
    with at.quota.reserve(at.folder / "folder", 1, 1):
        return True


def _finished(at: Place) -> list[Any]:
    return list(staging.finished(at.folder, at.source.parent, "1-1"))


LOOKS: dict[str, Look] = {
    look.__name__: look
    for look in (_folder, _tree, _file, _bytes, _found, _key, _remove, _cells, _quota, _reserve, _finished)
}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[fs.Fuse]:
    with fs.fuse(tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    ("number", "cause"),
    [(errno.EIO, "io_error"), (errno.ESTALE, "stale_handle"), (errno.EMFILE, "too_many_open_files")],
)
def test_what_is_there_and_cannot_be_opened(served: fs.Fuse, tmp_path: Path, number: int, cause: str) -> None:
    at = Place(served.folder, tmp_path)
    for name, look in LOOKS.items():
        if name == "_remove":
            continue  # opens nothing that is there but the folder
        served.answers(open=number, create=number)
        with pytest.raises(TargetFullError) as fault:
            look(at)
        assert fault.value.cause == cause, name
        assert fault.value.path == str(at.folder), name
        served.answers()
        again = look(at)
        assert again, name
        if isinstance(again, Publication):
            assert again.found, name


def test_names_that_cannot_be_looked_up(served: fs.Fuse, tmp_path: Path) -> None:
    new = served.folder / "new"
    new.mkdir()
    at = Place(new, tmp_path)
    looks: dict[str, Callable[[], Any]] = {
        "folder": lambda: publish_folder(at.source, new / "x", outputs=OUTPUTS, manifest={"key": "k"}),
        "tree": lambda: publish_tree(at.source, new / "x", outputs=OUTPUTS),
        "bytes": lambda: publish_bytes(b"{}", new / "x", kind="json"),
        "found": lambda: found_folder(new / "x", "k"),
        "key": lambda: published_key(new / "x"),
        "remove": lambda: remove(new / "x", quota=None),
    }
    served.answers(getattr=errno.ESTALE)
    for name, look in looks.items():
        with pytest.raises(TargetFullError) as fault:
            look()
        assert fault.value.cause == "stale_handle", name
    (outcome,) = publish_cells([Wanted(at.settled, new / "x", {"key": "k"})])
    assert isinstance(outcome, TargetFullError) and outcome.cause == "stale_handle"


@pytest.mark.parametrize("name", ["_folder", "_bytes", "_found", "_key", "_cells", "_quota", "_reserve", "_finished"])
def test_without_a_free_descriptor(tmp_path: Path, name: str) -> None:
    (tmp_path / "t").mkdir()
    at = Place(tmp_path / "t", tmp_path)
    with fs.few_files(), pytest.raises(TargetFullError) as fault:
        LOOKS[name](at)
    assert fault.value.cause == "too_many_open_files"
    assert LOOKS[name](at)


def test_a_name_that_is_too_long_to_be_looked_up(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    at, target = Place(tmp_path / "t", tmp_path), tmp_path / ("x" * 300)
    for look in (
        lambda: publish_folder(at.source, target, outputs=OUTPUTS, manifest={"key": "k"}),
        lambda: publish_tree(at.source, target, outputs=OUTPUTS),
        lambda: publish_bytes(b"{}", target, kind="json"),
        lambda: remove(target, quota=None),
    ):
        with pytest.raises(TargetFullError) as fault:
            look()
        assert fault.value.cause == "name_too_long"


def test_finished_outputs_that_cannot_be_moved_now_are_moved_later(served: fs.Fuse) -> None:
    left, place = served.folder / ".staging-1-1/7", served.folder / ".staging-1-2/7"
    left.mkdir(parents=True)
    (left / "a").touch()
    served.answers(rename=errno.EIO)
    with pytest.raises(TargetFullError, match="input/output"):
        staging.take_over(left, place)
    served.answers()
    assert staging.take_over(left, place) and not staging.take_over(left, place)


def test_a_sweep_takes_nothing_that_it_cannot_look_at(served: fs.Fuse, tmp_path: Path) -> None:
    left = staging.folder(served.folder, tmp_path, "1-1") / "7"
    left.mkdir(parents=True)
    staging.note(left, {"cell": 7})
    served.answers(readdir=errno.EIO)
    assert (
        staging.sweep(served.folder, tmp_path)
        == 0
        == staging.clear(served.folder, tmp_path, ["1-1"], finished_too=False)
    )
    served.answers()
    assert left.is_dir() and staging.sweep(served.folder, tmp_path) == 0


def test_what_cannot_be_looked_at_stays_reserved(served: fs.Fuse) -> None:
    quota = ProjectQuota(served.folder.parent)
    with quota.reserve(served.folder / "one", 100, 1):
        (served.folder / "one").write_bytes(bytes(100))
        served.answers(getattr=errno.EIO)
    held = json.loads((served.folder.parent / "usage.json").read_text())
    assert held["bytes"] == 0 and list(held["pending"]) == ["mount/one"]
    served.answers()
    assert quota.usage() == (100, 1)
