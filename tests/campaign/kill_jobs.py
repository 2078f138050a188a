"""Jobs under `kill -9` of headway's and their own processes: every one ends as it should, and says everything it said.

One `headway up`, many rounds. A round submits jobs whose right end is known, kills a victim at a random moment
(controller, api, runner, one rank, or one of each at once), waits for all ends and checks: the state and the cause; no
process left of any attempt; every line that a rank had flushed is in the log, once, in order.

    python tests/campaign/kill_jobs.py --runs 200 --seed 7

Prints one line a round and, last, one JSON object; the exit code is 0 when every round was good.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from kill_demo import clear, kill, processes, role

from headway.client import Client

VICTIMS = ("controller", "api", "runner", "rank", "all")
#: a line is counted, in a file of the rank's own, once it was handed to the kernel
COUNT = """
import os, sys, time
rank, attempt = os.environ["RANK"], os.environ["HEADWAY_ATTEMPT"]
file = os.open(os.path.join(os.environ["OUTPUT_PATH"], f"{attempt}.{rank}"), os.O_WRONLY | os.O_CREAT)
until = time.monotonic() + 1.5
n = 0
while time.monotonic() < until:
    n += 1
    os.write(1, b"line %d\\n" % n)
    os.pwrite(file, b"%d" % n, 0)
    time.sleep(0.001)
"""
LEAVES = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
time.sleep(1)
"""
#: name -> (program, other fields of the job, states and causes that are right)
JOBS: dict[str, tuple[str, dict[str, Any], set[tuple[str, str]]]] = {
    "counts": (COUNT, {"processes": 2}, {("succeeded", "done")}),
    "leaves": (LEAVES, {}, {("succeeded", "done")}),
    "fails": ("import sys, time; time.sleep(1); sys.exit(7)", {}, {("failed", "exit")}),
    "limited": ("import time; time.sleep(600)", {"max_duration": 1.5, "grace": 1}, {("failed", "time_limit")}),
}
#: seconds for all jobs of a round to end
PATIENCE = 120.0


@dataclass
class Round:
    number: int
    delay: float
    victim: str
    killed: list[str] = field(default_factory=list)
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)


def environment(home: Path) -> dict[str, str]:
    return {**{k: v for k, v in os.environ.items() if not k.startswith("HEADWAY_")}, "HEADWAY_HOME": str(home)}


