"""Evaluations under `kill -9` of headway's and their own processes: nothing lost, nothing twice, nothing half counted.

One `headway up`, one job with 25 checkpoints, many evaluations of 25 x 17 cells whose worker writes each output in two
halves. While one runs, a victim is killed again and again at random moments: the controller, the api, a runner, a
helper, a worker or the child that runs the user's code. At its end all 425 outputs must be valid, published once, the
same bytes as an undisturbed run would have written, and nothing temporary and no process may be left.

    python tests/campaign/kill_evaluations.py --kills 1000 --seed 7

Prints one line an evaluation and, last, one JSON object; the exit code is 0 when every one was good.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from kill_demo import clear, kill, processes, role
from kill_jobs import of_attempts, start

from headway.client import Client
from headway.wire.evaluations import EvaluationView

CHECKPOINTS, CASES = 25, 17
#: how often each of them is chosen where it lives; those of a run live for seconds, and headway's own always
VICTIMS = {"controller": 2, "api": 1, "runner": 4, "helper": 4, "worker": 6}
#: a plain safetensors file for each epoch
TRAIN = """
import json, os, struct
from pathlib import Path
head = json.dumps({"w": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}).encode()
for epoch in range(1, %d + 1):
    path = Path(os.environ["CHECKPOINT_PATH"], f"epoch-{epoch}.safetensors")
    part = path.with_suffix(".part")
    part.write_bytes(struct.pack("<Q", len(head)) + head + struct.pack("<I", epoch))
    part.rename(path)
"""
WORKER = """
import hashlib, json, time
from pathlib import Path


def content(weights: bytes, case: dict) -> bytes:
    return hashlib.sha256(weights + json.dumps([case["id"], case["parameters"]]).encode()).hexdigest().encode() * 200


