"""What the benchmarks share: a headway on a temporary home, rounds in turn, the table and its JSON line."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.client import Client

REPOSITORY = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
#: prints the clock as its first line: the same process for us, for every peer and for the limit
CLOCK = [PYTHON, "-c", "import time; print(time.time(), flush=True)"]
NOTHING = [PYTHON, "-c", "pass"]


@dataclass
class Row:
    what: str
    unit: str
    better: str
    ours: float | None = None
    limit: float | None = None
    peers: dict[str, float] = field(default_factory=dict)
    #: for people; not in the JSON
    target: str = ""

    def to_json(self) -> dict[str, Any]:
        figures = {"ours": self.ours, "limit": self.limit, "peers": self.peers}
        return {"what": self.what, "unit": self.unit, "better": self.better, **figures}


def arguments(about: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few and short rounds: whether it works, not what it says")
    parser.add_argument("--only", action="append", metavar="ROW", help="only this row; may be given again")
    parser.add_argument("--no-peers", action="store_true", help="leave the peers out")
    return parser.parse_args()


def report(bench: str, rows: list[Row], missing: dict[str, str]) -> None:
    """The table, why peers are missing, and the JSON object as the last line."""
    names = sorted({name for row in rows for name in row.peers})
    heads = ["what", "unit", "better", "ours", "limit", *names, "target"]
    lines = [heads]
    for row in rows:
        figures = [row.ours, row.limit, *(row.peers.get(name) for name in names)]
        lines.append([row.what, row.unit, row.better, *map(_shown, figures), row.target])
    widths = [max(len(line[n]) for line in lines) for n in range(len(heads))]
    print()
    for line in lines:
        print("  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip())
    for name, why in sorted(missing.items()):
        print(f"missing: {name} ({why})")
    print(flush=True)
    print(json.dumps({"bench": bench, "rows": [r.to_json() for r in rows], "missing": sorted(missing)}), flush=True)


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value < 10 else f"{value:.1f}"


def say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def in_turn(rounds: int, *measures: Callable[[], float]) -> list[float]:
    """Each measure once a round, so that what else the machine does falls on all alike: the medians."""
    found: list[list[float]] = [[] for _ in measures]
    for _ in range(rounds):
        for values, measure in zip(found, measures, strict=True):
            values.append(measure())
    return [statistics.median(values) for values in found]


def until(what: Callable[[], Any], seconds: float, why: str, pause: float = 0.02) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := what()):
        if time.monotonic() > deadline:
            raise SystemExit(f"bench: waited {seconds:.0f} s for {why}")
        time.sleep(pause)
    return found


@contextlib.contextmanager
def folder(within: Path | None = None) -> Iterator[Path]:
    """A temporary folder with a short path (Unix sockets lie in it), gone afterwards."""
    path = Path(tempfile.mkdtemp(prefix="hwb-", dir=within))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


class Headway:
    """A real `headway up` on a home of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._process: subprocess.Popen[bytes] | None = None
        self._client: Client | None = None

    def up(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        command = [PYTHON, "-m", "headway", "up", "--json", "--port", "0", "--home", str(self.home)]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HEADWAY_")}
        self.output = self.home / "bench-up.log"
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        self.url = until(lambda: self._said("ready"), 60, f"headway to be ready, see {self.output}")["url"]

    def _said(self, event: str, part: str | None = None) -> dict[str, Any] | None:
        assert self._process is not None
        if self._process.poll() is not None:
            raise SystemExit(f"bench: headway ended: {self.output.read_text()[-2000:]}")
        for line in self.output.read_text().splitlines():
            with contextlib.suppress(ValueError):
                record = json.loads(line)
                if record.get("event") == event and part in (None, record["part"]):
                    return record
        return None

    def done(self, command: list[str]) -> int:
        """The number of a job with one CPU, once it has succeeded. Raises SystemExit when it does not."""
        run = self.client.jobs.submit(command, cpus=1)
        ended = self.client.runs.wait(run.id, timeout=120)
        if ended.state != "succeeded":
            raise SystemExit(f"bench: run {run.id} is {ended.state}: {ended.reason}")
        return int(run.id)

    def wait_for_console(self) -> bool:
        """Until the console, which starts last, is there; False when it is not installed."""

        def settled() -> str | None:
            if self._said("part_ready", "console"):
                return "ready"
            return "absent" if "not installed" in self.output.read_text() else None

        try:
            return until(settled, 90, "the console", 0.2) == "ready"
        except SystemExit as error:
            said = [line for line in self.output.read_text().splitlines() if '"part": "console"' in line]
            raise SystemExit(f"{error}; it said: {' '.join(said[-2:])[:2000]}") from None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def client(self) -> Client:
        if self._client is None:
            token = (self.home / "admin.token").read_text().strip()
            self._client = Client(self.url, token, home=self.home)
        return self._client

    def down(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)
            self._process = None


@contextlib.contextmanager
def headway(home: Path) -> Iterator[Headway]:
    """Up within the block."""
    ours = Headway(home)
    try:
        ours.up()
        yield ours
    finally:
        ours.down()


def family(pid: int) -> list[Any]:
    """psutil processes: this one and all below it."""
    import psutil

    head = psutil.Process(pid)
    return [head, *head.children(recursive=True)]


def resident(processes: list[Any]) -> float:
    """MB of all together; memory that they share counts in each."""
    import psutil

    total = 0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            total += process.memory_info().rss
    return total / 1e6


def cpu_seconds(processes: list[Any]) -> float:
    import psutil

    total = 0.0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def took(command: list[str], environment: dict[str, str] | None = None) -> float:
    """Seconds from start to end of a command that must succeed."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - start
