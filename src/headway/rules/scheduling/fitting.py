"""Where a run fits now: all its nodes or none, the most of a range that fits, whole nodes left free."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator

from headway.rules.records import Run
from headway.rules.scheduling.asks import full_need, least_need, least_nodes
from headway.rules.scheduling.reservations import Reservations
from headway.rules.scheduling.rooms import Alike, Cluster, Need, Place, Room

#: how many nodes of a need the run may still have, as far as its project's limits go
Allowed = Callable[[Need], int]


def place(
    run: Run,
    cluster: Cluster,
    promised: Reservations,
    *,
    ends: float,
    allowed: Allowed,
    shunned: Collection[str] = (),
    only: Collection[str] | None = None,
) -> list[Place] | None:
    """The most of what it asks for that fits now and delays nobody ahead; None when not even the least does.

    ends: when it gives its place back at the latest. only: nodes that it may be on; None: all.
    """
    search = _Search(cluster, promised, ends, shunned, only)
    floor = least_nodes(run)
    best: tuple[int, Need, list[Room]] | None = None
    for need, fullest in _options(run):
        most = min(run.nodes, allowed(need))
        if most < floor or (need, floor) in cluster.misses:
            continue
        rooms = search.nodes(need, floor, most)
        if rooms is None:
            continue
        gained = len(rooms) * max(need.accelerators, 1)
        if best is None or gained > best[0]:
            best = (gained, need, rooms)
        if fullest and len(rooms) == run.nodes:
            break
    if best is None:
        return None
    _, need, rooms = best
    if run.least:
        need = _grown(run, need, rooms, search, allowed)
    return [Place(r.node, r.matching(need.kind)[: need.accelerators], need.cpus, need.memory_bytes) for r in rooms]


def _options(run: Run) -> Iterator[tuple[Need, bool]]:
    """What each node may give, most first; and whether it is all that was asked."""
    full, least = full_need(run), least_need(run)
    yield full, True
    if full == least:
        return
    for devices in range(full.accelerators, least.accelerators - 1, -1):
        for need in (full._replace(accelerators=devices), least._replace(accelerators=devices)):
            if need != full:
                yield need, False


class _Search:
    def __init__(
        self,
        cluster: Cluster,
        promised: Reservations,
        ends: float,
        shunned: Collection[str],
        only: Collection[str] | None,
    ) -> None:
        self.cluster, self.promised, self.ends, self.shunned, self.only = cluster, promised, ends, shunned, only

    def nodes(self, need: Need, least: int, most: int) -> list[Room] | None:
        """At least `least` and at most `most` nodes, the fullest that have room; equal ones for a gang."""
        fitting = [a for a in self.cluster.alike.values() if a.stock.holds(need)]
        if sum(len(a.rooms) for a in fitting) < least:
            self.cluster.misses.add((need, least))
            return None
        fitting.sort(key=lambda a: a.rank)
        if most == 1:
            return next(([room] for alike in fitting for room in self._of(alike, need)), None)
        by_make: dict[object, list[Room]] = {}
        everywhere: list[Room] = []
        for alike in fitting:
            for room in self._of(alike, need):
                of_make = by_make.setdefault(room.make, [])
                if len(of_make) == most:
                    break
                of_make.append(room)
                everywhere.append(room)
        # nodes that are alike, if there are as many as from all together; else the fullest of all
        reach = min(most, len(everywhere))
        if reach < least:
            return None
        return next((found for found in by_make.values() if len(found) >= reach), everywhere[:reach])

    def _of(self, alike: Alike, need: Need) -> Iterator[Room]:
        for name, room in alike.rooms.items():
            if name not in self.shunned and self.may(room, need):
                yield room

    def may(self, room: Room, need: Need) -> bool:
        if self.only is not None and room.name not in self.only:
            return False
        if not self.promised.in_time(room, self.ends):
            return False
        return room.name not in self.promised.by_node or self.promised.allow(room.name, need, self.ends)


def _grown(run: Run, need: Need, rooms: list[Room], search: _Search, allowed: Allowed) -> Need:
    """With CPUs and memory up to what was asked, where all these nodes have it; alike on each."""
    cpus = max(need.cpus, min([run.cpus, *(math.floor(r.cpus * 1000) / 1000 for r in rooms)]))
    memory = max(need.memory_bytes, min([run.memory_bytes, *(r.memory_bytes for r in rooms)]))
    grown = need._replace(cpus=cpus, memory_bytes=memory)
    for more in (grown, need._replace(cpus=cpus), need._replace(memory_bytes=memory)):
        if allowed(more) >= len(rooms) and all(search.may(room, more) for room in rooms):
            return more
    return need
