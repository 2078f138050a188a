"""How quickly what a run reports is taken in and given back: ours, MLflow's log_batch, and plain appends as the limit.

points      one headway.log of ten metrics after the other, until the runner has written the last, 1/s; MLflow:
            log_batch of 1,000 metrics each to a server of its own on SQLite; limit: a script that appends JSON lines
lines       printed lines with a metric in each, until the last line and the last point are written, 1/s; limit: `cat`
window      any window of a metric of 1,000,000 points, at most 1,000 of them, through the API, s; limit: an empty call
runner_cpu  what the runner takes at 1,000 lines a second, a metric in each, %; limit: a process that reads them
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import headway as package
from _rig import PYTHON, REPOSITORY, Headway, Row, arguments, folder, headway, in_turn, report, say, until
from headway.protocol.files import AttemptFolder, read_json, write_json
from headway.protocol.launch import Launch

POINTS = 1_000_000
MLFLOW = REPOSITORY / ".peers/mlflow/bin"

LOG = (
    "import headway, sys\nvalues = {f'metric_{n}': n / 7 for n in range(10)}\n"
    "for n in range(int(sys.argv[1]) // 10): headway.log(step=n, **values)\n"
)
APPEND = (
    "import json, sys, time\nfile = open(sys.argv[2], 'ab', buffering=0)\nfor n in range(int(sys.argv[1])):\n"
    "    point = {'step': n, 'name': 'loss', 'value': 0.5, 'rank': 0, 't': time.time()}\n"
    "    file.write(json.dumps(point).encode() + b'\\n')\n"
)
PRINT = (
    "import sys\nn, most = 0, int(sys.argv[1])\nwhile n < most:\n"
    "    sys.stdout.write(''.join(f'step={i} loss=0.12345\\n' for i in range(n, n + 100)))\n    n += 100\n"
)
#: 1,000 lines a second for so many seconds
STEADY = (
    "import sys, time\nstart, n, most = time.monotonic(), 0, float(sys.argv[1])\n"
    "while time.monotonic() - start < most:\n    due = int((time.monotonic() - start) * 1000)\n    while n < due:\n"
    "        n += 1\n        print(f'step={n} loss=0.12345', flush=True)\n    time.sleep(0.001)\n"
)
READ = "import os\nwhile os.read(0, 65536): pass\n"
PEER = """
import sys, time
from mlflow import MlflowClient
from mlflow.entities import Metric
client = MlflowClient(sys.argv[1])
run = client.create_run("0").info.run_id
batches = int(sys.argv[2])
client.log_batch(run, [Metric("warm", 1.0, 1, 1)])
start = time.perf_counter()
for b in range(batches):
    now = int(time.time() * 1000)
    client.log_batch(run, [Metric("loss", 0.5, now, b * 1000 + n) for n in range(1000)])
print(batches * 1000 / (time.perf_counter() - start))
"""


class Runner:
    """Runs by themselves, without a platform."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._numbers = itertools.count(1)
        self._program = str(Path(package.__file__).parent / "runner" / "__main__.py")

    def start(self, code: str, *arguments: object) -> AttemptFolder:
        number = next(self._numbers)
        attempt = f"{number}-1"
        place = AttemptFolder.of(self._root, attempt)
        place.path.mkdir(parents=True)
        launch = Launch(
            attempt=attempt,
            run=number,
            number=1,
            project="bench",
            command=[PYTHON, "-c", code, *map(str, arguments)],
            environment={"PATH": "/usr/bin:/bin"},
            cwd=str(place.path / "code"),
            nodes=[{"name": "bench", "address": "127.0.0.1", "accelerators": []}],
        )
        write_json(place.launch, launch.to_json())
        subprocess.run([PYTHON, "-I", "-S", self._program, str(place.path), "0"], check=True)
        return place

    def took(self, place: AttemptFolder) -> float:
        """Seconds from the start of the user's process to the end of the attempt."""
        ended = until(lambda: read_json(place.node().exit), 600, "a run's end", 0.02)
        if ended["code"] != 0:
            raise SystemExit(f"bench: {ended['message']}")
        return float(ended["ended"]) - float(ended["launched"])


