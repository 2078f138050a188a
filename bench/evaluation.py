"""Evaluations: what headway adds to the work of a cell, and how long it takes to know that all is done.

    python bench/evaluation.py [--quick] [--only ROW] [--no-peers]

Rows:
  cell        ms of an empty cell of a Python worker, published durably and verified; limit: a bare loop that writes,
              fsyncs, checks and renames
  first_425   seconds from the request to 425 valid cells, against a headway that is up; peers make the same files with
              the same guarantees; limit: the bare loop
  first_10k   ms a cell of 10,000, from the request to the last
  again_425   seconds until the same evaluation, asked for again, is known to be done; peers: their second run
  again_100k  the same for 100,000 cells, by record (their results are put into it, not made)
  shared_425, shared_100k  seconds until an evaluation of another name with the same cells has succeeded; it gets rows
              in the record, and an index, of its own

Peers (`make peers` installs them): joblib, Ray tasks, Snakemake.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from _cell_peers import command, place, seconds
from _rig import PYTHON, Headway, Row, arguments, folder, headway, in_turn, report, until
from headway.client.evaluations import ENDED
from headway.storage import indexes
from headway.store.sqlite import SqliteStore

EMPTY = """
class Empty:
    def load(self, checkpoint): pass
    def run(self, case, out):
        with open(out + "/score.json", "w") as file:
            file.write('{"score": 0.5}')
