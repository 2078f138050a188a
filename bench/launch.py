"""How quickly runs start: ours, Ray and Slurm, and a bare process as the limit.

first_line            submit to the user process's first output line (it prints the clock), s
throughput            runs that do nothing, submitted at once, end to end on 2 CPUs, 1/s
throughput_full_table the same with 10,000 finished and 10,000 held runs in the table
runner_start          the runner's own start: from its exec until the user process exists, s
"""

from __future__ import annotations

import dataclasses
import itertools
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

import headway as package
from _peers import KINDS, Ray, Slurm, running
from _rig import CLOCK, NOTHING, PYTHON, Headway, Row, arguments, folder, headway, in_turn, report, say, took, until
from headway.protocol.files import AttemptFolder, write_json
from headway.protocol.launch import Launch

CPUS = 2
HELD = FINISHED = 10_000


def bare_first_line() -> float:
    start = time.time()
    with subprocess.Popen(CLOCK, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        return float(process.stdout.readline()) - start


def first_line(ours: Headway) -> float:
    start = time.time()
    run = ours.done(CLOCK)
    line = next(line for line in ours.client.runs.logs(run).lines if line.stream == "out")
    return float(line.text) - start


def bare_throughput(runs: int) -> float:
    start = time.perf_counter()
    with ThreadPoolExecutor(CPUS) as pool:
        list(pool.map(lambda _: subprocess.run(NOTHING, check=True), range(runs)))
    return runs / (time.perf_counter() - start)


def throughput(ours: Headway, runs: int) -> float:
    client = ours.client
    start = time.perf_counter()
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: client.jobs.submit(NOTHING, cpus=1).id, range(runs)))
    until(lambda: not _left(ours), 600, "all runs to end", 0.1)
    seconds = time.perf_counter() - start
    # newest first: ours are on top, whatever else the table holds
    states = {run.id: run.state for run in client.runs.ls(limit=runs)}
    bad = [f"{i} {states.get(i)}" for i in made if states.get(i) != "succeeded"]
    if bad:
        raise SystemExit(f"bench: runs that did not succeed: {bad[:5]}")
    return runs / seconds


def _left(ours: Headway) -> bool:
    runs = ours.client.runs
    return bool(runs.ls(state="queued", limit=1) or runs.ls(state="live", limit=1))


def prepare(home: Path) -> None:
    """A home whose node has two CPUs, whatever this machine has."""
    home.mkdir(parents=True)
    node = {"name": "bench", "cpus": CPUS, "memory": "64GiB", "accelerators": []}
    (home / "nodes.yaml").write_text(yaml.safe_dump([node]))


def fill(home: Path) -> None:
    """10,000 finished and 10,000 held runs, like one that was really carried out, straight into the record."""
    from headway.rules.states import RunState
    from headway.store import tables
    from headway.store.sqlite import SqliteStore

    store = SqliteStore(home / "headway.db")
    with store.begin() as tx:
        (run,) = tx.runs.listing(limit=1)
        (attempt,) = tx.runs.attempts(run.id)
        number = itertools.count(run.id + 1)
        base = {**_fields(run), "key": None}
        finished = [{**base, "id": next(number)} for _ in range(FINISHED)]
        waiting = {"state": RunState.HELD, "attempts": 0, "started_at": None, "ended_at": None, "exit_code": None}
        held = [{**base, **waiting, "cause": None, "id": next(number)} for _ in range(HELD)]
        tx.connection.execute(tables.runs.insert(), finished + held)
        attempts = [{**_fields(attempt), "id": f"{r['id']}-1", "run_id": r["id"]} for r in finished]
        tx.connection.execute(tables.attempts.insert(), attempts)
    store.close()


def _fields(record: object) -> dict[str, object]:
    return {f.name: getattr(record, f.name) for f in dataclasses.fields(record)}  # type: ignore[arg-type]


