"""Pushes under `kill -9` of client and api: each ends in a version that verifies, and what it left goes with `gc`.

A folder and an `rclone serve s3` bucket in turn. A round makes a fresh tree of small and large files, pushes it with a
real `headway dataset push`, and kills client or api, in turn, at random moments; whoever was killed is started again,
until the push is through. Then: one version, which verifies whole; nothing in the store but what manifests name and
what `gc` reports; nothing of the latter once `gc` has removed it; and each kill cost no more than what was under way.

    python tests/campaign/kill_push.py --kills 50 --seed 7

Prints one line a round and, last, one JSON object; the exit code is 0 when every round was good.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.client import Client
from headway.client.pushing.sending import CONNECTIONS
from headway.rules.access import Role
from headway.storage import layout
from headway.storage.manifests import open_manifest
from headway.store.sqlite import SqliteStore
from headway.testing.dataset_project import PACK, PART, Project, api_process, made, served, write
from headway.testing.s3servers import S3Server, S3ServerMissing, rclone_server
from headway.testing.services import caller

VICTIMS = ("client", "api")
#: kills of one round
KILLS = 5
#: seconds that one push may take that is not killed any more
PATIENCE = 180.0
#: beside the bodies a push sends rows, hashes and requests
TALK = 0.1


@dataclass
class Round:
    number: int
    place: str
    killed: list[str] = field(default_factory=list)
    bytes: int = 0
    #: bytes that went over the line that bodies go over
    sent: int = 0
    #: bytes of objects that `gc` removed
    garbage: int = 0
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)

    @property
    def allowed(self) -> int:
        """What may be sent: all of it once, and for each kill what was under way."""
        return round(self.bytes * (1 + TALK)) + len(self.killed) * CONNECTIONS * max(PACK, PART)


class Api:
    """The api that the project's line leads to; started again when it was killed."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._stack = ExitStack()

    def __enter__(self) -> Api:
        self.start()
        return self

    def __exit__(self, *about: object) -> None:
        self._stack.close()

    def start(self) -> None:
        self._process, self._project.api_line.target = self._stack.enter_context(api_process(self._project))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._stack.close()


def plant(folder: Path, chance: random.Random) -> int:
    """About 24 MB, all of it different; how many bytes."""
    files = {f"{n % 7}/{n:04}.bin": chance.randbytes(chance.randrange(2 * 16_000)) for n in range(900)}
    files |= {f"large/{n}.bin": chance.randbytes(PART * 9 + n) for n in range(4)}
    write(folder, files)
    return sum(map(len, files.values()))


def play(this: Round, project: Project, owner: Client, api: Api, chance: random.Random, span: float) -> None:
    name = f"d{this.number}"
    with tempfile.TemporaryDirectory(prefix="headway-tree-") as tree:
        this.bytes = plant(Path(tree), chance)
        began, before = time.monotonic(), project.line.sent
        client = project.begin_push(Path(tree), name)
        for victim in [VICTIMS[(this.number + n) % len(VICTIMS)] for n in range(KILLS)]:
            try:
                client.wait(chance.uniform(0, span))
                break
            except subprocess.TimeoutExpired:
                this.killed.append(victim)
            if victim == "api":
                api.kill()
                api.start()
            else:
                client.kill()
                client.wait()
                client = project.begin_push(Path(tree), name)
        if client.wait(PATIENCE):
            this.faults.append(f"the push ended with exit code {client.returncode}")
        this.seconds, this.sent = time.monotonic() - began, project.line.sent - before
    if this.sent > this.allowed:
        this.faults.append(f"{this.sent:,} bytes were sent, {this.allowed:,} are allowed")
    this.faults += check_version(project, name)
    this.faults += check_store(this, project, owner)


def check_version(project: Project, name: str) -> list[str]:
    # a number that was given to a publication that was killed is given to none again
    numbers = project.numbers(name)
    if len(numbers) != 1:
        return [f"versions of {name} are {numbers}, not one"]
    found = project.verify(numbers[0], name)
    return [f"{found.faulty} files of {name} do not verify"] if found.faulty or found.read_files < found.files else []


