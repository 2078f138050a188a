"""`headway.leave`: nothing that Python does at its end is lost, and no thread can abort the process any more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def run(tmp_path: Path, script: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "script.py").write_text(script)
    return subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )


def test_all_that_was_begun_is_finished_first(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
import atexit, threading, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import headway

def write(name):
    time.sleep(0.2)
    Path(name).write_text("whole")

atexit.register(lambda: print("registered", end=""))
threading.Thread(target=write, args=("thread",)).start()
ThreadPoolExecutor().submit(write, "pool")
headway.save_checkpoint(b"state", "last.bin", wait=False)
print("unflushed ", end="")
headway.leave()
print("never here")
""",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "unflushed registered", "")
    assert (tmp_path / "thread").read_text() == (tmp_path / "pool").read_text() == "whole"
    assert (tmp_path / "checkpoints" / "last.bin").read_bytes() == b"state"


def test_the_interpreter_is_not_taken_apart(tmp_path: Path) -> None:
    # an object that lives until the teardown of modules, where threads of gloo abort the process
    done = run(
        tmp_path,
        """
import os, sys, headway
class Last:
    def __del__(self):
        os._exit(134)
sys.modules["last"] = Last()
headway.leave()
""",
    )
    assert done.returncode == 0, done.stderr


def test_the_process_group_is_closed(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
import atexit, headway
import torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
atexit.register(lambda: print(dist.is_initialized()))
headway.leave()
""",
    )
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