def count(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def points(runner: Runner, many: int) -> float:
    place = runner.start(LOG, many)
    seconds = runner.took(place)
    taken = count(place.node().metrics)
    if taken < many:
        say(f"points: {many - taken} of {many} were dropped")
    return taken / seconds


def plain_points(base: Path, many: int) -> float:
    path = base / "plain.jsonl"
    start = time.perf_counter()
    subprocess.run([PYTHON, "-c", APPEND, str(many), str(path)], check=True)
    seconds = time.perf_counter() - start
    path.unlink()
    return many / seconds


def lines(runner: Runner, many: int) -> float:
    place = runner.start(PRINT, many)
    seconds = runner.took(place)
    got, taken = count(place.node().run_log), count(place.node().metrics)
    if got < many or taken < many:
        raise SystemExit(f"bench: {got} lines and {taken} points of {many}")
    return many / seconds


def plain_lines(base: Path, many: int) -> float:
    path = base / "plain.log"
    start = time.perf_counter()
    with (
        path.open("wb") as file,
        subprocess.Popen([PYTHON, "-c", PRINT, str(many)], stdout=subprocess.PIPE) as printing,
    ):
        subprocess.run(["cat"], stdin=printing.stdout, stdout=file, check=True)
    seconds = time.perf_counter() - start
    path.unlink()
    return many / seconds


def cpu_seconds(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def share(pid: int, seconds: float) -> float:
    """Per cent of one CPU over so many seconds, after a second and a half."""
    time.sleep(1.5)
    start, before = time.perf_counter(), cpu_seconds(pid)
    time.sleep(seconds)
    return 100 * (cpu_seconds(pid) - before) / (time.perf_counter() - start)


def runner_cpu(runner: Runner, seconds: float) -> float:
    place = runner.start(STEADY, seconds + 4)
    claim = until(lambda: read_json(place.node().runner), 30, "a runner")
    found = share(int(claim["pid"]), seconds)
    runner.took(place)
    return found


def reader_cpu(seconds: float) -> float:
    with (
        subprocess.Popen([PYTHON, "-c", STEADY, str(seconds + 4)], stdout=subprocess.PIPE) as printing,
        subprocess.Popen([PYTHON, "-c", READ], stdin=printing.stdout) as reading,
    ):
        return share(reading.pid, seconds)


def fill(ours: Headway, many: int) -> int:
    """A finished job with so many points of one metric; its number."""
    run = ours.done([PYTHON, "-c", "print('loss=1 step=0')"])
    random.seed(1)
    path = AttemptFolder.of(ours.home / "root", f"{run}-1").node().metrics
    path.unlink()
    with path.open("w") as file:
        for n in range(many):
            file.write(f'{{"step": {n}, "name": "loss", "value": {random.random()!r}, "rank": 0, "t": {n / 10}}}\n')
    return run


def window(ours: Headway, run: int, many: int) -> float:
    first, last = sorted(random.sample(range(many), 2))
    start = time.perf_counter()
    # as bytes: what a client makes of them is its own time
    body = get(ours, f"runs/{run}/metrics?name=loss&first={first}&last={last}&points=1000")
    seconds = time.perf_counter() - start
    (series,) = json.loads(body)
    if series["total"] != last - first + 1 or len(series["points"]) < min(series["total"], 500):
        raise SystemExit(f"bench: {series['total']} points from {first} to {last}")
    return seconds


def empty_call(ours: Headway) -> float:
    start = time.perf_counter()
    get(ours, "health")
    return time.perf_counter() - start


def get(ours: Headway, path: str) -> bytes:
    token = (ours.home / "admin.token").read_text().strip()
    request = urllib.request.Request(f"{ours.url}/api/v1/{path}", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        found: bytes = answer.read()
    return found


def mlflow(base: Path, batches: int) -> float:
    """Points a second of log_batch against a server of its own."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
    url, log = f"http://127.0.0.1:{port}", base / "mlflow.log"
    command = [str(MLFLOW / "mlflow"), "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{base}/mlflow.db", "--artifacts-destination", str(base / "a")]
    with log.open("wb") as output:
        # without its job queue, which this needs not
        environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        server = subprocess.Popen(command, stdout=output, stderr=output, env=environment, start_new_session=True)
    try:
        until(lambda: answers(f"{url}/health"), 300, f"MLflow's server: {log}", 0.5)
        peer = [str(MLFLOW / "python"), "-c", PEER, url, str(batches)]
        return float(subprocess.run(peer, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1])
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


def main() -> None:
    options = arguments(__doc__ or "")
    quick = options.quick
    many, turns, seconds, rounds, batches = (20_000, 1, 2.0, 10, 2) if quick else (POINTS, 3, 15.0, 200, 10)
    rows = {
        "points": Row("points", "1/s", "higher", target=">= 100 x mlflow"),
        "lines": Row("lines", "1/s", "higher", target=">= 100 x mlflow's points"),
        "window": Row("window", "s", "lower", target="< 0.05"),
        "runner_cpu": Row("runner_cpu", "%", "lower", target="< 1"),
    }
    wanted = [r for r in rows if not options.only or r in options.only]
    missing: dict[str, str] = {}
    with folder() as base:
        runner = Runner(base / "root")
        measures: dict[str, Any] = {
            "points": (lambda: points(runner, many), lambda: plain_points(base, many)),
            "lines": (lambda: lines(runner, many), lambda: plain_lines(base, many)),
            "runner_cpu": (lambda: runner_cpu(runner, seconds), lambda: reader_cpu(seconds)),
        }
        for name in [one for one in measures if one in wanted]:
            say(name)
            rows[name].ours, rows[name].limit = in_turn(turns, *measures[name])
        if options.no_peers or not {"points", "lines"} & set(wanted):
            missing["mlflow"] = "left out"
        elif not (MLFLOW / "mlflow").exists():
            missing["mlflow"] = "not installed: make peers"
        else:
            say("mlflow")
            rows["points"].peers["mlflow"] = rows["lines"].peers["mlflow"] = mlflow(base, batches)
        if "window" in wanted:
            say("window")
            with headway(base / "home") as ours:
                run = fill(ours, many)
                start = time.perf_counter()
                window(ours, run, many)
                say(f"the first look at {many} points took {time.perf_counter() - start:.2f} s")
                found = [(window(ours, run, many), empty_call(ours)) for _ in range(rounds)]
                say(f"the slowest of {rounds} windows took {max(one for one, _ in found):.4f} s")
                rows["window"].ours, rows["window"].limit = (
                    sorted(some)[rounds // 2] for some in zip(*found, strict=True)
                )
    report("metrics", [rows[r] for r in wanted], missing)


if __name__ == "__main__":
    sys.exit(main())
