"""Other ways to make many small outputs that can be trusted: a bare loop, joblib, Ray tasks, Snakemake.

An output is written under a temporary name, fsynced, read back and checked, renamed into place, and its folder
fsynced; an output that is there and right is not made again. To know that, the bare forms make the content once more
and compare, which no real cell could do; `joblib` keeps headway's promise as well that a finished output is known
without running anything: its digest is written beside it in the same way.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from _rig import REPOSITORY

PEERS = REPOSITORY / ".peers"
#: what each of them runs for one cell; also what the bare loop runs
CELL = """
import hashlib, json, os, sys


def make(path, number, recorded=False):
    content = json.dumps({"score": number / 7}).encode()
    wanted = hashlib.sha256(content).hexdigest()
    known = read(path + ".sha256") if recorded else wanted.encode()
    if known and digest(path).encode() == known:
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write(path, content, check=json.load)
    if recorded:
        write(path + ".sha256", wanted.encode())
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def write(path, content, check=None):
    temporary = path + ".tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.write(fd, content)
    os.fsync(fd)
    os.close(fd)
    if digest(temporary) != hashlib.sha256(content).hexdigest():
        raise SystemExit("other bytes")
    if check:
        check(open(temporary))
    os.rename(temporary, path)


def digest(path):
    return hashlib.sha256(read(path)).hexdigest()


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


if __name__ == "__main__":
    make(sys.argv[1], int(sys.argv[2]))
"""
LOOP = """
import sys
from cell import make
for n in range(int(sys.argv[1])): make(f"out/{n // 17}/{n % 17}/score.json", n)
"""
JOBLIB = """
import sys
from joblib import Parallel, delayed
from cell import make
recorded = len(sys.argv) > 2
Parallel(n_jobs=2)(delayed(make)(f"out/{n // 17}/{n % 17}/score.json", n, recorded) for n in range(int(sys.argv[1])))
"""
RAY = """
import sys, ray
ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR")
@ray.remote
def task(n):
    from cell import make
    make(f"out/{n // 17}/{n % 17}/score.json", n)
ray.get([task.remote(n) for n in range(int(sys.argv[1]))])
"""
SNAKEFILE = """
import sys
MANY = int(config["many"])
rule all:
    input: [f"out/{n // 17}/{n % 17}/score.json" for n in range(MANY)]
rule cell:
    output: "out/{row}/{column}/score.json"
    # not `run:`, for which it starts a whole Snakemake each time
    shell: sys.executable + " cell.py {output} $(({wildcards.row} * 17 + {wildcards.column}))"
"""


def place(base: Path, name: str) -> Path:
    """An empty folder with the cell's module and every peer's program."""
    folder = base / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file, text in (("cell.py", CELL), ("loop.py", LOOP), ("joblib_.py", JOBLIB), ("ray_.py", RAY)):
        (folder / file).write_text(text)
    (folder / "Snakefile").write_text(SNAKEFILE)
    return folder


def command(peer: str, many: int) -> list[str] | None:
    """None where the peer is not installed."""
    snakemake = PEERS / "snakemake/bin"
    found = {
        "loop": [sys.executable, "loop.py", str(many)],
        "joblib": [str(snakemake / "python"), "joblib_.py", str(many), "recorded"],
        "joblib_bare": [str(snakemake / "python"), "joblib_.py", str(many)],
        "ray": [str(PEERS / "ray/bin/python"), "ray_.py", str(many)],
        "snakemake": [str(snakemake / "snakemake"), "--cores", "2", "--quiet", "all", "--config", f"many={many}"],
    }[peer]
    return found if Path(found[0]).exists() else None


def seconds(peer: str, folder: Path, many: int) -> float:
    """From the start of the peer's own process to its end. Raises SystemExit when an output is missing."""
    words = command(peer, many)
    assert words is not None
    environment = {**os.environ, "PYTHONPATH": str(folder), "RAY_DEDUP_LOGS": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    start = time.perf_counter()
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    took = time.perf_counter() - start
    made = sum(1 for path in folder.glob("out/*/*/score.json") if json.loads(path.read_text()))
    if done.returncode or made != many:
        raise SystemExit(f"bench: {peer} made {made} of {many}: {done.stderr[-500:]}")
    return took
