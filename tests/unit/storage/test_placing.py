"""A copy of a cached content where no link can be made."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from headway.storage.cache import place


def test_a_copy_that_does_not_fit_is_no_file_cut_short(tmp_path: Path) -> None:
    content = tmp_path / "content"
    content.write_bytes(os.urandom(100_000))
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", disk]).returncode:
        pytest.skip("a tmpfs cannot be mounted")
    try:
        place._copy(content, disk / "first")
        assert (disk / "first").read_bytes() == content.read_bytes()
        with pytest.raises(OSError, match="No space left"):
            place._copy(content, disk / "second")
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
