"""The root conftest's promises, tried on small test files in a process of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"


@pytest.fixture
def tried(tmp_path: Path):
    """Runs pytest on a test file's text; returns (exit code, output)."""
    shutil.copy(CONFTEST, tmp_path / "conftest.py")

    def run(text: str, **variables: str) -> tuple[int, str]:
        (tmp_path / "test_it.py").write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
            env={**os.environ, "CI": "", **variables},
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.returncode, done.stdout

    return run


SKIPPING = "import pytest\n\ndef test_gpu():\n    pytest.skip('no GPU here')\n\ndef test_other():\n    pass\n"


def test_a_skip_is_listed_by_name_with_its_reason(tried) -> None:
    code, printed = tried(SKIPPING)
    assert code == 0
    assert "test_it.py::test_gpu: no GPU here" in printed


def test_a_skip_fails_where_nothing_may_be_skipped(tried) -> None:
    code, printed = tried(SKIPPING, CI="true")
    assert code == 1
    assert "test_it.py::test_gpu: no GPU here" in printed


def test_a_skipped_file_counts_as_well(tried) -> None:
    code, printed = tried(
        "import pytest\npytest.importorskip('no_such_module')\n\ndef test_it():\n    pass\n", CI="true"
    )
    assert code != 0
    assert "no_such_module" in printed


def test_headways_variables_do_not_reach_tests(tried) -> None:
    text = "import os\n\ndef test_it():\n    assert not [k for k in os.environ if k.startswith('HEADWAY_')]\n"
    assert tried(text, HEADWAY_HOME="/elsewhere", HEADWAY_PORT="1")[0] == 0
