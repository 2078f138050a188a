"""Spot runs, drills, prices, notices, the queue's order and projects' limits, from the outside."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from headway.client import Client
from headway.wire.runs import RunView

from .conftest import Server, eventually, start, stop

#: leaves when asked to, and is done the second time
LEAVES = """
import os, signal, sys, time
if os.environ["HEADWAY_ATTEMPT"].endswith("-1"):
    signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), os._exit(0)))
    print("up", flush=True)
    time.sleep(300)
print("went on", flush=True)
"""


class Place:
    """Two nodes of one CPU each, whose prices and notices the test writes."""

    def __init__(self, server: Server, base: Path) -> None:
        self.server, self.base = server, base

    def price(self, small: float) -> None:
        with open(self.base / "prices.csv", "a", encoding="utf-8") as file:
            file.write(f"{time.time()},small,{small}\n")

    def cli(self, *words: str) -> Any:
        done = self.server.cli(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def node(self, name: str) -> dict[str, Any]:
        return next(n for n in self.cli("node", "ls") if n["name"] == name)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    base = tmp_path_factory.mktemp("place")
    home = base / "home"
    home.mkdir()
    nodes = [{"name": n, "cpus": 1, "memory": "8GiB", "notice": str(base / f"{n}.going")} for n in ("n1", "n2")]
    (home / "nodes.yaml").write_text(yaml.safe_dump(nodes))
    (base / "prices.csv").write_text("time,spec,price\n0,small,0.01\n")
    (home / "config.yaml").write_text(yaml.safe_dump({"prices": str(base / "prices.csv")}))
    server = start(home)
    yield Place(server, base)
    stop(server)


@pytest.fixture
def client(place: Place) -> Iterator[Client]:
    with place.server.client() as opened:
        yield opened
        for run in opened.runs.ls(state="open"):
            opened.runs.stop(run.id, grace=0)
            opened.runs.wait(run.id, timeout=30)
        for node in opened.platform.nodes():
            opened.platform.undrain(node.name)


def leaver(client: Client, **values: Any) -> RunView:
    return client.jobs.submit([sys.executable, "-c", LEAVES], cpus=1, **{"billing": "spot", **values})


def is_up(client: Client, run: int) -> None:
    eventually(lambda: "up" in [line.text for line in client.runs.logs(run).lines], what="its first line")


def sleeper(client: Client, **values: Any) -> RunView:
    return client.jobs.submit([sys.executable, "-c", "import time; time.sleep(300)"], cpus=1, **values)


def running(client: Client, run: int) -> None:
    eventually(lambda: client.runs.get(run).state == "running", what="the run")


def test_the_drill_has_a_spot_run_save_leave_and_go_on(place: Place, client: Client) -> None:
    run = leaver(client).id
    is_up(client, run)
    node = client.runs.get(run).placement[0]["node"]
    assert [r["run"] for r in place.node(node)["runs"]] == [run]
    done = place.server.cli("node", "reclaim", node, "--grace", "20s")
    assert done.returncode == 0, done.stderr
    assert f"asked to save and leave {node}: run {run}" in done.stdout
    assert f"next: headway logs -f {run}" in done.stdout
    ended = client.runs.wait(run, timeout=60)
    assert (ended.state, ended.attempts, ended.reclaims) == ("succeeded", 2, 1)
    first = client.runs.attempts(run)[0]
    assert (first.cause, first.exit_code) == ("reclaimed", 0)
    assert f"reclaimed node {node}" in first.message
    bill = place.cli("bill", "--run", str(run))["entries"]
    assert {e["billing"] for e in bill} == {"spot"}
    assert all(e["price_hour"] == 0.01 for e in bill)


def test_a_run_on_demand_takes_a_spot_runs_place(place: Place, client: Client) -> None:
    spots = [leaver(client, spot={"protection": 0, "grace": 20}).id for _ in range(2)]
    for run in spots:
        is_up(client, run)
    demanding = sleeper(client).id
    running(client, demanding)
    gone = [run for run in spots if client.runs.get(run).reclaims or client.runs.get(run).state != "running"]
    assert len(gone) == 1
    attempt = client.runs.attempts(gone[0])[0]
    assert f"job {demanding}, which is on demand, needs its place" in attempt.reclaim_reason


def test_a_price_above_the_cap_takes_the_place_and_one_below_gives_it_back(place: Place, client: Client) -> None:
    place.price(0.01)
    run = leaver(client, spot={"bid": "cap", "max_price": 0.02, "grace": 20}).id
    is_up(client, run)
    place.price(0.03)
    waits = "waits for a spot price of at most 0.02 an hour: it is 0.03"
    eventually(lambda: client.runs.get(run).reason.replace("It waits", "waits").endswith(waits), what="the sentence")
    assert "above its bid of 0.02" in client.runs.attempts(run)[0].message
    (small,) = [p for p in place.cli("price", "ls") if p["spec"] == "small"]
    assert (small["spot"], small["on_demand"]) == (0.03, 0.04)
    place.price(0.015)
    assert client.runs.wait(run, timeout=60).state == "succeeded"


def test_a_machines_notice_moves_its_run_elsewhere(place: Place, client: Client) -> None:
    run = leaver(client, spot={"grace": 20}).id
    is_up(client, run)
    node = client.runs.get(run).placement[0]["node"]
    notice = place.base / f"{node}.going"
    notice.touch()
    try:
        ended = client.runs.wait(run, timeout=60)
        assert (ended.state, ended.reclaims) == ("succeeded", 1)
        assert ended.placement[0]["node"] != node
        eventually(lambda: place.node(node)["state"] == "drained", what="the drained node")
        assert "notice" in place.node(node)["reason"]
    finally:
        notice.unlink()
    eventually(lambda: place.node(node)["state"] == "up", what="the node")


def test_drained_nodes_take_nothing_and_the_queue_says_so(place: Place, client: Client) -> None:
    for node in ("n1", "n2"):
        done = place.server.cli("node", "drain", node, "--reason", "new disks")
        assert done.returncode == 0, done.stderr
        assert f"next: headway node undrain {node}" in done.stdout
    runs = [sleeper(client).id for _ in range(3)]
    eventually(lambda: "not up" in place.cli("queue", "ls")["entries"][0]["waits"], what="the sentence")
    assert "n1 is drained: new disks" in place.server.cli("node", "ls").stdout
    moved = place.server.cli("queue", "move", str(runs[2]), "--first")
    assert f"run {runs[2]} is first among those of priority 5" in moved.stdout
    assert [e["run"] for e in place.cli("queue", "ls")["entries"]] == [runs[2], runs[0], runs[1]]
    place.cli("queue", "move", str(runs[1]), "--before", str(runs[0]))
    shown = place.server.cli("queue", "ls").stdout.splitlines()
    assert [line.split()[1] for line in shown[1:4]] == [str(runs[2]), str(runs[1]), str(runs[0])]
    place.cli("node", "undrain", "n1")
    running(client, runs[2])
    assert client.runs.get(runs[1]).state == "queued"
    place.cli("node", "undrain", "n2")
    running(client, runs[1])


def test_a_projects_limits_hold(place: Place, client: Client) -> None:
    shown = place.server.cli("project", "limits", "default", "--runs", "1", "--memory", "4GiB", "--weight", "2")
    assert shown.returncode == 0, shown.stderr
    assert "runs: 0 used, 1" in shown.stdout.splitlines()
    assert "memory: 0 B used, 4.0 GiB" in shown.stdout.splitlines()
    assert "weight: 2" in shown.stdout.splitlines()
    try:
        first, second = sleeper(client).id, sleeper(client).id
        running(client, first)
        sentence = "project default may use 1 runs at once and uses 1"
        eventually(lambda: sentence in client.runs.get(second).reason, what="the sentence")
        view = place.cli("project", "limits", "default")
        assert (view["used"]["runs"], view["waiting"]) == (1, 1)
    finally:
        place.cli("project", "limits", "default", "--runs", "none", "--memory", "none", "--weight", "1")
    running(client, second)


def test_a_run_that_waits_too_long_fails(place: Place, client: Client) -> None:
    blockers = [sleeper(client).id for _ in range(2)]
    for run in blockers:
        running(client, run)
    late = client.runs.wait(sleeper(client, max_wait=2).id, timeout=30)
    assert (late.state, late.cause) == ("failed", "wait_limit")
    assert "max_wait" in late.reason


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("node", "drain", "n3"), 4, "There is no node 'n3'."),
        (("node", "reclaim", "n1"), 3, "Node n1 has no spot run: nothing runs there."),
        (("queue", "move", "1"), 2, "Where to is not clear."),
        (("queue", "move", "99999", "--first"), 4, "There is no run 99999"),
        (("project", "limits", "default", "--runs", "many"), 2, "--runs 'many' is no number."),
        (("project", "limits", "default", "--weight", "0"), 2, "weight"),
    ],
)
def test_what_makes_no_sense_is_refused(place: Place, words: tuple[str, ...], code: int, said: str) -> None:
    done = place.server.cli(*words)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
