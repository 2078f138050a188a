"""Which file system a folder is on, and whether it is still that one."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headway.protocol import identity
from headway.storage.full import TargetFullError
from headway.storage.mounts import Mount, Mounted, mount_of, remember, same

BOOT = identity.own().boot


@pytest.mark.parametrize(
    ("now", "carried", "right"),
    [
        (Mount("/mnt/a", 7, "here"), False, True),
        # mounted again as another device
        (Mount("/mnt/a", 9, "here"), True, True),
        (Mount("/mnt/a", 9, "here"), False, False),
        # away: the disk below, whatever lies there from before
        (Mount("/", 1, "here"), False, False),
        (Mount("/", 1, "here"), True, False),
        # what is mounted nearer has the folder, or has it not
        (Mount("/mnt/a/out", 9, "here"), True, True),
        (Mount("/mnt/a/out", 9, "here"), False, False),
        # another machine, or another boot: numbers tell nothing
        (Mount("/mnt/a", 9, "there"), False, True),
        (Mount("/", 7, "there"), False, False),
        (Mount("/data", 9, "there"), True, True),
        # a part of the same disk that went away: what is below has its number
        (Mount("/", 7, "here"), True, False),
        # a container has other mounts; the device is the machine's
        (Mount("/", 7, "here", "container"), False, True),
        (Mount("/", 9, "here", "container"), True, True),
        (Mount("/mnt/a", 9, "here", "container"), False, False),
    ],
)
def test_what_is_the_same(now: Mount, carried: bool, right: bool) -> None:
    assert same(Mount("/mnt/a", 7, "here"), now, carried=carried) is right


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """mount(name) puts a tmpfs at a folder of that name."""
    made: list[Path] = []

    def one(name: str) -> Path:
        place = tmp_path / name
        place.mkdir(exist_ok=True)
        if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], capture_output=True).returncode:
            pytest.skip("a tmpfs cannot be mounted")
        made.append(place)
        return place

    yield one
    for place in made:
        subprocess.run(["umount", "-l", place], check=False, capture_output=True)


def test_the_place_is_where_it_is_mounted_also_behind_a_link_and_before_the_folder_is_there(
    mount: Callable[[str], Path], tmp_path: Path
) -> None:
    disk = mount("disk")
    (tmp_path / "link").symlink_to(disk)
    expected = Mount(str(disk), disk.stat().st_dev, BOOT, os.readlink("/proc/self/ns/mnt"))
    for folder in (disk, disk / "a/b", tmp_path / "link/a"):
        assert mount_of(folder) == expected
    assert mount_of(tmp_path / "a").device == tmp_path.stat().st_dev
    assert Mount.from_json(expected.to_json()) == expected


def test_a_folder_whose_disk_goes_and_comes_back(mount: Callable[[str], Path], tmp_path: Path) -> None:
    disk, again = mount("disk"), mount("again")
    target = disk / "out"
    watched = Mounted(target, remember(target).to_json())
    watched.check()
    shutil.rmtree(target)
    watched.check()
    target.mkdir()
    (again / "out").mkdir()
    subprocess.run(["umount", "-l", disk], check=True)
    with pytest.raises(TargetFullError, match=f"nothing is mounted at {disk} any more") as away:
        watched.check()
    assert away.value.cause == "unmounted" and away.value.figures["mount"] == str(disk)
    # what was written below before does not make it right
    target.mkdir()
    assert watched.away() is not None
    target.rmdir()
    subprocess.run(["mount", "--move", again, disk], check=True)
    watched.check()


def test_a_part_of_a_disk_that_is_mounted_elsewhere_on_it_is_told_apart(
    mount: Callable[[str], Path], tmp_path: Path
) -> None:
    """Its device is that of what is below: only the number of the mount differs."""
    disk = mount("disk")
    part, place = disk / "part", disk / "place"
    for folder in (part, place):
        folder.mkdir()
    subprocess.run(["mount", "--bind", part, place], check=True)
    try:
        target = place / "out"
        known = remember(target)
        assert (known.place, known.device) == (str(place), disk.stat().st_dev)
        watched = Mounted(target, known.to_json())
        watched.check()
        subprocess.run(["umount", "-l", place], check=True)
        with pytest.raises(TargetFullError, match=f"nothing is mounted at {place} any more"):
            watched.check()
        # what was written below before does not make it right
        target.mkdir()
        assert watched.away() is not None
        subprocess.run(["mount", "--bind", part, place], check=True)
        watched.check()
    finally:
        subprocess.run(["umount", "-l", place], check=False)


def test_while_all_is_well_a_check_is_one_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Mounted(tmp_path)
    watched.check()
    opened, asked = os.open, []

    def counted(path: Path, flags: int) -> int:
        asked.append(path)
        return opened(path, flags)

    monkeypatch.setattr(os, "open", counted)
    watched.check()
    monkeypatch.undo()
    assert asked == [tmp_path]
