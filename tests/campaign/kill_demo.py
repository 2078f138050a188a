"""Demos with a `kill -9` of a random process of headway at a random moment: nothing finished may be lost or run twice.

Each round: `headway demo --json` on a fresh home; after a random delay one process that belongs to the home (the demo
itself, supervisor, parts, runner, helper, user processes) is killed; where that ended the demo, the same command is
given again. A round is good when the last line says 425 valid, 425 run, 1 pause, and ok.

    python tests/campaign/kill_demo.py --runs 20 --seed 7

Prints one line a round and, last, one JSON object; the exit code is 0 when every round was good. The home of a round
that was not good is kept, with the demo's output in `demo.log`.
"""

from __future__ import annotations

import argparse
import contextlib
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

CELLS = 425
#: how often the demo is given again before a round counts as bad
TRIES = 4
#: seconds that one demo may take
PATIENCE = 900.0
#: what a command line holds -> the role's name; the first that fits
ROLES = (
    ("headway demo", "demo"),
    ("-m headway demo", "demo"),
    ("headway-helper", "helper"),
    ("headway.supervisor", "supervisor"),
    ("headway/runner", "runner"),
    ("headway.runner", "runner"),
    ("headway.helper", "helper"),
    ("headway.script.worker", "worker"),
    ("headway.replica", "replica"),
    ("train.py", "train"),
    ("make_data.py", "prepare"),
    ("headway.bootstrap api", "api"),
    ("headway.bootstrap controller", "controller"),
    ("headway.bootstrap gateway", "gateway"),
    ("headway.bootstrap console", "console"),
)


@dataclass
class Round:
    number: int
    delay: float
    #: role of the process that was killed; None when none was left to kill
    killed: str | None = None
    demos: int = 0
    seconds: float = 0.0
    result: dict[str, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def processes(home: Path) -> dict[int, str]:
    """Process ids that belong to `home` (its path stands in their command line or environment), with their commands.

    Before the command stands the name that a fork has taken, where it took one.
    """
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        command = _read(f"/proc/{name}/cmdline")
        if command and str(home) in f"{command} {_read(f'/proc/{name}/environ')}":
            own = _read(f"/proc/{name}/comm")
            found[int(name)] = f"{own} {command}" if own.startswith("headway-") else command
    return found


def role(command: str) -> str:
    return next((name for part, name in ROLES if part in command), command[:60])


def kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def clear(home: Path) -> None:
    """Ends every process of `home`, also those that others of them start meanwhile."""
    deadline = time.monotonic() + 20
    while (left := processes(home)) and time.monotonic() < deadline:
        for pid in left:
            kill(pid)
        time.sleep(0.05)


def start(home: Path, arguments: list[str]) -> subprocess.Popen[bytes]:
    headway = Path(sys.executable).with_name("headway")
    with open(home.parent / "demo.log", "ab") as log:
        return subprocess.Popen(
            [str(headway), "demo", "--json", *arguments],
            env={**os.environ, "HEADWAY_HOME": str(home)},
            cwd=home.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )


def finish(demo: subprocess.Popen[bytes], home: Path) -> dict[str, Any] | None:
    """What the demo printed last, as JSON; None when it ended badly."""
    try:
        printed, _ = demo.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        demo.kill()
        printed, _ = demo.communicate()
    with open(home.parent / "demo.log", "ab") as log:
        log.write(printed + f"-- exit code {demo.returncode}\n".encode())
    lines = printed.decode("utf-8", "replace").strip().splitlines()
    if demo.returncode != 0 or not lines:
        return None
    with contextlib.suppress(ValueError):
        value = json.loads(lines[-1])
        return value if isinstance(value, dict) else None
    return None


def faults_of(result: dict[str, Any]) -> list[str]:
    """What is not as it must be at the end of a demo."""
    evaluation = result.get("evaluation") or {}
    wanted = {"cells": CELLS, "valid": CELLS, "ran": CELLS, "paused": 1}
    found = [f"{key} {evaluation.get(key)!r} instead of {n}" for key, n in wanted.items() if evaluation.get(key) != n]
    if result.get("ok") is not True:
        found.append(f"ok is {result.get('ok')!r}")
    return found


def play(this: Round, home: Path, chance: random.Random, arguments: list[str]) -> None:
    """One round; fills in what happened."""
    began = time.monotonic()
    demo = start(home, arguments)
    this.demos = 1
    with contextlib.suppress(subprocess.TimeoutExpired):
        demo.wait(timeout=this.delay)
    candidates = list(processes(home).items())
    chance.shuffle(candidates)
    for pid, command in candidates:
        if kill(pid):
            this.killed = role(command)
            break
    over = demo.poll() is not None
    result = finish(demo, home)
    if over:
        # the kill came after the end: what was finished must be found finished
        result = None
    while result is None and this.demos < TRIES:
        this.demos += 1
        result = finish(start(home, arguments), home)
    this.seconds = time.monotonic() - began
    if result is None:
        this.faults = [f"the demo ended badly {this.demos} times; see demo.log"]
    else:
        this.result, this.faults = result, faults_of(result)


def line_of(this: Round, runs: int) -> str:
    evaluation = this.result.get("evaluation") or {}
    return (
        f"round {this.number}/{runs}: killed {this.killed or 'nothing'} after {this.delay:.1f} s; demos {this.demos}; "
        f"{evaluation.get('valid')} valid, {evaluation.get('ran')} run, {evaluation.get('paused')} paused; "
        f"{this.seconds:.1f} s; {'good' if not this.faults else 'BAD: ' + '; '.join(this.faults)}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=None, help="decides the moments; a random one by default")
    parser.add_argument(
        "--span", type=float, default=None, help="seconds in which the kill falls; default: a demo's length"
    )
    parser.add_argument("--keep", action="store_true", help="keep every home, not only the bad ones'")
    parser.add_argument("demo", nargs="*", help="after `--`: more arguments for `headway demo`")
    arguments = parser.parse_args()
    seed = random.randrange(1 << 32) if arguments.seed is None else arguments.seed
    chance = random.Random(seed)
    base = Path(tempfile.mkdtemp(prefix="headway-campaign-"))
    # the first round's guess; from then on the length of a demo as it was seen here
    span = arguments.span or 60.0
    rounds: list[Round] = []
    for number in range(1, arguments.runs + 1):
        this = Round(number, delay=chance.uniform(0.5, span))
        folder = base / f"round-{number}"
        home = folder / "home"
        home.mkdir(parents=True)
        try:
            play(this, home, chance, arguments.demo)
        finally:
            clear(home)
        rounds.append(this)
        print(line_of(this, arguments.runs), flush=True)
        if arguments.span is None and not this.faults:
            span = max(5.0, this.seconds)
        if not this.faults and not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)
    good = sum(not this.faults for this in rounds)
    if good == len(rounds) and not arguments.keep:
        shutil.rmtree(base, ignore_errors=True)
    summary = {
        "campaign": "kill_demo",
        "seed": seed,
        "runs": len(rounds),
        "good": good,
        "killed": dict(Counter(this.killed or "nothing" for this in rounds)),
        "bad": [{"round": this.number, "killed": this.killed, "faults": this.faults} for this in rounds if this.faults],
        "folder": str(base) if base.exists() else None,
        "ok": good == len(rounds),
    }
    print(json.dumps(summary))
    return 0 if summary["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
