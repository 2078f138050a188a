"""A simulated year of a cluster of 64 accelerators: what the queue promises holds all along, and little stands idle.

Pure and seeded: arrivals and true durations are drawn once; time goes from event to event, with a pass at each.
"""

from __future__ import annotations

import heapq
import math
import random
import statistics
from collections import Counter
from dataclasses import dataclass, field, replace

from headway.rules.records import Project, Run
from headway.rules.scheduling import Cluster, Decision, Held, Queue, decide, shape_of
from headway.rules.scheduling.decide import stand_in
from headway.rules.states import AttemptState, Billing, RunState

from .conftest import node, run

GIB = 1 << 30
HOUR, DAY, YEAR = 3600.0, 86_400.0, 365 * 86_400.0
NODES, EACH = 8, 8
#: (share of runs, nodes, accelerators on each)
SIZES = [(40, 1, 1), (14, 1, 2), (16, 1, 4), (16, 1, 8), (4, 2, 4), (7, 2, 8), (3, 4, 8)]
#: hours that people allow; None: no limit
LIMITS = [1, 2, 4, 8, 12, 24, 48, 72]
PROJECTS = {
    1: Project(id=1, name="a", quota_bytes=None, quota_files=None, created_at=0.0, weight=2.0),
    2: Project(id=2, name="b", quota_bytes=None, quota_files=None, created_at=0.0),
    3: Project(id=3, name="c", quota_bytes=None, quota_files=None, created_at=0.0, limits={"accelerators": 40}),
    4: Project(id=4, name="d", quota_bytes=None, quota_files=None, created_at=0.0, limits={"runs": 12, "nodes": 6}),
}


@dataclass(frozen=True)
class Arrival:
    at: float
    run: Run
    #: true seconds, which nobody knows beforehand
    seconds: float


