"""The campaign in short: one round. `make campaign` runs it at full length."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).with_name("kill_demo.py")


@pytest.fixture(scope="module")
def campaign() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kill_demo", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_a_homes_processes_are_found_by_argument_and_by_variable(campaign: ModuleType, tmp_path: Path) -> None:
    wait = "import sys; print(flush=True); sys.stdin.read()"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", wait, *words], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for words, variables in (
            ([str(tmp_path)], dict(os.environ)),
            ([], {**os.environ, "CHECKPOINT_PATH": str(tmp_path / "checkpoints")}),
            (["/elsewhere"], dict(os.environ)),
        )
    ]
    try:
        for process in started:
            process.stdout.readline()
        assert set(campaign.processes(tmp_path)) == {started[0].pid, started[1].pid}
    finally:
        for process in started:
            process.communicate()


@pytest.mark.parametrize(
    ("evaluation", "ok", "faults"),
    [
        ({"cells": 425, "valid": 425, "ran": 425, "paused": 1}, True, 0),
        ({"cells": 425, "valid": 425, "ran": 426, "paused": 1}, True, 1),
        ({"cells": 425, "valid": 424, "ran": 425, "paused": 2}, False, 3),
        (None, None, 5),
    ],
)
def test_what_counts_as_a_fault(campaign: ModuleType, evaluation: object, ok: object, faults: int) -> None:
    assert len(campaign.faults_of({"evaluation": evaluation, "ok": ok})) == faults


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_a_killed_demo_ends_with_every_cell_run_once() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--runs", "1", "--span", "25"], capture_output=True, text=True, timeout=880
    )
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["ok"], done.stdout + done.stderr
