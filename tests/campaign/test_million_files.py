"""The campaign in short: ten thousand files. `make campaign` runs it at full length."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("million_files.py")


@pytest.mark.campaign
@pytest.mark.timeout(300)
def test_many_files_take_no_more_memory() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--files", "10000"], capture_output=True, text=True, timeout=280
    )
    assert done.stdout, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["ok"], done.stdout + done.stderr