def check_store(this: Round, project: Project, owner: Client) -> list[str]:
    """Against what manifests name; collects the garbage."""
    named, there = of_versions(project), set(project.keys())
    reported = {item.key for item in owner.datasets.gc(older_than=0).items}
    with_indices = reported | {key.replace(".tar", ".json") for key in reported if "/packs/" in key}
    faults = [f"neither named nor reported: {key}" for key in sorted(there - named - with_indices)[:3]]
    faults += [f"reported although a version names it: {key}" for key in sorted(reported & named)[:3]]
    faults += [f"named and not there: {key}" for key in sorted(named - there)[:3]]
    this.garbage = owner.datasets.gc(dry_run=False, older_than=0).bytes
    faults += [f"left by gc: {key}" for key in sorted(set(project.keys()) - named)[:3]]
    return faults


def of_versions(project: Project) -> set[str]:
    """The keys that versions of the project stand for."""
    found: set[str] = set()
    for newest in project.client.datasets.ls():
        for version in project.client.datasets.versions(newest.name):
            found.add(layout.version_key(project.name, version.name, version.version))
            found.update(layout.keys(project.name, layout.MANIFEST, version.digest))
            for stored in open_manifest(project.store, project.name, version.digest).packs:
                found.update(layout.keys(project.name, stored.kind, stored.sha256))
    return found


def span_of(project: Project, chance: random.Random) -> float:
    """Seconds that a push of such a tree takes when nobody is killed."""
    with tempfile.TemporaryDirectory(prefix="headway-tree-") as tree:
        plant(Path(tree), chance)
        began = time.monotonic()
        project.begin_push(Path(tree), "first").wait(PATIENCE)
        return time.monotonic() - began


def campaign(place: str, project: Project, chance: random.Random, kills: int) -> list[Round]:
    caller(project.api.ctx, "olga", Role.OWNER, project.name)
    rounds: list[Round] = []
    with Api(project) as api, Client(project.api_line.url, project.api.token("olga"), project=project.name) as owner:
        span = span_of(project, chance)
        # some rounds are through before their last kill
        for number in range(1, 2 * kills):
            this = Round(number, place)
            try:
                play(this, project, owner, api, chance, span)
            except Exception as error:
                this.faults.append(f"{type(error).__name__}: {error}")
            rounds.append(this)
            print(line_of(this), flush=True)
            if sum(len(r.killed) for r in rounds) >= kills:
                break
    return rounds


def line_of(this: Round) -> str:
    return (
        f"{this.place} {this.number}: killed {', '.join(this.killed) or 'nothing'}; {this.seconds:.1f} s; "
        f"{this.sent / this.bytes:.2f} times its {this.bytes / 1e6:.0f} MB sent; {this.garbage:,} bytes of garbage; "
        f"{'good' if not this.faults else 'BAD: ' + '; '.join(this.faults)}"
    )


def summary(rounds: list[Round], seed: int, missing: list[str]) -> dict[str, Any]:
    good = sum(not this.faults for this in rounds)
    return {
        "campaign": "kill_push",
        "seed": seed,
        "rounds": len(rounds),
        "good": good,
        "killed": dict(Counter(victim for this in rounds for victim in this.killed)),
        "bytes": sum(this.bytes for this in rounds),
        "sent": sum(this.sent for this in rounds),
        "most_sent": round(max((this.sent / this.bytes for this in rounds if this.bytes), default=0.0), 3),
        "bad": [{"place": this.place, "round": this.number, "faults": this.faults} for this in rounds if this.faults],
        "missing": missing,
        "ok": bool(rounds) and good == len(rounds),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, help="for each place")
    parser.add_argument("--seed", type=int, default=None, help="decides trees and moments; a random one by default")
    arguments = parser.parse_args()
    seed = random.randrange(1 << 32) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    chance = random.Random(seed)
    rounds: list[Round] = []
    missing: list[str] = []
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headway-campaign-")))
        for name in ("home", "folder", "rclone"):
            (base / name).mkdir()
        places: dict[str, S3Server | None] = {"folder": None}
        try:
            places["rclone"] = stack.enter_context(rclone_server(base / "buckets"))
        except S3ServerMissing as gone:
            missing.append(str(gone))
        api = stack.enter_context(served(base / "home", SqliteStore(base / "home/headway.db")))
        for place, server in places.items():
            with made(api, base / place, server) as project:
                rounds += campaign(place, project, chance, arguments.kills)
    found = summary(rounds, seed, missing)
    print(json.dumps(found))
    return 0 if found["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