"""
CASES = 17


def plan(base: Path, many: int) -> Path:
    """An attempt's folder, as the controller makes it, with `many` cells to run."""
    attempt = base / "root/attempts/1-1"
    attempt.mkdir(parents=True)
    (base / "root/projects/p").mkdir(parents=True)
    (base / "code").mkdir()
    (base / "code/empty.py").write_text(EMPTY)
    weights = base / "weights"
    weights.write_bytes(b"weights")
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    rows = -(-many // CASES)
    cells = {
        "target": str(base / "root/projects/p/evaluations/1/outputs"),
        "work": str(attempt / "work"),
        "worker": "empty.py:Empty",
        "outputs": [{"name": "score.json", "kind": "json"}],
        "scores": "file",
        "score_file": "score.json",
        "score": "score",
        "checkpoints": [
            {"id": n, "name": f"c{n}", "row": f"c{n}", "path": str(weights), "sha256": digest} for n in range(rows)
        ],
        "cases": [{"id": f"case-{n}", "inputs": {}, "parameters": {}, "repeat": 0, "seed": 0} for n in range(CASES)],
        "deal": [[n + 1, n // CASES, n % CASES, f"c{n // CASES}/case-{n % CASES}", f"key-{n}"] for n in range(many)],
        "tries": 2,
    }
    whole = {"root": str(base / "root"), "objects": "", "project": "p", "cells": cells, "cache": str(base / "cache")}
    (attempt / "launch.json").write_text(
        json.dumps({"plan": {**whole, "project_folder": str(base / "root/projects/p")}})
    )
    return attempt


def run(base: Path, many: int) -> float:
    """Seconds a cell, from the worker's start to the last event; what starts takes (imports, forks) is taken off."""
    attempt = plan(base, many)
    address = str(base / "s")
    environment = {**os.environ, "HEADWAY_HELPER": address}
    words = [sys.executable, "-I", "-m", "headway.helper", str(attempt)]
    helper = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    assert helper.stdin and helper.stdout
    said: list[dict[str, Any]] = []
    while not (said and said[-1].get("prepared")):
        said.append(json.loads(helper.stdout.readline()))
    start = time.perf_counter()
    worker = subprocess.Popen(
        [PYTHON, "-m", "headway.script.worker"], cwd=base / "code", env=environment, stdout=subprocess.DEVNULL
    )
    told: list[dict[str, Any]] = []
    first = 0.0
    while len(told) < many:
        word = json.loads(helper.stdout.readline())
        told += word.get("event", {}).get("cells", []) if word.get("event", {}).get("event") == "cells" else []
        if told and not first:
            first, begun = time.perf_counter(), len(told)
    end = time.perf_counter()
    if worker.wait(30):
        raise SystemExit("bench: the worker failed")
    helper.stdin.write(b"finish\n")
    helper.stdin.flush()
    helper.communicate(timeout=30)
    print(f"  {many} cells in {end - start:.3f} s from the worker's start", file=sys.stderr)
    return (end - first) / (many - begun)


def cell(quick: bool) -> Row:
    many, rounds = (170, 1) if quick else (1700, 3)
    with folder() as base:
        numbers = iter(range(1000))

        def ours() -> float:
            return run(base / f"ours-{next(numbers)}", many) * 1000

        def loop() -> float:
            where = place(base, f"loop-{next(numbers)}")
            return (
                (seconds("loop", where, many) - seconds("loop", place(base, f"one-{next(numbers)}"), 1)) / many * 1000
            )

        (base / "none").mkdir()
        measured, limit = in_turn(rounds, ours, loop)
    return Row("cell", "ms", "lower", measured, limit, target=f"<= 4 x the bare loop; now {measured / limit:.2f} x")


TRAIN = """
import json, os, struct
from pathlib import Path
head = json.dumps({"w": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}).encode()
for epoch in range(1, %d + 1):
    part = Path(os.environ["CHECKPOINT_PATH"], f"epoch-{epoch:03}.part")
    part.write_bytes(struct.pack("<Q", len(head)) + head + struct.pack("<I", epoch))
    part.rename(part.with_suffix(".safetensors"))
"""


class House:
    """A headway that is up, and a job with `rows` checkpoints."""

    def __init__(self, ours: Headway, base: Path, rows: int) -> None:
        self.client, self.root = ours.client, base / "home/root"
        code = base / "code"
        code.mkdir(exist_ok=True)
        (code / "empty.py").write_text(EMPTY)
        self.snapshot = self.client.snapshots.push(code).digest
        train = [PYTHON, "-c", TRAIN % rows]
        job = self.client.jobs.submit(train, checkpoints=["*.safetensors"], spec="small")
        self.job = self.client.runs.wait(job.id, timeout=600)
        if self.job.state != "succeeded":
            raise SystemExit(f"bench: job {job.id} is {self.job.state}: {self.job.reason}")
        self.rows = rows

    def evaluate(self, name: str, columns: int, *, made_in: str, held: bool = False) -> tuple[float, int]:
        """Seconds from the request to its last valid cell, and its number. made_in: what tells keys apart."""
        cases = [{"id": f"case-{n}", "inputs": {"prompt": f"a thing number {n}"}} for n in range(columns)]
        start = time.perf_counter()
        made = self.client.evaluations.create(
            name=name, jobs=[self.job.id], cases=cases, parameters={"round": made_in}, worker="empty.py:Empty",
            outputs=[{"name": "score.json", "kind": "json"}], snapshot=self.snapshot, workers=2, spec="small",
            held=held,
        )  # fmt: skip
        if not held:
            found = self.client.evaluations.wait(made.id, states=ENDED | {"paused"}, timeout=1800)
            if found.state != "succeeded" or found.valid != found.cells:
                raise SystemExit(f"bench: evaluation {made.id} is {found.state}: {found.reason}")
        return time.perf_counter() - start, made.id

    def first(self, name: str, columns: int, *, made_in: str) -> float:
        """The same; what is put in order after the last cell (the index as a table) is waited for and not measured."""
        took, number = self.evaluate(name, columns, made_in=made_in)
        folder = self.root / f"projects/default/evaluations/{number}"
        until(lambda: indexes.made(folder) and not indexes.stale(folder), 60, f"the table of evaluation {number}", 0.05)
        return took


def small(quick: bool, peers: bool) -> list[Row]:
    """`first_425` and `again_425`, of one house."""
    rounds = 1 if quick else 5
    wanted = [peer for peer in ("joblib", "joblib_bare", "ray", "snakemake") if peers and command(peer, 1)]
    with folder() as base, headway(base / "home") as ours:
        ours.wait_for_console()
        house = House(ours, base, 25)
        # what is imported once by the servers is imported
        house.first("warm", CASES, made_in="warm")
        firsts: dict[str, list[float]] = {}
        agains: dict[str, list[float]] = {}
        shared = []
        for number in range(rounds):
            firsts.setdefault("ours", []).append(house.first(f"a-{number}", CASES, made_in=str(number)))
            agains.setdefault("ours", []).append(house.evaluate(f"a-{number}", CASES, made_in=str(number))[0])
            shared.append(house.first(f"b-{number}", CASES, made_in=str(number)))
            for peer in ["loop", *(wanted if number < 3 else [])]:
                where = place(base, peer)
                firsts.setdefault(peer, []).append(seconds(peer, where, 425))
                agains.setdefault(peer, []).append(seconds(peer, where, 425))
    return [
        _row("first_425", "s", firsts, "ahead of joblib, Ray and Snakemake"),
        _row("again_425", "s", agains, "< 0.3 s; 20 times faster than Snakemake"),
        Row("shared_425", "s", "lower", statistics.median(shared)),
    ]


def _row(what: str, unit: str, found: dict[str, list[float]], target: str) -> Row:
    medians = {name: statistics.median(values) for name, values in found.items()}
    ours, limit = medians.pop("ours"), medians.pop("loop")
    return Row(what, unit, "lower", ours, limit, medians, target)


def first_10k(quick: bool) -> Row:
    columns = 10 if quick else 100
    with folder() as base, headway(base / "home") as ours:
        house = House(ours, base, 100)
        house.evaluate("warm", 1, made_in="warm")
        many = house.rows * columns
        measured = house.evaluate("first", columns, made_in="first")[0] / many * 1000
        limit = seconds("loop", place(base, "loop"), many) / many * 1000
    return Row("first_10k", "ms", "lower", measured, limit, target="as `cell`: no cost that grows")


def again_100k(quick: bool) -> list[Row]:
    columns, rounds = (100, 1) if quick else (1000, 3)
    with folder() as base, headway(base / "home") as ours:
        house = House(ours, base, 100)
        _, number = house.evaluate("first", columns, made_in="first", held=True)
        _fill(base / "home", number)
        again = []
        for _ in range(rounds):
            took, found = house.evaluate("first", columns, made_in="first", held=True)
            if found != number or house.client.evaluations.get(found).valid != 100 * columns:
                raise SystemExit(f"bench: evaluation {number} asked for again is {found}")
            again.append(took)
        shared = [house.evaluate(f"shared-{n}", columns, made_in="first")[0] for n in range(rounds)]
    return [
        Row("again_100k", "s", "lower", statistics.median(again), target="< 4 s"),
        Row("shared_100k", "s", "lower", statistics.median(shared)),
    ]


def _fill(home: Path, evaluation: int) -> None:
    """Gives every cell of a held evaluation the result that its worker would have told."""
    store = SqliteStore(home / "headway.db")
    with store.begin() as tx:
        cells = tx.evaluations.cells(evaluation)
        output = {"name": "score.json", "bytes": 14, "sha256": "a" * 64, "kind": "json"}
        tx.evaluations.publish(
            {
                "cell": cell.id, "publication": f"filled-{cell.id}", "score": 0.5, "scores": {"score": 0.5},
                "outputs": [output], "path": cell.path, "seconds": 0.001, "bytes": 14, "files": 1, "ended_at": 1.0,
            }
            for cell in cells
        )  # fmt: skip
    store.close()


def main() -> None:
    asked = arguments(__doc__ or "")

    def wanted(*names: str) -> bool:
        return not asked.only or any(name in asked.only for name in names)

    rows = [cell(asked.quick)] if wanted("cell") else []
    rows += small(asked.quick, not asked.no_peers) if wanted("first_425", "again_425") else []
    rows += [first_10k(asked.quick)] if wanted("first_10k") else []
    rows += again_100k(asked.quick) if wanted("again_100k") else []
    missing = {p: "run `make peers`" for p in ("joblib", "ray", "snakemake") if not command(p, 1)}
    report("evaluation", rows, {} if asked.no_peers else missing)


if __name__ == "__main__":
    main()
