"""The campaign in short: two evaluations. `make campaign` runs it at full length."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("kill_evaluations.py")


@pytest.mark.campaign
@pytest.mark.timeout(600)
def test_evaluations_lose_nothing_whoever_is_killed() -> None:
    command = [sys.executable, str(SCRIPT), "--kills", "30", "--each", "15"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=580)
    assert done.stdout, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["ok"], done.stdout + done.stderr