def start(home: Path) -> Client:
    subprocess.run(
        [sys.executable, "-m", "headway", "up", "--detach", "--port", "0"],
        env=environment(home), check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    up = json.loads((home / "up.json").read_text())
    return Client(up["url"], (home / "admin.token").read_text().strip(), patience=60.0)


def ranks(home: Path) -> list[int]:
    """Process ids of user processes that have a rank."""
    found = []
    for pid in processes(home):
        try:
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(v.startswith(b"LOCAL_RANK=") for v in variables):
            found.append(pid)
    return found


def of_attempts(home: Path) -> dict[int, str]:
    """Every process of any attempt: runners, helpers, user processes and what those started."""
    found = {}
    for pid, command in processes(home).items():
        try:
            variables = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if b"HEADWAY_ATTEMPT=" in variables:
            found[pid] = command
    return found


def strike(this: Round, home: Path, chance: random.Random) -> None:
    wanted = ("controller", "api", "runner", "rank") if this.victim == "all" else (this.victim,)
    by_role: dict[str, list[int]] = {"rank": ranks(home)}
    for pid, command in processes(home).items():
        if pid not in by_role["rank"]:
            by_role.setdefault(role(command), []).append(pid)
    for pid_role in wanted:
        candidates = by_role.get(pid_role, [])
        if candidates and kill(chance.choice(candidates)):
            this.killed.append(pid_role)


def missing_lines(output: Path, said: dict[tuple[str, int], list[int]]) -> list[str]:
    """What ranks had flushed and the log does not have exactly once and in order. said: by attempt and rank."""
    found = []
    for file in sorted(output.iterdir()):
        attempt, _, rank = file.name.partition(".")
        counted = int(file.read_text() or 0)
        lines = said.get((attempt, int(rank)), [])
        if lines != list(range(1, len(lines) + 1)):
            found.append(f"attempt {attempt} rank {rank}: lines are out of order or twice")
        elif len(lines) < counted:
            found.append(f"attempt {attempt} rank {rank}: {counted} lines flushed, {len(lines)} in the log")
    return found


def check(client: Client, name: str, job: int, right: set[tuple[str, str]]) -> list[str]:
    view = client.runs.wait(job, timeout=PATIENCE)
    faults = []
    if (view.state, view.cause) not in right:
        faults.append(f"{name} {job}: {view.state} with cause {view.cause} ({view.reason})")
    if name == "counts":
        said: dict[tuple[str, int], list[int]] = {}
        for line in client.runs.all_logs(job):
            if line.stream == "out" and line.text.startswith("line "):
                said.setdefault((line.attempt, line.rank), []).append(int(line.text[5:]))
        faults += [f"{name} {job}: {text}" for text in missing_lines(Path(view.output_path), said)]
    return faults


def play(this: Round, client: Client, home: Path, chance: random.Random) -> None:
    began = time.monotonic()
    jobs = []
    for name, (program, fields, right) in JOBS.items():
        view = client.jobs.submit(
            [sys.executable, "-c", program], name=name, spec="small", cpus=0.25, memory_bytes=256 << 20, **fields
        )
        jobs.append((name, view.id, right))
    time.sleep(max(0.0, this.delay - (time.monotonic() - began)))
    strike(this, home, chance)
    for name, job, right in jobs:
        this.faults += check(client, name, job, right)
    deadline = time.monotonic() + 10
    while (left := of_attempts(home)) and time.monotonic() < deadline:
        time.sleep(0.1)
    this.faults += [f"process {pid} is left: {command[:80]}" for pid, command in left.items()]
    this.seconds = time.monotonic() - began


def line_of(this: Round, runs: int) -> str:
    return (
        f"round {this.number}/{runs}: killed {', '.join(this.killed) or 'nothing'} after {this.delay:.2f} s; "
        f"{this.seconds:.1f} s; {'good' if not this.faults else 'BAD: ' + '; '.join(this.faults)}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None, help="decides victims and moments; a random one by default")
    parser.add_argument("--span", type=float, default=2.5, help="seconds after the submit in which the kill falls")
    arguments = parser.parse_args()
    seed = random.randrange(1 << 32) if arguments.seed is None else arguments.seed
    chance = random.Random(seed)
    base = Path(tempfile.mkdtemp(prefix="headway-campaign-"))
    home = base / "home"
    home.mkdir()
    rounds: list[Round] = []
    try:
        client = start(home)
        for number in range(1, arguments.runs + 1):
            this = Round(number, chance.uniform(0.0, arguments.span), VICTIMS[(number - 1) % len(VICTIMS)])
            try:
                play(this, client, home, chance)
            except Exception as error:
                this.faults.append(f"{type(error).__name__}: {error}")
            rounds.append(this)
            print(line_of(this, arguments.runs), flush=True)
    finally:
        for pid, command in processes(home).items():
            if role(command) == "supervisor":
                os.kill(pid, signal.SIGKILL)
        clear(home)
    good = sum(not this.faults for this in rounds)
    if good == len(rounds):
        shutil.rmtree(base, ignore_errors=True)
    summary = {
        "campaign": "kill_jobs",
        "seed": seed,
        "runs": len(rounds),
        "good": good,
        "killed": dict(Counter(victim for this in rounds for victim in this.killed)),
        "bad": [{"round": this.number, "killed": this.killed, "faults": this.faults} for this in rounds if this.faults],
        "folder": str(base) if base.exists() else None,
        "ok": bool(rounds) and good == len(rounds),
    }
    print(json.dumps(summary))
    return 0 if summary["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
