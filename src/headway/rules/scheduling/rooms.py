"""What is free on each node, now and later, and who has the rest; kept up change by change."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headway.rules.records import Attempt, Node, Run
from headway.rules.states import AttemptState, Billing, NodeState

#: CPUs are counted in fractions; sums of them are compared with this much slack
SLACK = 1e-6
#: seconds that a run gets to leave its place when that is reclaimed, unless its `spot` says otherwise
GRACE = 120.0
#: changes of nodes that are remembered for the sake of what was worked out before them
_REMEMBERED = 10_000


class Need(NamedTuple):
    """What one node must give to a run."""

    cpus: float
    memory_bytes: int
    accelerators: int
    #: None: any
    kind: str | None


@dataclass(frozen=True)
class Held:
    """An attempt that lives; its placement says what it has."""

    run: Run
    attempt: Attempt

    @property
    def began(self) -> float:
        return self.attempt.started_at or self.attempt.created_at

    @property
    def leaving(self) -> bool:
        """Whether it was asked to go, so that its place is free before long."""
        return self.attempt.reclaim_at is not None or self.attempt.state is AttemptState.STOPPING

    @property
    def ends(self) -> float:
        """When its place is free at the latest, as far as its limits tell; infinite where it has none."""
        attempt, run = self.attempt, self.run
        if attempt.reclaim_at is not None:
            return attempt.reclaim_at + grace_of(run)
        if attempt.state is AttemptState.STOPPING:
            return (attempt.stopping_at or run.stop_at or self.began) + run.grace
        if run.max_duration is None:
            return math.inf
        return (attempt.launched_at or self.began) + run.max_duration


def grace_of(run: Run) -> float:
    """Seconds that a run gets when its place is reclaimed."""
    given = run.spot.get("grace")
    return GRACE if given is None else float(given)


@dataclass(frozen=True)
class Place:
    """What a run gets on one node."""

    node: Node
    accelerators: list[int]
    cpus: float
    memory_bytes: int


class Stock:
    """Amounts of CPUs, memory and accelerators by kind."""

    __slots__ = ("cpus", "kinds", "memory_bytes")

    def __init__(self, cpus: float, memory_bytes: int, kinds: dict[str, int]) -> None:
        self.cpus, self.memory_bytes, self.kinds = cpus, memory_bytes, kinds

    def copy(self) -> Stock:
        return Stock(self.cpus, self.memory_bytes, dict(self.kinds))

    def count(self, kind: str | None) -> int:
        """Accelerators of that kind; None: of any."""
        return sum(self.kinds.values()) if kind is None else self.kinds.get(kind, 0)

    def holds(self, need: Need) -> bool:
        if need.cpus > self.cpus + SLACK or need.memory_bytes > self.memory_bytes:
            return False
        return not need.accelerators or need.accelerators <= self.count(need.kind)

    def put(self, cpus: float, memory_bytes: int, kinds: Mapping[str, int], sign: int = 1) -> None:
        self.cpus += sign * cpus
        self.memory_bytes += sign * memory_bytes
        for kind, count in kinds.items():
            self.kinds[kind] = self.kinds.get(kind, 0) + sign * count

    def take(self, need: Need) -> None:
        """Takes what is asked, or more than there is; where any kind does, of the most frequent one."""
        self.cpus -= need.cpus
        self.memory_bytes -= need.memory_bytes
        left = need.accelerators
        if not left:
            return
        if need.kind is not None or not self.kinds:
            kind = need.kind or ""
            self.kinds[kind] = self.kinds.get(kind, 0) - left
            return
        order = sorted(self.kinds, key=lambda k: (-self.kinds[k], k))
        for kind in order:
            part = min(left, max(self.kinds[kind], 0))
            self.kinds[kind] -= part
            left -= part
        self.kinds[order[0]] -= left


@dataclass(frozen=True)
class Hold:
    """What an attempt has on one node."""

    held: Held
    ends: float
    cpus: float
    memory_bytes: int
    accelerators: list[int]
    kinds: dict[str, int]


class Room:
    """One node: what is free now, and who has the rest until when."""

    def __init__(self, node: Node) -> None:
        self.node = node
        #: index -> kind of every accelerator, and of the free ones
        self.devices = {int(a["index"]): str(a.get("kind", "")) for a in node.accelerators}
        self.accelerators = dict(self.devices)
        self.whole = Stock(node.cpus, node.memory_bytes, _by_kind(self.devices.values()))
        self.free = self.whole.copy()
        #: attempt -> what it has
        self.holds: dict[str, Hold] = {}
        #: nodes of one make are interchangeable
        self.make = (node.cpus, node.memory_bytes, tuple(sorted(self.whole.kinds.items())))

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def cpus(self) -> float:
        return self.free.cpus

    @property
    def memory_bytes(self) -> int:
        return self.free.memory_bytes

    def matching(self, kind: str | None) -> list[int]:
        """Indices of free accelerators of that kind (None: of any), in order."""
        return sorted(i for i, k in self.accelerators.items() if kind is None or k == kind)

    def put(self, held: Held, place: Mapping[str, Any]) -> None:
        """Takes for an attempt what one entry of its placement says."""
        cpus, memory = amounts(held.run, place)
        chosen = [i for i in map(int, place.get("accelerators") or []) if i in self.devices]
        kinds = _by_kind(self.devices[i] for i in chosen if self.accelerators.pop(i, None) is not None)
        self.holds[held.attempt.id] = Hold(held, held.ends, cpus, memory, chosen, kinds)
        self.free.put(cpus, memory, kinds, -1)

    def remove(self, attempt_id: str) -> None:
        hold = self.holds.pop(attempt_id, None)
        if hold is None:
            return
        self.free.put(hold.cpus, hold.memory_bytes, hold.kinds)
        # another one may have it too, where the record was wrong; then it stays taken
        taken = {i for other in self.holds.values() for i in other.accelerators}
        self.accelerators.update((i, self.devices[i]) for i in hold.accelerators if i not in taken)

    def at(self, when: float) -> Stock:
        """What is free at `when`, as far as limits tell."""
        stock = self.free.copy()
        for hold in self.holds.values():
            if hold.ends <= when:
                stock.put(hold.cpus, hold.memory_bytes, hold.kinds)
        return stock

    def earliest(self, need: Need) -> float:
        """When it has room at the latest: -inf now, inf where limits do not tell. The node could hold it when empty."""
        if self.free.holds(need):
            return -math.inf
        stock = self.free.copy()
        for hold in sorted(self.holds.values(), key=lambda h: h.ends):
            stock.put(hold.cpus, hold.memory_bytes, hold.kinds)
            if hold.ends == math.inf or stock.holds(need):
                return hold.ends
        return math.inf  # more is taken than there is


class Alike:
    """Nodes of one make with the same room left: where one has room for something, all have."""

    __slots__ = ("rank", "rooms", "stock")

    def __init__(self, room: Room) -> None:
        self.stock = room.free.copy()
        #: fewest accelerators, then fewest CPUs left first: whole nodes stay free
        self.rank = (self.stock.count(None), self.stock.cpus, self.stock.memory_bytes)
        self.rooms: dict[str, Room] = {}


@dataclass
class Used:
    """What a project occupies."""

    cpus: float = 0.0
    memory_bytes: int = 0
    accelerators: int = 0
    runs: int = 0
    #: node -> how many of its attempts are there
    nodes: dict[str, int] = field(default_factory=dict)
    #: attempt -> when it was placed
    placed: dict[str, float] = field(default_factory=dict)

    def amount(self, name: str) -> float:
        """name: as in `Project.limits`."""
        return len(self.nodes) if name == "nodes" else float(getattr(self, name))


class Cluster:
    """All nodes with what lives on them. A change costs that change; what was worked out for other nodes stays."""

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self.rooms: dict[str, Room] = {}
        self.held: dict[str, Held] = {}
        self.used: dict[int, Used] = {}
        #: of nodes that are up
        self.alike: dict[tuple[Any, ...], Alike] = {}
        self.makes: dict[tuple[Any, ...], dict[str, Room]] = {}
        #: node -> its attempts that could leave (spot) or do leave
        self.movable: dict[str, dict[str, Held]] = {}
        #: grows with each change
        self.version = 0
        #: what does not fit at present: (need, nodes)
        self.misses: set[tuple[Need, int]] = set()
        self._keys: dict[str, tuple[Any, ...]] = {}
        self._changed: list[str] = []
        self._earliest: dict[Need, tuple[dict[str, float], int]] = {}
        self._total: Stock | None = None
        self._devices = 0
        for node in nodes:
            self.put(node)

    @classmethod
    def of(cls, nodes: Iterable[Node], held: Iterable[Held]) -> Cluster:
        cluster = cls(nodes)
        for one in held:
            cluster.start(one)
        return cluster

    # -- changes

    def put(self, node: Node) -> None:
        """A node that is new, or has changed."""
        self.drop(node.name)
        room = self.rooms[node.name] = Room(node)
        if node.state is NodeState.UP:
            self.makes.setdefault(room.make, {})[node.name] = room
        for held in self.held.values():
            for place in held.attempt.placement:
                if str(place["node"]) == node.name:
                    room.put(held, place)
        self._of_nodes(room)

    def drop(self, name: str) -> None:
        room = self.rooms.pop(name, None)
        if room is None:
            return
        self._unlist(name)
        if (alike := self.makes.get(room.make)) is not None and alike.pop(name, None) is not None and not alike:
            del self.makes[room.make]
        self._of_nodes(None)

    def _of_nodes(self, room: Room | None) -> None:
        if room is not None:
            self._list(room)
        self.version += 1
        self.misses.clear()
        self._earliest.clear()
        self._total = None

    def start(self, held: Held) -> None:
        """What an attempt has is free no more. One that is known already is taken as it is now."""
        self.end(held.attempt.id)
        self.held[held.attempt.id] = held
        self._account(held, 1)
        for place in held.attempt.placement:
            if (room := self.rooms.get(str(place["node"]))) is not None:
                self._unlist(room.name)
                room.put(held, place)
                self._list(room)

    def end(self, attempt_id: str) -> None:
        """What it had is free again. One that is not known changes nothing."""
        held = self.held.pop(attempt_id, None)
        if held is None:
            return
        self._account(held, -1)
        self.misses.clear()
        for place in held.attempt.placement:
            if (room := self.rooms.get(str(place["node"]))) is not None:
                self._unlist(room.name)
                room.remove(attempt_id)
                self._list(room)

    def _unlist(self, name: str) -> None:
        key = self._keys.pop(name, None)
        if key is not None and (alike := self.alike.get(key)) is not None:
            alike.rooms.pop(name, None)
            if not alike.rooms:
                del self.alike[key]

    def _list(self, room: Room) -> None:
        self.version += 1
        self._changed.append(room.name)
        if len(self._changed) > _REMEMBERED:
            self._changed.clear()
            self._earliest.clear()
        if room.node.state is not NodeState.UP:
            return
        free = room.free
        key = (room.make, round(free.cpus, 6), free.memory_bytes, tuple(sorted(free.kinds.items())))
        self._keys[room.name] = key
        alike = self.alike.get(key)
        if alike is None:
            alike = self.alike[key] = Alike(room)
        alike.rooms[room.name] = room

    def _account(self, held: Held, sign: int) -> None:
        run, attempt = held.run, held.attempt
        used = self.used.setdefault(run.project_id, Used())
        used.runs += sign
        if sign > 0:
            used.placed[attempt.id] = attempt.created_at
        else:
            used.placed.pop(attempt.id, None)
        moves = held.leaving or run.billing is Billing.SPOT
        for place in attempt.placement:
            name = str(place["node"])
            cpus, memory = amounts(run, place)
            used.cpus += sign * cpus
            used.memory_bytes += sign * memory
            used.accelerators += sign * len(place.get("accelerators") or [])
            _tally(used.nodes, name, sign)
            if moves:
                self._move(held, name, sign)
        if not used.runs:
            used.cpus = 0.0  # without what rounding left over

    def _move(self, held: Held, name: str, sign: int) -> None:
        movable = self.movable.setdefault(name, {})
        if sign > 0:
            movable[held.attempt.id] = held
        else:
            movable.pop(held.attempt.id, None)
        if not movable:
            del self.movable[name]

    # -- questions

    @property
    def total(self) -> Stock:
        """All there is on all nodes."""
        if self._total is None:
            self._total = Stock(0.0, 0, {})
            for room in self.rooms.values():
                self._total.put(room.whole.cpus, room.whole.memory_bytes, room.whole.kinds)
            self._devices = self._total.count(None)
        return self._total

    def share(self, project_id: int) -> float:
        """The largest part of anything that the project occupies (dominant resource fairness, Ghodsi et al. 2011)."""
        used = self.used.get(project_id)
        return 0.0 if used is None else self.part(used.cpus, used.memory_bytes, used.accelerators)

    def part(self, cpus: float, memory_bytes: int, accelerators: int) -> float:
        total = self.total
        devices = self._devices
        return max(
            cpus / total.cpus if total.cpus else 0.0,
            memory_bytes / total.memory_bytes if total.memory_bytes else 0.0,
            accelerators / devices if devices else 0.0,
        )

    def able(self, need: Need) -> dict[str, Room]:
        """Nodes that are up and would have room for it were they empty."""
        found: dict[str, Room] = {}
        for alike in self.makes.values():
            if next(iter(alike.values())).whole.holds(need):
                found.update(alike)
        return found

    def earliest(self, need: Need) -> dict[str, float]:
        """For each able node when it has room at the latest: -inf now, inf where limits do not tell."""
        kept = self._earliest.get(need)
        if kept is None:
            found = {name: room.earliest(need) for name, room in self.able(need).items()}
        else:
            found, seen = kept
            for name in set(self._changed[seen:]):
                if name in found:
                    found[name] = self.rooms[name].earliest(need)
        self._earliest[need] = (found, len(self._changed))
        return found


def amounts(run: Run, place: Mapping[str, Any]) -> tuple[float, int]:
    """CPUs and memory that an entry of a placement stands for; an old one does not say."""
    cpus, memory = place.get("cpus"), place.get("memory_bytes")
    return run.cpus if cpus is None else float(cpus), run.memory_bytes if memory is None else int(memory)


def _by_kind(kinds: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for kind in kinds:
        counts[kind] = counts.get(kind, 0) + 1
    return counts


def _tally(counts: dict[str, int], name: str, sign: int) -> None:
    count = counts.get(name, 0) + sign
    if count > 0:
        counts[name] = count
    else:
        counts.pop(name, None)
