"""A file system that goes away and comes back: a tmpfs that stays mounted elsewhere. Needs root."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def kept_disk(base: Path) -> Iterator[Path]:
    """`base/disk`, mounted; `unmount` and `mount` lose nothing that is on it. Skips where nothing can be mounted."""
    if os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    place, kept = base / "disk", base / "kept"
    for folder in (place, kept):
        folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", kept], capture_output=True).returncode:
        pytest.skip("a tmpfs cannot be mounted")
    try:
        mount(place)
        yield place
    finally:
        for folder in (place, kept):
            subprocess.run(["umount", "-l", folder], check=False, capture_output=True)


def mount(place: Path) -> None:
    subprocess.run(["mount", "--bind", place.with_name("kept"), place], check=True)


def unmount(place: Path) -> None:
    subprocess.run(["umount", "-l", place], check=True)
