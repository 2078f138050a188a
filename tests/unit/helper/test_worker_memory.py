"""A cell that the kernel killed for its memory says so, with the limit; one that somebody killed does not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.runner import memory

from .conftest import BEGIN, Home, Start, Worked

LIMIT = 160 << 20
BOMB = "bytearray(b'x') * (400 << 20)"


@pytest.fixture
def group() -> Iterator[Path]:
    """A cgroup whose processes are killed one by one, as where a run's own cannot be killed as a whole."""
    made = memory.make(f"headway-test-{os.getpid()}", LIMIT)
    if made is None:
        pytest.skip("no cgroup can be made here")
    whole = Path(made.path, "memory.oom.group")
    if whole.exists():
        whole.write_text("0")
    yield Path(made.path)
    made.close()


def run(home: Home, helpers: Start, group: Path, code: str, count: int, **rule: object) -> Worked:
    """Runs the cells in a worker that moves into the cgroup once it is there, as a runner moves its processes."""
    helper, address = helpers(home.cells("1-1", count, tries=1, **rule))
    helper.prepared()
    (home.path / "evaluate.py").write_text(code)
    begin = f"open({str(group / 'cgroup.procs')!r}, 'w').write('0')\nfrom headway.script.worker import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", begin],
        cwd=home.path,
        env={"HEADWAY_HELPER": address, "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return Worked(helper, done)


def test_a_cell_that_needs_too_much_memory_says_so_and_the_others_go_on(
    home: Home, helpers: Start, group: Path
) -> None:
    killed = "        if n == 2: os.kill(os.getpid(), signal.SIGKILL)\n"
    code = f"{BEGIN}        if n == 1: {BOMB}\n{killed}        write(out)\n"
    done = run(home, helpers, group, code, 3)
    cause, reason = done.invalid[2]
    assert cause == "oom_kill"
    assert "it may use 160 MiB of memory in all" in reason and "more memory" in reason
    # pages of files that others use too count for it, and not for the group
    assert 80 < int(reason.split("used up to ")[1].split()[0]) < 300
    assert done.valid == [1] and done.invalid[3] == ("killed", "The worker was killed by SIGKILL.")


def test_a_command_that_needs_too_much_memory_says_so(home: Home, helpers: Start, group: Path) -> None:
    command = [sys.executable, "-c", BOMB]
    done = run(home, helpers, group, "", 1, worker=None, command=command)
    cause, reason = done.invalid[1]
    assert cause == "oom_kill" and "160 MiB" in reason
