"""Why a run waits: one sentence, exact as of now."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from headway.rules.records import Project, Run
from headway.rules.scheduling.asks import least_need, least_nodes
from headway.rules.scheduling.limits import Bound
from headway.rules.scheduling.reservations import Promise, Reservations
from headway.rules.scheduling.rooms import Cluster, Hold, Need, Room, Stock
from headway.rules.states import NodeState
from headway.rules.units import render_size

Clock = Callable[[float], str]

#: project limit -> its word after a number
_WORDS = {"cpus": "CPUs", "accelerators": "accelerators", "nodes": "nodes", "runs": "runs at once"}
_OWNERS = {"job": "job", "evaluation": "worker", "endpoint": "replica"}
#: runs that are named; the others are counted
_NAMED = 2


def local_clock(when: float) -> str:
    """`14:20` in this machine's time, with the date where that is not today."""
    there, here = time.localtime(when), time.localtime()
    same = (there.tm_year, there.tm_yday) == (here.tm_year, here.tm_yday)
    return time.strftime("%H:%M" if same else "%Y-%m-%d %H:%M", there)


def named(run: Run) -> str:
    """`job 17`, `worker 18` of an evaluation, `replica 19` of an endpoint."""
    return f"{_OWNERS.get(run.owner, 'run')} {run.id}"


def behind(run: Run) -> str:
    return f"waits behind {named(run)}"


def asked(run: Run) -> str:
    """`4 x A10 on one node`, `2 nodes with 4 x A10 each`, `1 CPU, 1.0 GiB on one node`."""
    need, nodes = least_need(run), least_nodes(run)
    what = _devices(need) if need.accelerators else f"{_cpus(need.cpus)}, {render_size(need.memory_bytes)}"
    return f"{nodes} nodes with {what} each" if nodes > 1 else f"{what} on one node"


def _devices(need: Need) -> str:
    return f"{need.accelerators} x {need.kind or 'accelerator'}"


def _cpus(count: float) -> str:
    return f"{count:g} CPU{'' if count == 1 else 's'}"


# -- for room


def for_no_node(run: Run, cluster: Cluster) -> str:
    """The nodes that are up could never hold it."""
    need, nodes = least_need(run), least_nodes(run)
    if not cluster.rooms:
        return f"waits for {asked(run)}: no node is known yet"
    able = [r for r in cluster.rooms.values() if r.whole.holds(need)]
    down = [r for r in able if r.node.state is not NodeState.UP]
    if down and len(able) >= nodes:
        first = min(down, key=lambda r: r.name)
        others = f" and {len(down) - 1} more" if len(down) > 1 else ""
        verb = "are" if len(down) > 1 else "is"
        return f"waits for {asked(run)}: {first.name}{others} {verb} {_state(first, len(down))}"
    have = f"{len(able)} of {len(cluster.rooms)} nodes" if able else "no node"
    return f"waits for {asked(run)}: {have} could hold {'that much' if nodes == 1 else 'one part of it'}"


def _state(room: Room, count: int) -> str:
    return "not up" if count > 1 else room.node.state.value


def for_room(run: Run, cluster: Cluster, promised: Reservations, rooms: Sequence[Room], say: Clock) -> str:
    """rooms: those that it is to have, or that come nearest."""
    need, nodes = least_need(run), least_nodes(run)
    busy = [room for room in rooms if not room.free.holds(need)]
    if not busy:
        for room in rooms:
            if promise := _in_the_way(promised, room, run):
                return kept_for(promise, room, say)
        return f"waits for {asked(run)}"
    room = busy[0]
    lacks, free = _lack(room.free, need)
    who = _holders(room, need, say)
    if nodes > 1:
        free_now = len(rooms) - len(busy)
        return f"waits for {asked(run)}: {free_now} free, {room.name} {who}" if who else f"waits for {asked(run)}"
    what = asked(run) if need.accelerators and lacks == "accelerators" else f"{_wanted(need, lacks)} on one node"
    return f"waits for {what}: {free} free on {room.name}" + (f", {who}" if who else "")