class Runner:
    """Starts the runner by itself, without a platform."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._numbers = itertools.count(1)
        self._program = str(Path(package.__file__).parent / "runner" / "__main__.py")

    def start(self) -> float:
        number = next(self._numbers)
        attempt = f"{number}-1"
        place = AttemptFolder.of(self._root, attempt)
        place.path.mkdir(parents=True)
        launch = Launch(
            attempt=attempt,
            run=number,
            number=1,
            project="bench",
            command=CLOCK,
            environment={"PATH": "/usr/bin:/bin"},
            cwd=str(place.path / "code"),
            nodes=[{"name": "bench", "address": "127.0.0.1", "accelerators": []}],
        )
        write_json(place.launch, launch.to_json())
        start = time.time()
        subprocess.run([PYTHON, "-I", "-S", self._program, str(place.path), "0"], check=True)
        until(lambda: (place.node().exit).exists(), 30, "a runner's end", 0.005)
        return self._launched(place) - start

    @staticmethod
    def _launched(place: AttemptFolder) -> float:
        import json

        for line in place.node().events.read_text().splitlines():
            event = json.loads(line)
            if event["event"] == "launched":
                return float(event["at"])
        raise SystemExit(f"bench: the runner launched nothing: {place.node().diag_log.read_text()[-500:]}")


def main() -> None:
    options = arguments(__doc__ or "")
    quick = options.quick
    rounds, turns, runs, ray_rounds, ray_runs = (3, 1, 20, 1, 4) if quick else (20, 3, 200, 5, 20)
    rows = {
        "first_line": Row("first_line", "s", "lower", target="<= 5 x limit, <= ray / 10, < slurm"),
        "throughput": Row("throughput", "1/s", "higher", target=">= 12"),
        "throughput_full_table": Row("throughput_full_table", "1/s", "higher", target="within 20% of throughput"),
        "runner_start": Row("runner_start", "s", "lower", target="< 0.1"),
    }
    wanted = [r for r in rows if not options.only or r in options.only]
    missing: dict[str, str] = {}
    with folder() as base:
        if "runner_start" in wanted:
            say("runner_start")
            row, runner = rows["runner_start"], Runner(base / "root")
            row.ours, row.limit = in_turn(rounds, runner.start, lambda: took([PYTHON, "-I", "-S", "-c", "pass"]))
        if len(set(wanted) - {"runner_start"}):
            ours_and_slurm(base, rows, wanted, missing, rounds, turns, runs, peers=not options.no_peers)
    if not options.no_peers:
        with running(Ray, missing) as ray:
            if ray is not None:
                say("ray: first_line, throughput")
                if "first_line" in wanted:
                    (rows["first_line"].peers["ray"],) = in_turn(ray_rounds, ray.first_line)
                if "throughput" in wanted:
                    # a few are enough to know half a run a second
                    rows["throughput"].peers["ray"] = ray.throughput(ray_runs)
    else:
        missing.update({kind.name: "left out" for kind in KINDS})
    report("launch", [rows[r] for r in wanted], missing)


def ours_and_slurm(
    base: Path,
    rows: dict[str, Row],
    wanted: list[str],
    missing: dict[str, str],
    rounds: int,
    turns: int,
    runs: int,
    *,
    peers: bool,
) -> None:
    """Slurm idles cheaply enough to be measured in turn with us; Ray comes afterwards, alone."""
    prepare(base / "a")
    with headway(base / "a") as ours:
        first_line(ours)  # so that nothing is measured cold
        say("first_line")
        if peers:
            with running(Slurm, missing) as slurm:
                measure_with(slurm, ours, rows, wanted, rounds, runs)
        else:
            measure_with(None, ours, rows, wanted, rounds, runs)
        if not {"throughput", "throughput_full_table"} & set(wanted):
            return
        prepare(base / "b")
        with headway(base / "b") as full:
            first_line(full)
        fill(base / "b")
        with headway(base / "b") as full:
            first_line(full)
            say("throughput, with an empty table and a full one")
            plain, crowded, limit = in_turn(
                turns, lambda: throughput(ours, runs), lambda: throughput(full, runs), lambda: bare_throughput(runs)
            )
    rows["throughput"].ours, rows["throughput"].limit = plain, limit
    rows["throughput_full_table"].ours, rows["throughput_full_table"].limit = crowded, limit


def measure_with(
    slurm: Slurm | Ray | None, ours: Headway, rows: dict[str, Row], wanted: list[str], rounds: int, runs: int
) -> None:
    if "first_line" in wanted:
        row = rows["first_line"]
        measures = [lambda: first_line(ours), bare_first_line, *([slurm.first_line] if slurm else [])]
        row.ours, row.limit, *others = in_turn(rounds, *measures)
        if slurm:
            (row.peers["slurm"],) = others
    if slurm and "throughput" in wanted:
        say("slurm: throughput")
        rows["throughput"].peers["slurm"] = slurm.throughput(runs)


if __name__ == "__main__":
    main()
