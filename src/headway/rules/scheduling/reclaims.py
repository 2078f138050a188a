"""Which spot attempts leave, so that a run that is not one has their place."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations

from headway.rules.records import Attempt, Run
from headway.rules.scheduling.reservations import Reservations
from headway.rules.scheduling.rooms import Cluster, Held, Hold, Need, Room, Stock, grace_of
from headway.rules.states import Billing

#: victims on one node among which the best pair is sought; beyond, the cheapest are taken in turn
_SOUGHT = 12


@dataclass(frozen=True)
class Reclaim:
    """A spot attempt that has to leave."""

    attempt: Attempt
    run: Run
    reason: str


@dataclass(frozen=True)
class Way:
    """Nodes that have room for a run once `victims` and what leaves anyway have left."""

    rooms: list[str]
    victims: list[Held]
    #: what leaves anyway
    leaving: list[Held]

    def begins(self, now: float) -> float:
        last = max((held.ends for held in self.leaving), default=now)
        return max([now, last, *(now + grace_of(v.run) for v in self.victims)])


def protected(held: Held, now: float, protection: float) -> bool:
    """Whether the attempt is within its protection period, or no spot attempt at all."""
    if held.run.billing is not Billing.SPOT or held.attempt.started_at is None:
        return True
    given = held.run.spot.get("protection")
    return now - held.attempt.started_at < (protection if given is None else float(given))


def way(
    cluster: Cluster,
    promised: Reservations,
    need: Need,
    nodes: int,
    *,
    shunned: Collection[str],
    gone: Collection[str],
    movable: Collection[str],
    now: float,
    protection: float,
) -> Way | None:
    """The cheapest way to room for `nodes` of `need`: fewest victims, lowest priority, youngest.

    No victims where what leaves already is enough. gone: attempts that this pass reclaims already.
    movable: as `movable_now` says.
    """
    rooms = cluster.rooms
    able = cluster.earliest(need)
    names = [name for name in movable if name in able]
    if nodes > 1 and names:
        names += [name for name in able if name not in movable and rooms[name].free.holds(need)]
    options: list[tuple[tuple[float, ...], str, list[Held], list[Held]]] = []
    for name in names:
        if name in shunned:
            continue
        found = _on(rooms[name], promised, need, gone, now, protection)
        if found is not None:
            options.append((_cost(found[0], now), name, *found))
    if len(options) < nodes:
        return None
    options.sort(key=lambda o: (o[0], o[1]))
    chosen = options[:nodes]
    victims = {held.attempt.id: held for _, _, found, _ in chosen for held in found}
    leaving = {held.attempt.id: held for _, _, _, out in chosen for held in out}
    if victims and any(_reclaimed(cluster, name) for name in movable if name in able):
        return None  # who has what comes free is known once it is free; until then more might leave than has to
    return Way([name for _, name, _, _ in chosen], list(victims.values()), list(leaving.values()))


def movable_now(cluster: Cluster, now: float, protection: float) -> set[str]:
    """Nodes that something leaves, or could be asked to leave at present."""
    return {
        name
        for name, attempts in cluster.movable.items()
        if any(held.leaving or not protected(held, now, protection) for held in attempts.values())
    }


def _reclaimed(cluster: Cluster, name: str) -> bool:
    """Whether somebody was asked to leave that node by an earlier pass."""
    return any(held.attempt.reclaim_at is not None for held in cluster.movable[name].values())


def _cost(victims: Sequence[Held], now: float) -> tuple[float, ...]:
    return len(victims), sum(v.run.priority for v in victims), sum(now - v.began for v in victims)


def _on(
    room: Room, promised: Reservations, need: Need, gone: Collection[str], now: float, protection: float
) -> tuple[list[Held], list[Held]] | None:
    """Victims on this node and what leaves it anyway; None when it has no room even without all of them."""
    stock = room.free.copy()
    out: list[Held] = []
    possible: list[Hold] = []
    for hold in room.holds.values():
        if hold.held.leaving or hold.held.attempt.id in gone:
            out.append(hold.held)
            stock.put(hold.cpus, hold.memory_bytes, hold.kinds)
        elif not protected(hold.held, now, protection):
            possible.append(hold)
    for promise in promised.by_node.get(room.name, ()):
        stock.take(promise.need)
    if stock.holds(need):
        return [], out
    whole = _without(stock, possible)
    if not whole.holds(need):
        return None
    possible.sort(key=lambda h: (h.held.run.priority, -h.held.began, h.held.attempt.id))
    return [hold.held for hold in _fewest(stock, possible, need)], out


def _fewest(stock: Stock, possible: list[Hold], need: Need) -> Sequence[Hold]:
    for size in (1, 2) if len(possible) <= _SOUGHT else (1,):
        for some in combinations(possible, size):
            if _without(stock, some).holds(need):
                return some
    taken: list[Hold] = []
    for hold in possible:
        taken.append(hold)
        if _without(stock, taken).holds(need):
            break
    # one that turns out not to be needed stays, the dearest first
    for hold in list(reversed(taken)):
        rest = [h for h in taken if h is not hold]
        if _without(stock, rest).holds(need):
            taken = rest
    return taken


def _without(stock: Stock, gone: Sequence[Hold]) -> Stock:
    left = stock.copy()
    for hold in gone:
        left.put(hold.cpus, hold.memory_bytes, hold.kinds)
    return left