def _in_the_way(promised: Reservations, room: Room, run: Run) -> Promise | None:
    others = [p for p in promised.by_node.get(room.name, ()) if p.run.id != run.id]
    need = least_need(run)
    return next((p for p in others if not p.spare.holds(need)), others[0] if others else None)


def kept_for(promise: Promise, room: Room, say: Clock) -> str:
    """It would fit, but delay one that is ahead."""
    begins = f" from about {say(promise.begins)}" if promise.begins > 0 else ""
    return f"{behind(promise.run)}, for which {room.name} is kept{begins}"


def _lack(free: Stock, need: Need) -> tuple[str, str]:
    """What there is too little of, and how much of it there is."""
    if need.accelerators and free.count(need.kind) < need.accelerators:
        return "accelerators", str(max(free.count(need.kind), 0))
    if need.cpus > free.cpus + 1e-6:
        return "cpus", f"{max(round(free.cpus, 3), 0):g}"
    return "memory_bytes", render_size(max(free.memory_bytes, 0))


def _wanted(need: Need, lacks: str) -> str:
    if lacks == "cpus":
        return _cpus(need.cpus)
    return _devices(need) if lacks == "accelerators" else f"{render_size(need.memory_bytes)} of memory"


def _holders(room: Room, need: Need, say: Clock) -> str:
    """Who has what it lacks, those first that go first, as many as have to go; and until when."""
    lacks, _ = _lack(room.free, need)
    stock = room.free.copy()
    found: list[Hold] = []
    for hold in sorted(room.holds.values(), key=lambda h: (h.ends, h.held.run.id)):
        if not _matters(hold, lacks, need):
            continue
        found.append(hold)
        stock.put(hold.cpus, hold.memory_bytes, hold.kinds)
        if stock.holds(need):
            found = _needed(room.free, found, need)
            break
    if not found:
        return ""
    words = f"held by {_names([h.held.run for h in found])}"
    ends = max(hold.ends for hold in found)
    if all(h.held.leaving for h in found):
        verb = "are" if len(found) > 1 else "is"
        return f"{words}, which {verb} leaving"
    return f"{words} until about {say(ends)}" if ends < math.inf else words


def _needed(free: Stock, holds: list[Hold], need: Need) -> list[Hold]:
    """Without those that may stay."""
    for hold in list(holds):
        rest = [h for h in holds if h is not hold]
        stock = free.copy()
        for other in rest:
            stock.put(other.cpus, other.memory_bytes, other.kinds)
        if stock.holds(need):
            holds = rest
    return holds


def _matters(hold: Hold, lacks: str, need: Need) -> bool:
    if lacks == "accelerators":
        return any(count for kind, count in hold.kinds.items() if need.kind in (None, kind))
    return hold.cpus > 0 if lacks == "cpus" else hold.memory_bytes > 0


def _names(runs: Sequence[Run]) -> str:
    words = [named(run) for run in runs[:_NAMED]]
    if len(runs) > _NAMED:
        words.append(f"{len(runs) - _NAMED} more")
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


# -- for anything else


def for_limit(project: Project, bound: Bound) -> str:
    name = bound.name
    if name == "memory_bytes":
        limit, used = f"{render_size(int(bound.limit))} of memory", render_size(int(bound.used))
        wanted = render_size(int(bound.asked))
    else:
        word = _WORDS[name].removesuffix("s") if bound.limit == 1 and name != "runs" else _WORDS[name]
        limit, used, wanted = f"{bound.limit:g} {word}", f"{round(bound.used, 3):g}", f"{bound.asked:g}"
    if bound.never:
        return f"waits: project {project.name} may use {limit} and this run alone asks for {wanted}"
    return f"waits: project {project.name} may use {limit} and uses {used}"


def for_limit_behind(first: Run, project: Project) -> str:
    """What the project may still use is for one of its runs that is ahead."""
    return f"{behind(first)}, for which what project {project.name} may still use is kept"


def for_price(cap: float, price: int) -> str:
    """cap, price: micros an hour."""
    return f"waits for a spot price of at most {cap / 1e6:g} an hour: it is {price / 1e6:g}"
