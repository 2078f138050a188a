"""The campaign in short: a few rounds. `make campaign` runs it at full length."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("kill_jobs.py")


@pytest.mark.campaign
@pytest.mark.timeout(600)
def test_jobs_end_as_they_should_whoever_is_killed() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--runs", "5"], capture_output=True, text=True, timeout=580)
    assert done.stdout, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["ok"], done.stdout + done.stderr
