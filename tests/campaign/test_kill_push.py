"""The campaign in short: a round in each place. `make campaign` runs it at full length."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("kill_push.py")


@pytest.mark.campaign
@pytest.mark.timeout(300)
def test_pushes_are_resumed_whoever_is_killed() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--kills", "2"], capture_output=True, text=True, timeout=280)
    assert done.stdout, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["ok"], done.stdout + done.stderr
