"""Room that is promised to runs that wait, so that nobody behind them delays them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from headway.rules.records import Run
from headway.rules.scheduling.rooms import SLACK, Cluster, Need, Room, Stock


@dataclass
class Promise:
    """Room on one node, from `begins` (-inf: whenever it comes free, which no limit tells) to `ends`."""

    run: Run
    need: Need
    begins: float
    ends: float
    #: what others may still have at `begins`
    spare: Stock


@dataclass(frozen=True)
class Reserved:
    """When a run starts at the latest (None: not known), and where."""

    begins: float | None
    rooms: Sequence[Room]


class Reservations:
    def __init__(self, cluster: Cluster, now: float) -> None:
        self._cluster, self._now = cluster, now
        self.by_node: dict[str, list[Promise]] = {}
        #: what runs ahead need to which nothing is promised -> when they start at the earliest (inf: not known)
        self._unkept: dict[tuple[Need, int], float] = {}
        #: make of a node -> when the first of those may start there
        self._open_until: dict[object, float] = {}

    def pass_over(self, need: Need, nodes: int, shunned: Collection[str]) -> None:
        """Notes a run ahead to which nothing can be promised any more: nobody behind may be where it could start.

        Whatever is planned for it, it cannot start before the limits of what lives there now give it room.
        """
        key = need, nodes
        if key in self._unkept:
            return
        times = sorted(when for name, when in self._cluster.earliest(need).items() if name not in shunned)
        if len(times) >= nodes:
            self._unkept[key] = times[nodes - 1]
            self._open_until.clear()

    def in_time(self, room: Room, ends: float) -> bool:
        """Whether a run that is on `room` from now until `ends` is gone before a run that was passed over may start."""
        if not self._unkept:
            return True
        if room.make not in self._open_until:
            starts = [when for (need, _), when in self._unkept.items() if room.whole.holds(need)]
            # one whose start is not known may start at any moment
            self._open_until[room.make] = min((-math.inf if w == math.inf else w for w in starts), default=math.inf)
        return ends <= self._open_until[room.make]

    def allow(self, name: str, need: Need, ends: float) -> bool:
        """Whether a run that is there from now until `ends` leaves every promise what it counts on."""
        return self.in_the_way(name, need, ends) is None

    def in_the_way(self, name: str, need: Need, ends: float) -> Promise | None:
        for promise in self.by_node.get(name, ()):
            if ends > promise.begins and not promise.spare.holds(need):
                return promise
        return None

    def started(self, name: str, need: Need, ends: float) -> None:
        """A run was placed there now: what is there at each promise's time beside it is less."""
        for promise in self.by_node.get(name, ()):
            if ends > promise.begins:
                promise.spare.take(need)

    def reserve(self, run: Run, need: Need, nodes: int, shunned: Collection[str]) -> Reserved | None:
        """Promises `run` the room that it has first; None when the nodes could never hold it.

        Where no limit tells when that is, what is free on the nodes that come nearest is kept for it.
        """
        latest = self._cluster.earliest(need)
        timed: list[tuple[float, str]] = []
        now = self._now
        for name, when in latest.items():
            if name in shunned:
                continue
            if name in self.by_node:
                when = self._earliest_beside(self._cluster.rooms[name], need, run.max_duration)
            timed.append((when if when > now else now, name))
        if len(timed) < nodes:
            return None
        if nodes == 1:
            begins, name = min(timed)
            return (
                self._promise(run, need, [name], begins)
                if begins < math.inf
                else self._keep(run, need, [name for _, name in timed], 1)
            )
        timed.sort()
        for last in range(nodes - 1, len(timed)):
            begins = timed[last][0]
            if begins == math.inf:
                break
            # those that come free last: the others are of use to someone until then
            fitting = [name for _, name in timed[last::-1] if self._fits_at(name, need, begins, run.max_duration)]
            if len(fitting) >= nodes:
                return self._promise(run, need, fitting[:nodes], begins)
        return self._keep(run, need, [name for _, name in timed], nodes)

    def promise(self, run: Run, need: Need, names: Sequence[str], begins: float) -> Reserved:
        """Promises it that very room, which somebody was asked to leave."""
        return self._promise(run, need, names, begins)

    def _promise(self, run: Run, need: Need, names: Sequence[str], begins: float) -> Reserved:
        ends = math.inf if run.max_duration is None else begins + run.max_duration + run.grace
        rooms = [self._cluster.rooms[name] for name in names]
        for room in rooms:
            others = self.by_node.setdefault(room.name, [])
            spare = self._free(room, begins)
            spare.take(need)
            for other in others:
                if begins <= other.begins < ends:
                    other.spare.take(need)
            others.append(Promise(run, need, begins, ends, spare))
        return Reserved(begins, rooms)

    def _keep(self, run: Run, need: Need, names: Sequence[str], nodes: int) -> Reserved:
        rooms = [self._cluster.rooms[name] for name in names]
        # as much of what is scarce as there is; by name, so that it stays with one node from pass to pass
        rooms.sort(key=lambda r: (*(-part for part in _near(self._unpromised(r), need)), r.name))
        for room in rooms[:nodes]:
            others = self.by_node.setdefault(room.name, [])
            spare = self._unpromised(room)
            kept = Need(
                min(need.cpus, max(spare.cpus, 0.0)),
                min(need.memory_bytes, max(spare.memory_bytes, 0)),
                min(need.accelerators, max(spare.count(need.kind), 0)),
                need.kind,
            )
            spare.take(kept)
            others.append(Promise(run, kept, -math.inf, math.inf, spare))
        return Reserved(None, rooms[:nodes])

    def _unpromised(self, room: Room) -> Stock:
        """What is free now beside what is kept for no known time."""
        stock = room.free.copy()
        for other in self.by_node.get(room.name, ()):
            if other.begins == -math.inf:
                stock.take(other.need)
        return stock

    def _free(self, room: Room, when: float) -> Stock:
        stock = room.at(when)
        for other in self.by_node.get(room.name, ()):
            if other.begins <= when < other.ends:
                stock.take(other.need)
        return stock

    def _fits_at(self, name: str, need: Need, when: float, duration: float | None) -> bool:
        promises = self.by_node.get(name)
        if not promises:
            return True
        room = self._cluster.rooms[name]
        until = math.inf if duration is None else when + duration
        moments = [when, *(p.begins for p in promises if when < p.begins < until)]
        return all(self._free(room, moment).holds(need) for moment in moments)

    def _earliest_beside(self, room: Room, need: Need, duration: float | None) -> float:
        """When it has room at the latest beside all that is promised, for as long as it stays."""
        if len(room.whole.kinds) > 1:
            ends = {h.ends for h in room.holds.values()} | {p.ends for p in self.by_node[room.name]}
            moments = sorted({self._now, *(e for e in ends if self._now < e < math.inf)})
            return next((m for m in moments if self._fits_at(room.name, need, m, duration)), math.inf)
        stay = math.inf if duration is None else duration
        since = None
        for moment, fits in self._steps(room, need):
            if since is not None and moment >= since + stay:
                break
            since = (moment if since is None else since) if fits else None
        return math.inf if since is None else since

    def _steps(self, room: Room, need: Need) -> Iterator[tuple[float, bool]]:
        """For now and each moment at which something changes here: whether there is room. All of one kind."""
        now, free = self._now, room.free
        cpus, memory = free.cpus - need.cpus + SLACK, free.memory_bytes - need.memory_bytes
        devices = free.count(None) - need.accelerators
        if need.accelerators and need.kind is not None and need.kind not in room.whole.kinds:
            return
        changes: list[tuple[float, float, int, int]] = []
        for hold in room.holds.values():
            changes.append((hold.ends, hold.cpus, hold.memory_bytes, len(hold.accelerators)))
        for promise in self.by_node[room.name]:
            kept = promise.need
            changes.append((promise.begins, -kept.cpus, -kept.memory_bytes, -kept.accelerators))
            changes.append((promise.ends, kept.cpus, kept.memory_bytes, kept.accelerators))
        changes.sort()
        last = now
        for moment, more_cpus, more_memory, more_devices in changes:
            if moment > last:
                yield last, cpus >= 0 and memory >= 0 and (devices >= 0 or not need.accelerators)
                last = moment
            if moment == math.inf:
                return
            cpus, memory, devices = cpus + more_cpus, memory + more_memory, devices + more_devices
        yield last, cpus >= 0 and memory >= 0 and (devices >= 0 or not need.accelerators)


def _near(stock: Stock, need: Need) -> tuple[float, ...]:
    """How much of each thing that is asked there is, what is scarcest first."""
    devices = min(stock.count(need.kind), need.accelerators) if need.accelerators else 0
    return devices, min(stock.cpus, need.cpus), min(stock.memory_bytes, need.memory_bytes)
