"""How long one pass of the scheduler takes over a long queue (pure rules, no store, no engine).

pass              100,000 queued runs, 1,000 nodes with 8 accelerators each, all taken; 32 ended and 32 were submitted
                  since the last pass: what changed is taken in, the pass decides, what it placed is taken in, s
pass_short_queue  the same with 2,000 queued runs: what waits costs next to nothing
pass_idle         the same with one run submitted and nothing ended, s
pass_fresh        the same as `pass`, but everything is read anew: queue and cluster are built, then the pass, s

limit: walking once over the heads of all groups and over all nodes. Peer `naive`: the queue sorted by priority and
time, and for each run the nodes looked through for one with room (first fit; nothing kept, no limits, no sentences)
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, replace
from typing import Any

from _rig import Row, arguments, in_turn, report, say
from headway.rules.records import Attempt, Node, Project, Run
from headway.rules.scheduling import Cluster, Held, Queue, decide, shape_of
from headway.rules.scheduling.decide import stand_in
from headway.rules.states import AttemptState, Billing, RunState

GIB = 1 << 30
HOUR = 3600.0
START = 1_000_000_000.0
PROJECTS = 24
CHANGED = 32
KINDS = ("A100", "H100")
#: (nodes, accelerators on each, hours or none)
SHAPES = [(1, 1, 2), (1, 1, 12), (1, 1, None), (1, 2, 4), (1, 4, 8), (1, 4, None), (1, 8, 24), (2, 8, 24), (4, 8, 48)]


def a_run(rng: random.Random, id: int, now: float) -> Run:
    evaluation = rng.random() < 0.1
    nodes, accelerators, hours = SHAPES[0] if evaluation else rng.choice(SHAPES)
    spot = not evaluation and nodes == 1 and id % 5 == 0
    run = Run(
        id=id, project_id=1 + id % PROJECTS, owner="evaluation" if evaluation else "job", owner_id=None,
        name="",
        state=RunState.QUEUED, reason="", command=["true"], environment={}, parameters={}, spec="gpu",
        cpus=4.0 * accelerators, memory_bytes=32 * GIB * accelerators, accelerators=accelerators,
        accelerator_kind=rng.choice(KINDS), processes=1, priority=rng.choice((4, 5, 5, 5, 6)),
        max_duration=None if hours is None else hours * HOUR, grace=30.0, retries=3, attempts=0, losses=0,
        snapshot_id=None, datasets=[], work={}, key=None, submitted_by=1, created_at=now, started_at=None,
        ended_at=None, exit_code=None, cause=None, stop_at=None, stop_reason="", nodes=nodes, position=now,
        queued_at=now, billing=Billing.SPOT if spot else Billing.ON_DEMAND,
    )  # fmt: skip
    return replace(run, shape=shape_of(run))


def a_node(number: int) -> Node:
    kind = KINDS[number % len(KINDS)]
    devices = [{"index": i, "kind": kind, "memory_bytes": 80 * GIB, "uuid": f"{number}-{i}"} for i in range(8)]
    return Node(
        name=f"n{number:04}", engine="local", address="", cpus=64.0, memory_bytes=512 * GIB, accelerators=devices,
        declared=True, seen_at=START,
    )  # fmt: skip


@dataclass
class Site:
    """A cluster that is full and a queue that is long."""

    nodes: int
    waiting: int
    seed: int = 1

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.now = START
        self.number = 0
        self.projects = {
            i: Project(id=i, name=f"p{i}", quota_bytes=None, quota_files=None, created_at=START, weight=1.0 + i % 3,
                       limits={"accelerators": self.nodes * 2} if i % 4 == 0 else {})
            for i in range(1, PROJECTS + 1)
        }  # fmt: skip
        self.cluster = Cluster([a_node(i) for i in range(self.nodes)])
        self.queue = Queue()
        for _ in range(self.waiting):
            self.submit()
        while self.step():
            pass
        while len(self.queue) < self.waiting:
            self.submit()
        self.step()

    def submit(self) -> None:
        self.number += 1
        # over the last day, so that ageing has levels
        self.queue.add(a_run(self.rng, self.number, self.now - self.rng.random() * 24 * HOUR))

    def churn(self, count: int = CHANGED) -> None:
        """What happens between two passes: some end, as many are submitted."""
        self.now += 1.0
        for attempt_id in self.rng.sample(sorted(self.cluster.held), min(count, len(self.cluster.held))):
            self.cluster.end(attempt_id)
        for _ in range(count):
            self.submit()

    def step(self) -> int:
        """One pass and what it decided, taken in; how many it placed."""
        found = decide(self.queue.groups(), cluster=self.cluster, projects=self.projects, now=self.now)
        for placement in found.placements:
            self.queue.remove(placement.run.id)
            self.cluster.start(Held(placement.run, self._attempt(placement)))
        return len(found.placements)

    def _attempt(self, placement: Any) -> Attempt:
        return replace(
            stand_in(placement.run, placement.places, self.now), state=AttemptState.RUNNING, started_at=self.now
        )

    # -- what is measured

    def incremental(self) -> float:
        self.churn()
        start = time.perf_counter()
        self.step()
        return time.perf_counter() - start

    def idle(self) -> float:
        self.submit()
        start = time.perf_counter()
        self.step()
        return time.perf_counter() - start

    def fresh(self) -> float:
        self.churn()
        runs = [run for line in self.queue.lines() for run in line]
        nodes, held = [room.node for room in self.cluster.rooms.values()], list(self.cluster.held.values())
        start = time.perf_counter()
        queue, cluster = Queue(runs), Cluster.of(nodes, held)
        decide(queue.groups(), cluster=cluster, projects=self.projects, now=self.now)
        return time.perf_counter() - start

    def walk(self) -> float:
        start = time.perf_counter()
        heads = sum(1 for group in self.queue.groups() for run in group.heads if run.accelerators)
        rooms = sum(1 for room in self.cluster.rooms.values() if room.cpus >= 0)
        assert heads and rooms
        return time.perf_counter() - start

    def naive(self) -> float:
        self.churn()
        runs = [run for line in self.queue.lines() for run in line]
        free = {name: (room.cpus, room.memory_bytes, len(room.accelerators), room.node.accelerators[0]["kind"])
                for name, room in self.cluster.rooms.items()}  # fmt: skip
        start = time.perf_counter()
        runs.sort(key=lambda r: (-r.priority, r.position, r.id))
        for run in runs:
            fitting = []
            for name, (cpus, memory, devices, kind) in free.items():
                if devices >= run.accelerators and kind == run.accelerator_kind and cpus >= run.cpus:
                    if memory < run.memory_bytes:
                        continue
                    fitting.append(name)
                    if len(fitting) == run.nodes:
                        break
            if len(fitting) == run.nodes:
                for name in fitting:
                    cpus, memory, devices, kind = free[name]
                    free[name] = (cpus - run.cpus, memory - run.memory_bytes, devices - run.accelerators, kind)
        return time.perf_counter() - start


def main() -> None:
    options = arguments(__doc__ or "")
    nodes, waiting, short, rounds = (50, 2_000, 200, 3) if options.quick else (1_000, 100_000, 2_000, 15)
    rows = {
        "pass": Row("pass", "s", "lower", target="< 0.1"),
        "pass_short_queue": Row("pass_short_queue", "s", "lower", target="about pass"),
        "pass_idle": Row("pass_idle", "s", "lower", target="< pass"),
        "pass_fresh": Row("pass_fresh", "s", "lower"),
    }
    wanted = [r for r in rows if not options.only or r in options.only]
    say(f"a full cluster of {nodes} nodes, {waiting} queued")
    site = Site(nodes, waiting)
    small = Site(nodes, short)
    say(f"{len(site.queue.groups())} groups wait, {len(site.cluster.held)} attempts live")
    ours, shorter, idle, limit = in_turn(rounds, site.incremental, small.incremental, site.idle, site.walk)
    rows["pass"].ours, rows["pass_short_queue"].ours, rows["pass_idle"].ours = ours, shorter, idle
    rows["pass"].limit = limit
    if "pass_fresh" in wanted:
        (rows["pass_fresh"].ours,) = in_turn(min(rounds, 5), site.fresh)
    missing = {}
    if options.no_peers:
        missing["naive"] = "left out"
    elif "pass" in wanted:
        say("the naive pass")
        (rows["pass"].peers["naive"],) = in_turn(1 if not options.quick else 2, site.naive)
    report("scheduler", [rows[r] for r in wanted], missing)


if __name__ == "__main__":
    main()
