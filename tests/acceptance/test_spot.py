"""A spot run on real data, reclaimed ten times at random moments: it ends where an undisturbed one does, to the bit."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from headway.client import Client
from headway.engines.local import LocalEngine
from headway.protocol.files import AttemptFolder
from headway.wire.runs import RunView

from .conftest import Server, eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits"
EPOCHS, DRILLS = 60, 10
_EPOCH = re.compile(r" o epoch (\d+)/")
_STOPPED = re.compile(r" o asked to end in epoch (\d+)")
_RESUMED = re.compile(r" o goes on from (\S+), epoch (\d+)")


class House:
    def __init__(self, server: Server, client: Client, code: str) -> None:
        self.server, self.client, self.code = server, client, code
        self.root = server.home / "root"
        #: what the controller does when a place is wanted back
        self.engine = LocalEngine(self.root)

    def submit(self, **values: Any) -> RunView:
        command = ["python", "train.py", "--epochs", str(EPOCHS), "--seed", "3"]
        return self.client.jobs.submit(
            command, snapshot=self.code, datasets=["digits"], cpus=1, checkpoints=["*.pt"], **values
        )

    def attempt(self, run: int) -> str | None:
        view = self.client.runs.get(run)
        return view.attempt if view.state == "running" else None

    def lines(self, attempt: str) -> list[str]:
        log = AttemptFolder.of(self.root, attempt).node().run_log
        return log.read_text(errors="replace").splitlines() if log.exists() else []

    def epochs(self, attempt: str) -> list[int]:
        return [int(m[1]) for line in self.lines(attempt) if (m := _EPOCH.search(line))]

    def reclaim(self, attempt: str, grace: float) -> None:
        self.engine.stop(attempt, grace=grace, cause="reclaimed", message="The drill wants its place back.")


@pytest.fixture
def house(fresh: Server, tmp_path: Path) -> Iterator[House]:
    data, code = tmp_path / "data", tmp_path / "code"
    subprocess.run([sys.executable, EXAMPLE / "make_data.py", data], check=True, timeout=120)
    shutil.copytree(EXAMPLE, code, ignore=shutil.ignore_patterns("data", "__pycache__"))
    with fresh.client() as client:
        client.datasets.push("digits", data)
        yield House(fresh, client, client.snapshots.push(code).digest)


@pytest.mark.timeout(900)
def test_reclaimed_ten_times_it_ends_with_the_same_weights(house: House) -> None:
    chance = random.Random(2604)
    undisturbed = house.submit(name="undisturbed")
    assert house.client.runs.wait(undisturbed.id, timeout=120).state == "succeeded"
    spot = house.submit(name="spot", billing="spot", spot={"protection": 0, "grace": 20})
    attempts: list[str] = []
    for _ in range(DRILLS):
        attempt = eventually(
            lambda: (a := house.attempt(spot.id)) not in attempts and a, what=f"attempt {len(attempts) + 1}"
        )
        assert isinstance(attempt, str)
        attempts.append(attempt)
        # a random moment: before its first line, in its first epoch, or some epochs later
        wanted = chance.choice([0, 1, 1, 2, 3])
        eventually(lambda a=attempt, w=wanted: len(house.epochs(a)) >= w, what=f"epoch {wanted} of {attempt}")
        time.sleep(chance.random() * 0.3)
        # with time to save, and sometimes with none
        house.reclaim(attempt, grace=chance.choice([20.0, 20.0, 0.0]))
    ended = house.client.runs.wait(spot.id, timeout=120)
    assert ended.state == "succeeded", ended.reason
    last = eventually(lambda: house.client.runs.get(spot.id).attempt)
    assert isinstance(last, str)
    attempts.append(last)
    assert [a.partition("-")[2] for a in attempts] == [str(n) for n in range(1, DRILLS + 2)]

    whole = {c.name: c for c in house.client.runs.checkpoints(undisturbed.id)}
    ours = {c.name: c for c in house.client.runs.checkpoints(spot.id)}
    names = [f"epoch-{n:02d}.pt" for n in range(1, EPOCHS + 1)]
    assert sorted(whole) == names and set(names) <= set(ours)
    assert all(c.valid for c in ours.values())
    # every epoch's state, optimiser and all, in bytes
    assert {n: ours[n].sha256 for n in names} == {n: whole[n].sha256 for n in names}
    final, expected = (torch.load(c[names[-1]].path, weights_only=True) for c in (ours, whole))
    assert all(torch.equal(final["model"][k], expected["model"][k]) for k in expected["model"])

    check_each_went_on_from_the_newest(house, attempts)


def check_each_went_on_from_the_newest(house: House, attempts: list[str]) -> None:
    """No epoch that an attempt had finished is done again but the one whose checkpoint the kill may have cut off."""
    finished, stopped = 0, 0
    for attempt in attempts:
        launch = json.loads(AttemptFolder.of(house.root, attempt).launch.read_text())
        resume = launch["environment"].get("RESUME_FROM")
        lines = house.lines(attempt)
        told = next((m for line in lines if (m := _RESUMED.search(line))), None)
        if told is not None:
            assert told[1] == resume
            assert int(told[2]) >= finished, f"{attempt} lost more than one interval"
            if stopped and int(told[2]) == stopped - 1:
                assert Path(told[1]).name == f"stopped-epoch-{stopped - 1:02d}.pt"
        epochs = house.epochs(attempt)
        if epochs and told is not None:
            assert epochs[0] == int(told[2]) + 1
        # printed after its checkpoint was saved whole
        finished = max([finished, *epochs])
        stopped = next((int(m[1]) for line in lines if (m := _STOPPED.search(line))), 0)