def drawn(seed: int, load: float, until: float = YEAR) -> list[Arrival]:
    """Runs of a year that ask for `load` of the cluster on average: more in some weeks and by day, less in others."""
    rng = random.Random(seed)
    found: list[Arrival] = []
    now = 0.0
    total = sum(weight for weight, _, _ in SIZES)
    mean_size = sum(weight * nodes * each for weight, nodes, each in SIZES) / total
    mean_seconds = statistics.fmean(_seconds(rng) for _ in range(20_000))
    rate = load * NODES * EACH / (mean_size * mean_seconds)
    while True:
        busy = (1.25 if int(now // (14 * DAY)) % 2 else 0.75) * (1.5 if 8 <= (now % DAY) / HOUR < 20 else 0.5)
        now += rng.expovariate(rate * busy)
        if now >= until:
            return found
        _, nodes, each = rng.choices(SIZES, [s[0] for s in SIZES])[0]
        seconds = _seconds(rng)
        allowed = next(hours for hours in LIMITS if hours * HOUR >= seconds * rng.uniform(1.0, 1.3) or hours == 72)
        found.append(Arrival(now, _asked(rng, len(found) + 1, now, nodes, each, allowed), seconds))


def _seconds(rng: random.Random) -> float:
    """From minutes to three days, 16 h on average."""
    return min(max(rng.lognormvariate(10.4, 1.2), 300.0), 71 * HOUR)


def _asked(rng: random.Random, id: int, now: float, nodes: int, each: int, hours: float) -> Run:
    evaluation = nodes * each == 1 and rng.random() < 0.3
    spot = nodes == 1 and rng.random() < 0.15
    one = run(
        id,
        project_id=rng.choices((1, 2, 3, 4), (4, 3, 2, 2))[0],
        owner="evaluation" if evaluation else "job",
        cpus=6.0 * each,
        memory_bytes=48 * GIB * each,
        accelerators=each,
        nodes=nodes,
        priority=rng.choices((3, 5, 7), (2, 7, 1))[0],
        max_duration=None if rng.random() < 0.02 else hours * HOUR,
        grace=60.0,
        position=now,
        queued_at=now,
        created_at=now,
        billing=Billing.SPOT if spot else Billing.ON_DEMAND,
    )
    return replace(one, shape=shape_of(one))


@dataclass
class Year:
    """Carries out what `decide` says, and checks each word of it by books of its own."""

    arrivals: list[Arrival]
    until: float = YEAR
    now: float = 0.0
    waited: dict[int, float] = field(default_factory=dict)
    ended: dict[int, float] = field(default_factory=dict)
    reclaims: int = 0
    passes: int = 0
    #: (node, accelerator) -> attempt
    owners: dict[tuple[str, int], str] = field(default_factory=dict)
    #: accelerator-seconds, within the year
    busy: float = 0.0

    def __post_init__(self) -> None:
        self.nodes = [node(f"n{i}", 64.0, 512 * GIB, ("A100",) * EACH) for i in range(NODES)]
        self.cluster = Cluster(self.nodes)
        self.queue = Queue()
        self.left = {a.run.id: a.seconds for a in self.arrivals}
        #: attempt -> when it began
        self.began: dict[str, float] = {}
        self.events = [(a.at, n, "arrives", a.run.id) for n, a in enumerate(self.arrivals)]
        heapq.heapify(self.events)
        self.number = len(self.events)
        self.runs = {a.run.id: a.run for a in self.arrivals}

    def go(self) -> None:
        while self.events:
            self.now = self.events[0][0]
            while self.events and self.events[0][0] <= self.now:
                _, _, what, which = heapq.heappop(self.events)
                getattr(self, what)(which)
            self.step()

    def _at(self, when: float, what: str, which: object) -> None:
        self.number += 1
        heapq.heappush(self.events, (when, self.number, what, which))  # type: ignore[arg-type]

    # -- events

    def arrives(self, run_id: int) -> None:
        self.queue.add(self.runs[run_id])

    def ends(self, attempt_id: str) -> None:
        held = self.cluster.held.get(attempt_id)
        if held is not None and not held.leaving:
            self._leave(held)
            self.ended[held.run.id] = self.now

    def leaves(self, attempt_id: str) -> None:
        """What was reclaimed has saved its work and is queued again."""
        held = self.cluster.held[attempt_id]
        self.left[held.run.id] -= self.now - self.began[attempt_id]
        self._leave(held)
        if self.left[held.run.id] <= 0:
            self.ended[held.run.id] = self.now
            return
        again = replace(held.run, state=RunState.QUEUED, attempts=held.run.attempts + 1, queued_at=self.now)
        self.runs[again.id] = again
        self.queue.add(again)

    def _leave(self, held: Held) -> None:
        self.cluster.end(held.attempt.id)
        devices = [key for key, owner in self.owners.items() if owner == held.attempt.id]
        for key in devices:
            del self.owners[key]
        self.busy += len(devices) * max(0.0, min(self.now, self.until) - min(self.began[held.attempt.id], self.until))

    # -- a pass

    def step(self) -> None:
        self.passes += 1
        found = decide(
            self.queue.groups(), cluster=self.cluster, projects=PROJECTS, now=self.now, clock=lambda when: ""
        )
        self._place(found)
        for reclaim in found.reclaims:
            held = self.cluster.held[reclaim.attempt.id]
            assert held.run.billing is Billing.SPOT
            assert held.attempt.started_at is not None and self.now - held.attempt.started_at >= HOUR
            assert held.attempt.reclaim_at is None, "reclaimed twice"
            self.reclaims += 1
            self.cluster.start(replace(held, attempt=replace(held.attempt, reclaim_at=self.now)))
            self._at(self.now + 90.0, "leaves", held.attempt.id)

    def _place(self, found: Decision) -> None:
        for placement in found.placements:
            one = placement.run
            names = [place.node.name for place in placement.places]
            assert len(set(names)) == len(names) == one.nodes, "a gang is split"
            attempt = replace(
                stand_in(one, placement.places, self.now), state=AttemptState.RUNNING, started_at=self.now
            )
            for place in placement.places:
                assert len(place.accelerators) == one.accelerators
                for index in place.accelerators:
                    assert 0 <= index < EACH
                    assert (place.node.name, index) not in self.owners, "an accelerator given twice"
                    self.owners[place.node.name, index] = attempt.id
            self.queue.remove(one.id)
            self.cluster.start(Held(one, attempt))
            self.began[attempt.id] = self.now
            self.waited.setdefault(one.id, self.now - self.arrivals[one.id - 1].at)
            self._at(self.now + self.left[one.id], "ends", attempt.id)
        if found.placements:
            self._check()

    def _check(self) -> None:
        cpus, memory = Counter[str](), Counter[str]()
        used = {project: Counter[str]() for project in PROJECTS}
        where: dict[int, set[str]] = {project: set() for project in PROJECTS}
        for held in self.cluster.held.values():
            mine = used[held.run.project_id]
            mine["runs"] += 1
            mine["accelerators"] += held.run.nodes * held.run.accelerators
            for place in held.attempt.placement:
                cpus[place["node"]] += place["cpus"]
                memory[place["node"]] += place["memory_bytes"]
                where[held.run.project_id].add(place["node"])
        assert all(cpus[n.name] <= n.cpus and memory[n.name] <= n.memory_bytes for n in self.nodes)
        for project_id, project in PROJECTS.items():
            used[project_id]["nodes"] = len(where[project_id])
            for name, limit in project.limits.items():
                assert used[project_id][name] <= limit, f"project {project.name} has more {name} than it may"


def offline(arrivals: list[Arrival], until: float) -> float:
    """Utilisation by a packing that knows true durations and has no projects, priorities or promises.

    At each event the largest that have arrived go first, wherever there is room (list scheduling, largest first).
    """
    free = [EACH] * NODES
    events: list[tuple[float, int, tuple[int, ...], int]] = []
    waiting: list[tuple[int, int, float, int, Arrival]] = []
    ahead = sorted(arrivals, key=lambda a: a.at)
    busy, number, upcoming = 0.0, 0, 0
    while upcoming < len(ahead) or events:
        now = min(ahead[upcoming].at if upcoming < len(ahead) else math.inf, events[0][0] if events else math.inf)
        if now >= until:
            break
        while events and events[0][0] <= now:
            _, _, there, each = heapq.heappop(events)
            for index in there:
                free[index] += each
        while upcoming < len(ahead) and ahead[upcoming].at <= now:
            new = ahead[upcoming]
            upcoming += 1
            heapq.heappush(
                waiting, (-new.run.nodes * new.run.accelerators, -new.run.nodes, -new.seconds, new.run.id, new)
            )
        left = []
        while waiting:
            item = heapq.heappop(waiting)
            asked = item[-1].run
            there = sorted((i for i in range(NODES) if free[i] >= asked.accelerators), key=free.__getitem__)
            if len(there) < asked.nodes:
                left.append(item)
                continue
            chosen = tuple(there[: asked.nodes])
            for index in chosen:
                free[index] -= asked.accelerators
            number += 1
            heapq.heappush(events, (now + item[-1].seconds, number, chosen, asked.accelerators))
            busy += asked.nodes * asked.accelerators * (min(now + item[-1].seconds, until) - now)
        waiting = left
    return busy / (NODES * EACH * until)


def fluid(arrivals: list[Arrival], until: float) -> float:
    """Utilisation if work were a liquid: no packing can do better."""
    backlog = busy = last = 0.0
    for arrival in [*arrivals, Arrival(until, arrivals[0].run, 0.0)]:
        done = min(backlog, (arrival.at - last) * NODES * EACH)
        busy, backlog, last = busy + done, backlog - done, arrival.at
        backlog += arrival.seconds * arrival.run.nodes * arrival.run.accelerators
    return busy / (NODES * EACH * until)


def measured(arrivals: list[Arrival], until: float) -> tuple[Year, float, float]:
    """The year carried out, its utilisation and that of the offline packing, which are printed."""
    year = Year(arrivals, until)
    year.go()
    ours, packed, bound = year.busy / (NODES * EACH * until), offline(arrivals, until), fluid(arrivals, until)
    waits = sorted(year.waited.values())
    print(
        f"{len(arrivals)} runs, {year.passes} passes, {year.reclaims} reclaims; utilisation {ours:.1%}, "
        f"offline packing {packed:.1%}, liquid {bound:.1%}; waited: median {statistics.median(waits) / HOUR:.1f} h, "
        f"99 of 100 {waits[int(len(waits) * 0.99)] / DAY:.1f} d, longest {waits[-1] / DAY:.1f} d"
    )
    assert len(year.ended) == len(arrivals), "a run never ended"
    assert not year.owners
    return year, ours, packed


def test_a_year() -> None:
    """Busy fortnights ask for a fifth more than there is, calm ones let the queue run dry again."""
    year, ours, packed = measured(drawn(7, 0.95), YEAR)
    assert ours >= packed - 0.05
    # nobody starves: what a busy fortnight made wait has started when it is over
    assert max(year.waited.values()) < 15 * DAY
    assert year.reclaims > 100


def test_weeks_that_ask_for_more_than_there_is() -> None:
    """Here it shows how well it packs: there is always something to start."""
    arrivals = drawn(11, 1.7, 30 * DAY)
    _, ours, packed = measured(arrivals, 30 * DAY)
    assert packed > 0.9
    assert ours >= packed - 0.05