class Halves:
    def load(self, checkpoint):
        self.weights = Path(checkpoint).read_bytes()

    def run(self, case, out):
        whole = content(self.weights, case)
        with open(Path(out, "out.bin"), "wb") as file:
            file.write(whole[: len(whole) // 2])
            file.flush()
            time.sleep(0.01)
            file.write(whole[len(whole) // 2 :])
        Path(out, "score.json").write_text(json.dumps({"score": whole[0] / 256}))
"""
#: seconds for an evaluation to end once nothing is killed any more
PATIENCE = 180.0


@dataclass
class Round:
    number: int
    killed: list[str] = field(default_factory=list)
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)


class House:
    def __init__(self, base: Path) -> None:
        self.home, code = base / "home", base / "code"
        self.home.mkdir()
        code.mkdir()
        (code / "halves.py").write_text(WORKER)
        self.client: Client = start(self.home)
        self.snapshot = self.client.snapshots.push(code).digest
        job = self.client.jobs.submit(
            [sys.executable, "-c", TRAIN % CHECKPOINTS], checkpoints=["*.safetensors"], spec="small"
        )
        self.job = self.client.runs.wait(job.id, timeout=PATIENCE)
        if self.job.state != "succeeded":
            raise SystemExit(f"campaign: job {job.id} is {self.job.state}: {self.job.reason}")

    def evaluate(self, number: int) -> EvaluationView:
        return self.client.evaluations.create(
            name=f"round-{number}",
            jobs=[self.job.id],
            cases=[{"id": f"case-{n}"} for n in range(CASES)],
            parameters={"round": number},
            worker="halves.py:Halves",
            outputs=[{"name": "out.bin"}, {"name": "score.json", "kind": "json"}],
            snapshot=self.snapshot,
            workers=2,
            retries=1000,
            # a cell whose worker was killed has used up a try, and was no fault of its own
            tries=50,
            spec="small",
        )


def candidates(home: Path) -> dict[str, list[int]]:
    """Processes by what may be killed; "worker": the user's process of an attempt and its children."""
    found: dict[str, list[int]] = {}
    for pid, command in processes(home).items():
        kind = "worker" if "headway.script.worker" in command else role(command)
        found.setdefault(kind, []).append(pid)
    return found


def strike(this: Round, home: Path, chance: random.Random) -> None:
    by_kind = candidates(home)
    living = [victim for victim in VICTIMS if by_kind.get(victim)]
    if living:
        kind = chance.choices(living, [VICTIMS[victim] for victim in living])[0]
        if kill(chance.choice(by_kind[kind])):
            this.killed.append(kind)


def check(this: Round, house: House, evaluation: int) -> list[str]:
    client = house.client
    view = client.evaluations.wait(evaluation, timeout=PATIENCE)
    total = CHECKPOINTS * CASES
    faults = []
    if (view.state, view.valid, view.ran) != ("succeeded", total, total):
        faults.append(f"{view.state}: {view.valid} valid, {view.invalid} invalid, {view.ran} ran ({view.reason})")
    proof = client.evaluations.verify(evaluation)
    faults += [f"verify: {fault}" for fault in proof.faults[:3]]
    if proof.checked != view.valid:
        faults.append(f"verify looked at {proof.checked} of {view.valid}")
    checkpoints = {c.name: Path(c.path).read_bytes() for c in client.checkpoints.ls(house.job.id)}
    for cell in client.evaluations.cells(evaluation):
        word = checkpoints[cell.checkpoint] + json.dumps([cell.case, {"round": this.number}]).encode()
        right = hashlib.sha256(word).hexdigest().encode() * 200
        if cell.state == "valid" and Path(cell.path, "out.bin").read_bytes() != right:
            faults.append(f"cell {cell.id} holds other bytes")
    deadline = time.monotonic() + 15
    while (left := leftovers(house, Path(view.path))) and time.monotonic() < deadline:
        time.sleep(0.2)
    return [*faults, *left]


def leftovers(house: House, folder: Path) -> list[str]:
    """Processes of attempts, and what is hidden or temporary beside the outputs."""
    found = [f"process {pid} is left: {command[:80]}" for pid, command in of_attempts(house.home).items()]
    # unlike a glob, a walk does not mind a folder that is removed meanwhile
    names = [name for _, folders, files in os.walk(folder) for name in (*folders, *files)]
    return found + [f"{name} is left" for name in names if name.startswith(".")]


def play(this: Round, house: House, most: int, chance: random.Random) -> None:
    began = time.monotonic()
    evaluation = house.evaluate(this.number).id
    while len(this.killed) < most and house.client.evaluations.get(evaluation).state in ("running", "paused"):
        time.sleep(chance.uniform(0.0, 0.4))
        strike(this, house.home, chance)
    this.faults += check(this, house, evaluation)
    this.seconds = time.monotonic() - began


def line_of(this: Round) -> str:
    killed = ", ".join(f"{n} x {kind}" for kind, n in Counter(this.killed).items()) or "nothing"
    return f"evaluation {this.number}: killed {killed}; {this.seconds:.1f} s; " + (
        "good" if not this.faults else "BAD: " + "; ".join(this.faults[:5])
    )


def summary(rounds: list[Round], seed: int) -> dict[str, Any]:
    good = sum(not this.faults for this in rounds)
    return {
        "campaign": "kill_evaluations",
        "seed": seed,
        "evaluations": len(rounds),
        "good": good,
        "kills": sum(len(this.killed) for this in rounds),
        "killed": dict(Counter(victim for this in rounds for victim in this.killed)),
        "bad": [{"evaluation": this.number, "faults": this.faults} for this in rounds if this.faults],
        "ok": bool(rounds) and good == len(rounds),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--each", type=int, default=25, help="kills in one evaluation at most")
    parser.add_argument("--seed", type=int, default=None, help="decides victims and moments; a random one by default")
    arguments = parser.parse_args()
    seed = random.randrange(1 << 32) if arguments.seed is None else arguments.seed
    chance = random.Random(seed)
    base = Path(tempfile.mkdtemp(prefix="headway-campaign-"))
    rounds: list[Round] = []
    house: House | None = None
    try:
        house = House(base)
        while (left := arguments.kills - sum(len(r.killed) for r in rounds)) > 0:
            this = Round(len(rounds) + 1)
            try:
                play(this, house, min(left, arguments.each), chance)
            except Exception as error:
                this.faults.append(f"{type(error).__name__}: {error}")
            rounds.append(this)
            print(line_of(this), flush=True)
    finally:
        if house is not None:
            for pid, command in processes(house.home).items():
                if role(command) == "supervisor":
                    os.kill(pid, signal.SIGKILL)
            clear(house.home)
    found = summary(rounds, seed)
    if found["ok"]:
        shutil.rmtree(base, ignore_errors=True)
    print(json.dumps({**found, "folder": str(base) if base.exists() else None}))
    return 0 if found["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
