"""A version of a million tiny files: every command on it, its time, and the memory of client and api.

    python tests/campaign/million_files.py --files 1000000

Pushes a tree of tiny files, all different, into a folder store by a real `headway dataset push` and an api in a process
of its own; again unchanged; again with a hundred files changed and statistics made. Compares, verifies a sample, pulls
a folder, and asks what the console's page of the version asks. Prints one line a step and, last, one JSON object; the
exit code is 0 when every answer was right and no step took more memory than `--limit`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headway.rules import datasets as rules
from headway.store.sqlite import SqliteStore
from headway.testing.dataset_project import Project, api_process, made, served

#: files of one folder
FOLDER = 1000
#: files that the third push finds changed
CHANGED = 100
SIZES = (rules.PACK_BYTES, rules.LARGE_BYTES, rules.PART_BYTES)


@dataclass
class Step:
    name: str
    seconds: float
    #: most resident memory that the process had during the step
    client_mb: float
    api_mb: float
    faults: list[str]


class Campaign:
    """One version, its api in a process, and commands in processes of their own."""

    def __init__(self, project: Project, api: int, url: str, base: Path, files: int) -> None:
        self._project, self._api, self._base, self._files = project, api, base, files
        self._tree = base / "data"
        self.steps: list[Step] = []
        self._environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("HEADWAY_")},
            "HEADWAY_URL": url,
            "HEADWAY_TOKEN": project.token,
            "HEADWAY_HOME": str(project.home),
            "XDG_CACHE_HOME": str(base / "cache"),
        }

    def play(self) -> None:
        files, last = self._files, f"{(self._files - 1) // FOLDER:04}"
        folder = min(files, FOLDER)
        self._step("push", ["push", str(self._tree), "many", "--no-stats", "--json"], _is(version=1, files=files))
        again = ["push", str(self._tree), "many", "--no-stats", "--json"]
        self._step("push again", again, _is(version=1))
        for number in range(CHANGED):
            path_of(self._tree, number * (files // CHANGED)).write_bytes(b"changed %d" % number)
        with_statistics = [word for word in again if word != "--no-stats"]
        self._step("push changed", with_statistics, _is(version=2, files=files))
        self._step("diff", ["diff", "many@1", "many@2", "--json"], _is(changed=CHANGED, added=0, removed=0))
        sample = ["verify", "many@2", "--sample", "0.01", "--json"]
        self._step("verify 1%", sample, _is(faulty=0, files=files))
        into = self._base / "into"
        self._step("pull a folder", ["pull", "many@1", str(into), "--path", last, "--json"], _nothing)
        pulled = sum(1 for path in into.rglob("*") if path.is_file())
        if pulled not in (folder, files % FOLDER):
            self.steps[-1].faults.append(f"{pulled} files pulled")
        self._step("stats", ["stats", "many@2", "--json"], _is(files=files))
        self._step("page", self._page, _nothing)

    def _page(self) -> None:
        """What the console's page of the version asks for, by a client that lives already."""
        datasets = self._project.client.datasets
        datasets.versions("many")
        path = f"/projects/{self._project.name}/datasets/many/versions/2/files"
        call = self._project.transport.call
        first = call("GET", path, params={"limit": 50})
        call("GET", path, params={"limit": 50, "after": first["after"]})
        call("GET", path, params={"limit": 50, "prefix": f"{(self._files - 1) // FOLDER:04}"})

    def _step(self, name: str, words: list[str] | Callable[[], None], right: Callable[[Any], list[str]]) -> None:
        Path(f"/proc/{self._api}/clear_refs").write_text("5")
        began = time.monotonic()
        memory, faults = 0.0, []
        if callable(words):
            words()
        else:
            memory, faults = self._run(words, right)
        self.steps.append(Step(name, time.monotonic() - began, memory, peak(self._api), faults))
        said = "; ".join(faults) or "good"
        last = self.steps[-1]
        print(f"{name}: {last.seconds:.2f} s, client {memory:.0f} MB, api {last.api_mb:.0f} MB; {said}", flush=True)

    def _run(self, words: list[str], right: Callable[[Any], list[str]]) -> tuple[float, list[str]]:
        """A command's most memory in MB, and what is wrong with what it printed."""
        command = [sys.executable, "-m", "headway", "--project", self._project.name, "dataset", *words]
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as said:
            process = subprocess.Popen(command, env=self._environment, stdout=out, stderr=said)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            said.seek(0)
            memory = usage.ru_maxrss / 1024
            if process.returncode:
                return memory, [f"exit code {process.returncode}: {said.read()[-500:]}"]
            return memory, right(json.loads(out.read()))


def _is(**facts: object) -> Callable[[Any], list[str]]:
    def check(found: Any) -> list[str]:
        return [
            f"{key} is {found.get(key)!r}, not {value!r}" for key, value in facts.items() if found.get(key) != value
        ]

    return check


def _nothing(found: Any) -> list[str]:
    return []


def peak(pid: int) -> float:
    """Most resident memory of a process since it was last cleared, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def path_of(tree: Path, number: int) -> Path:
    return tree / f"{number // FOLDER:04}" / f"{number % FOLDER:03}.txt"


def plant(tree: Path, files: int) -> None:
    for number in range(files):
        path = path_of(tree, number)
        if number % FOLDER == 0:
            path.parent.mkdir(parents=True)
        with open(path, "wb", buffering=0) as out:
            out.write(b"file %d" % number)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--limit", type=float, default=300.0, help="MB that client and api may take")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headway-million-")))
        (base / "home").mkdir()
        plant(base / "data", arguments.files)
        api = stack.enter_context(served(base / "home", SqliteStore(base / "home/headway.db")))
        project = stack.enter_context(made(api, base, None))
        process, url = stack.enter_context(api_process(project, SIZES))
        project.api_line.target = url
        campaign = Campaign(project, process.pid, url, base, arguments.files)
        campaign.play()
    large = [s.name for s in campaign.steps if max(s.client_mb, s.api_mb) > arguments.limit]
    bad = [s.name for s in campaign.steps if s.faults]
    steps = [{k: round(v, 2) if isinstance(v, float) else v for k, v in asdict(s).items()} for s in campaign.steps]
    is_good = not large and not bad
    summary = {"campaign": "million_files", "files": arguments.files, "steps": steps, "too_large": large, "bad": bad}
    print(json.dumps({**summary, "ok": is_good}))
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
