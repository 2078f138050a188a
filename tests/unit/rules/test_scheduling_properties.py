"""What holds for any queue, any cluster and any limits."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headway.rules.records import Node, Project, Run
from headway.rules.scheduling import Cluster, Decision, Held, Policy, Queue, decide, shape_of
from headway.rules.scheduling.decide import stand_in
from headway.rules.states import AttemptState, Billing, NodeState, RunState

from .conftest import node, run

GIB = 1 << 30
NOW = 1_000_000.0
HOUR = 3600.0
#: patience of none: turns are then the plain ones
POLICY = Policy(patience=math.inf)


@st.composite
def a_run(draw: st.DrawFn, id: int, limited: bool = False, projects: int = 2) -> Run:
    nodes = draw(st.sampled_from([1, 1, 1, 2, 3]))
    accelerators = draw(st.integers(0, 4))
    cpus = draw(st.sampled_from([0.5, 1.0, 2.0, 4.0]))
    least: dict[str, Any] = {}
    if not limited and draw(st.integers(0, 3)) == 0:
        least = {"nodes": draw(st.integers(1, nodes)), "accelerators": draw(st.integers(0, accelerators))}
        least["cpus"] = min(cpus, 1.0)
    hours = draw(st.sampled_from([1, 2, 5, 9] if limited else [1, 2, 5, 9, None]))
    one = run(
        id,
        project_id=draw(st.integers(1, projects)),
        owner="job" if limited else draw(st.sampled_from(["job", "job", "evaluation"])),
        nodes=nodes,
        accelerators=accelerators,
        accelerator_kind=draw(st.sampled_from([None, "a", "b"])),
        cpus=cpus,
        memory_bytes=draw(st.integers(1, 8)) * GIB,
        least=least,
        priority=5 if limited else draw(st.integers(1, 9)),
        max_duration=None if hours is None else hours * HOUR,
        grace=0.0,
        billing=Billing.ON_DEMAND if limited else draw(st.sampled_from(Billing)),
        avoid=[] if limited else draw(st.sampled_from([[], [], ["n0"]])),
        position=float(id),
        queued_at=NOW if limited else NOW - draw(st.integers(0, 60)) * HOUR,
    )
    return replace(one, shape=shape_of(one))


@st.composite
def runs_of(draw: st.DrawFn, limited: bool = False, projects: int = 2, most: int = 12) -> list[Run]:
    count = draw(st.integers(1, most))
    return [draw(a_run(i, limited, projects)) for i in range(1, count + 1)]


@st.composite
def nodes_of(draw: st.DrawFn) -> list[Node]:
    found = []
    for number in range(draw(st.integers(1, 4))):
        kinds = draw(st.sampled_from([(), ("a",) * 2, ("a",) * 4, ("b",) * 4, ("a", "b", "b")]))
        one = node(f"n{number}", draw(st.sampled_from([2.0, 8.0, 16.0])), draw(st.integers(4, 64)) * GIB, kinds)
        found.append(replace(one, state=draw(st.sampled_from([NodeState.UP] * 4 + [NodeState.DRAINED]))))
    return found


LIMITS = st.fixed_dictionaries(
    {}, optional={"accelerators": st.integers(0, 8), "runs": st.integers(0, 4), "cpus": st.integers(0, 12),
                  "nodes": st.integers(0, 3), "memory_bytes": st.integers(0, 40).map(lambda g: g * GIB)},
)  # fmt: skip


def projects_of(limits: dict[str, Any]) -> dict[int, Project]:
    def one(id: int, mine: dict[str, Any]) -> Project:
        return Project(id=id, name=f"p{id}", quota_bytes=None, quota_files=None, created_at=0.0, limits=mine)

    return {1: one(1, limits), 2: one(2, {})}


class Site:
    """Carries decisions out; time goes from one end to the next, and every run takes all the time that it may."""

    def __init__(self, nodes: list[Node], runs: list[Run], projects: dict[int, Project]) -> None:
        self.nodes, self.projects, self.now = nodes, projects, NOW
        self.cluster, self.queue = Cluster(nodes), Queue(runs)
        self.started: dict[int, float] = {}

    def step(self) -> Decision:
        found = decide(
            self.queue.groups(), cluster=self.cluster, projects=self.projects, now=self.now, policy=POLICY, clock=str
        )
        for placement in found.placements:
            attempt = stand_in(placement.run, placement.places, self.now)
            running = replace(attempt, state=AttemptState.RUNNING, started_at=self.now)
            self.cluster.start(Held(replace(placement.run, state=RunState.RUNNING), running))
            self.queue.remove(placement.run.id)
            self.started[placement.run.id] = self.now
        return found

    def go(self) -> None:
        """Until nothing lives that ends."""
        while True:
            while self.step().placements:
                pass
            ends = [held.ends for held in self.cluster.held.values() if held.ends < math.inf]
            if not ends:
                return
            self.now = min(ends)
            for held in list(self.cluster.held.values()):
                if held.ends <= self.now:
                    self.cluster.end(held.attempt.id)


def check_books(site: Site) -> None:
    """By books of its own: no node has more on it than it has, no accelerator two runs, no project more than it may."""
    cpus, memory, owned = Counter[str](), Counter[str](), Counter[tuple[str, int]]()
    used = {project: Counter[str]() for project in site.projects}
    where: dict[int, set[str]] = {project: set() for project in site.projects}
    for held in site.cluster.held.values():
        mine = used[held.run.project_id]
        mine["runs"] += 1
        names = [place["node"] for place in held.attempt.placement]
        assert len(names) == len(set(names))
        assert int(held.run.least.get("nodes", held.run.nodes)) <= len(names) <= held.run.nodes
        for place in held.attempt.placement:
            devices = place["accelerators"]
            assert held.run.least.get("accelerators", held.run.accelerators) <= len(devices) <= held.run.accelerators
            assert held.run.least.get("cpus", held.run.cpus) - 1e-6 <= place["cpus"] <= held.run.cpus
            cpus[place["node"]] += place["cpus"]
            memory[place["node"]] += place["memory_bytes"]
            owned.update((place["node"], i) for i in devices)
            where[held.run.project_id].add(place["node"])
            mine["accelerators"] += len(devices)
            mine["cpus"] += place["cpus"]
            mine["memory_bytes"] += place["memory_bytes"]
    for one in site.nodes:
        assert cpus[one.name] <= one.cpus + 1e-6
        assert memory[one.name] <= one.memory_bytes
        assert one.state is NodeState.UP or not memory[one.name]
        kinds = {a["index"]: a["kind"] for a in one.accelerators}
        for held in site.cluster.held.values():
            for place in held.attempt.placement:
                if place["node"] == one.name and held.run.accelerator_kind is not None:
                    assert {kinds[i] for i in place["accelerators"]} <= {held.run.accelerator_kind}
        assert all(i in kinds for name, i in owned if name == one.name)
    assert all(count == 1 for count in owned.values())
    for project_id, project in site.projects.items():
        used[project_id]["nodes"] = len(where[project_id])
        for name, limit in project.limits.items():
            assert used[project_id][name] <= limit + 1e-6


@settings(max_examples=120, deadline=None)
@given(runs_of(), nodes_of(), LIMITS)
def test_nothing_is_given_twice_no_gang_is_split_and_no_limit_broken(
    runs: list[Run], nodes: list[Node], limits: dict[str, Any]
) -> None:
    site = Site(nodes, runs, projects_of(limits))
    found = site.step()
    check_books(site)
    # the first of each group that waits says why, in one sentence
    for group in site.queue.groups():
        assert found.waits[group.heads[0].id].startswith("waits")
        assert "\n" not in found.waits[group.heads[0].id]
    assert not set(found.waits) & {p.run.id for p in found.placements}


@settings(max_examples=40, deadline=None)
@given(runs_of(limited=True), nodes_of(), LIMITS)
def test_all_that_could_ever_run_does_in_the_end(runs: list[Run], nodes: list[Node], limits: dict[str, Any]) -> None:
    site = Site(nodes, runs, projects_of(limits))
    site.go()
    for line in site.queue.lines():
        alone = Site(nodes, line[:1], site.projects)
        assert not alone.step().placements, "a run waits although nothing else lives"
    assert not site.cluster.held
    assert all(room.free.cpus == room.node.cpus for room in site.cluster.rooms.values())


@settings(max_examples=80, deadline=None)
@given(runs_of(limited=True, projects=1), runs_of(limited=True, projects=1), nodes_of())
def test_nobody_behind_delays_the_first_that_waits(live: list[Run], runs: list[Run], nodes: list[Node]) -> None:
    """With all those behind it, the first blocked run starts no later than without them."""

    def start(waiting: list[Run]) -> tuple[Run | None, float]:
        """The first that waits at first, and when it starts."""
        site = Site(nodes, [replace(r, id=r.id + 100, position=0.0) for r in live], projects_of({}))
        site.step()
        for left in [r for line in site.queue.lines() for r in line]:
            site.queue.remove(left.id)
        up = [one for one in nodes if one.state is NodeState.UP]
        able = [r for r in waiting if sum(_could(one, r) for one in up) >= r.nodes]
        for one in able:
            site.queue.add(one)
        while site.step().placements:
            pass
        first = next((r for r in able if r.id not in site.started), None)
        return first, 0.0 if first is None else _until(site, first.id)

    first, with_all = start(runs)
    if first is not None:
        alone, without = start([r for r in runs if r.id <= first.id])
        assert alone is not None and alone.id == first.id
        assert with_all <= without


def _could(one: Node, asked: Run) -> bool:
    devices = sum(1 for a in one.accelerators if asked.accelerator_kind in (None, a["kind"]))
    return asked.cpus <= one.cpus and asked.memory_bytes <= one.memory_bytes and asked.accelerators <= devices


def _until(site: Site, run_id: int) -> float:
    while run_id not in site.started:
        site.now = min(held.ends for held in site.cluster.held.values())
        for held in list(site.cluster.held.values()):
            if held.ends <= site.now:
                site.cluster.end(held.attempt.id)
        while site.step().placements:
            pass
    return site.started[run_id]


@settings(max_examples=80, deadline=None)
@given(runs_of(most=20), nodes_of(), st.integers(0, 5))
def test_a_cluster_kept_up_is_the_same_as_one_read_anew(runs: list[Run], nodes: list[Node], gone: int) -> None:
    site = Site(nodes, runs, projects_of({}))
    site.step()
    for attempt_id in sorted(site.cluster.held)[:gone]:
        site.cluster.end(attempt_id)
    site.now += HOUR
    anew = Cluster.of(nodes, site.cluster.held.values())
    groups = site.queue.groups()
    kept, fresh = (
        decide(groups, cluster=c, projects=site.projects, now=site.now, clock=str) for c in (site.cluster, anew)
    )
    assert {p.run.id for p in kept.placements} == {p.run.id for p in fresh.placements}
    assert set(kept.waits) == set(fresh.waits)
    for name, room in anew.rooms.items():
        mine = site.cluster.rooms[name]
        assert mine.accelerators == room.accelerators
        assert math.isclose(mine.cpus, room.cpus, abs_tol=1e-6)
    for project_id in site.projects:
        assert math.isclose(anew.share(project_id), site.cluster.share(project_id), abs_tol=1e-6)


@settings(max_examples=80, deadline=None)
@given(runs_of(most=10), st.lists(a_run(1), min_size=1, max_size=6), nodes_of(), st.integers(0, 3))
def test_what_is_reclaimed_makes_room(runs: list[Run], spots: list[Run], nodes: list[Node], hours: int) -> None:
    """Only spot attempts past their protection leave, and once they have, no further one is asked to."""
    spots = [replace(r, id=100 + i, billing=Billing.SPOT, max_duration=None) for i, r in enumerate(spots)]
    site = Site(nodes, spots, projects_of({}))
    site.step()
    for left in [r for line in site.queue.lines() for r in line]:
        site.queue.remove(left.id)
    site.now += hours * HOUR
    for one in runs:
        site.queue.add(one)
    found = site.step()
    if not hours:
        assert not found.reclaims
    for reclaim in found.reclaims:
        assert reclaim.run.billing is Billing.SPOT
        held = site.cluster.held[reclaim.attempt.id]
        site.cluster.start(replace(held, attempt=replace(held.attempt, reclaim_at=site.now)))
    again = site.step()
    assert not again.reclaims, "reclaims more although what leaves is enough"
    before = set(site.started)
    for reclaim in found.reclaims:
        site.cluster.end(reclaim.attempt.id)
    site.step()
    # with others waiting, who is ahead of the one that needed it may have it
    if found.reclaims and len(runs) == 1:
        assert set(site.started) - before
    check_books(site)
