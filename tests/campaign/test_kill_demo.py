"""The campaign in short: one round. `make campaign` runs it at full length."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("kill_demo.py")


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_a_killed_demo_ends_with_every_cell_run_once() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--runs", "1", "--span", "25"],
        capture_output=True,
        text=True,
        timeout=880,
    )
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["ok"], done.stdout + done.stderr
