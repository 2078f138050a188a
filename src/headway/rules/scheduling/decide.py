"""One pass of the scheduler over the heads of what waits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headway.rules.records import Attempt, Node, Project, Run
from headway.rules.scheduling import fitting, limits, reclaims, sentences
from headway.rules.scheduling.asks import full_need, least_need, least_nodes, shunned
from headway.rules.scheduling.reclaims import Reclaim
from headway.rules.scheduling.reservations import Reservations
from headway.rules.scheduling.rooms import Cluster, Held, Need, Place
from headway.rules.scheduling.turns import Group, Line, Policy, Turns
from headway.rules.states import AttemptState, Billing

Price = Callable[[Run], "int | None"]


@dataclass(frozen=True)
class Placement:
    run: Run
    #: one a node
    places: list[Place]


@dataclass(frozen=True)
class Decision:
    placements: list[Placement] = field(default_factory=list)
    #: run id -> one sentence why it waits, for the first that does of each group; the others wait `behind` it
    waits: dict[int, str] = field(default_factory=dict)
    reclaims: list[Reclaim] = field(default_factory=list)
    #: a group ran out of heads, or the pass had enough: another one may place more
    more: bool = False


def unknown_price(run: Run) -> int | None:
    return None


def decide(
    groups: Iterable[Group],
    *,
    nodes: Sequence[Node] = (),
    held: Iterable[Held] = (),
    projects: Mapping[int, Project],
    now: float,
    price: Price = unknown_price,
    on_demand: Price = unknown_price,
    policy: Policy = Policy(),
    cluster: Cluster | None = None,
    clock: sentences.Clock = sentences.local_clock,
) -> Decision:
    """Places what fits in turn (see `turns`), keeps room for the first that do not, and says why each waits.

    nodes, held: what there is and who has it; or a `cluster` that is kept up to date, which is left as it was: whoever
    carries the decision out tells it. price, on_demand: what a run's spec costs on the spot market and on demand at
    present, micros an hour; None where that is not known. clock: how a sentence writes a moment.
    """
    found = Cluster.of(nodes, held) if cluster is None else cluster
    return _Pass(found, projects, now, price, on_demand, policy, clock).over(groups)


def cap_of(run: Run, on_demand: int | None) -> float | None:
    """The most that a spot run pays, micros an hour; None: it follows the market."""
    caps = []
    if (most := run.spot.get("max_price")) is not None:
        caps.append(float(most))
    if (discount := run.spot.get("max_discount")) is not None and on_demand is not None:
        caps.append(on_demand * (1 - float(discount)))
    return min(caps) if caps and run.spot.get("bid") != "market" else None


_NONE: frozenset[str] = frozenset()


class _Pass:
    def __init__(
        self,
        cluster: Cluster,
        projects: Mapping[int, Project],
        now: float,
        price: Price,
        on_demand: Price,
        policy: Policy,
        clock: sentences.Clock,
    ) -> None:
        self.cluster, self.projects, self.now, self.policy = cluster, projects, now, policy
        self.price, self.on_demand, self.clock = price, on_demand, clock
        self.promised = Reservations(cluster, now)
        #: project -> what its waiting runs were promised
        self.promises: dict[int, limits.Promised] = {}
        #: project and limit -> its first run that the limit holds up
        self.limited: dict[tuple[int, str], Run] = {}
        self.placements: list[Placement] = []
        self.waits: dict[int, str] = {}
        self.reclaims: dict[str, Reclaim] = {}
        self.reserved = 0
        self.more = False
        #: project -> changes of what it has in this pass; (project, need, nodes) -> the change and the sentence then
        self._changes: dict[int, int] = {}
        self._limits: dict[tuple[int, Need, int], tuple[int, str]] = {}
        self._movable: set[str] | None = None
        #: what did not fit beside what is kept, and the shortest stay that it was refused for
        self._refused: dict[tuple[Need, int, frozenset[str]], float] = {}
        self._texts: dict[tuple[Need, int, frozenset[str], float | None], str] = {}

    def over(self, groups: Iterable[Group]) -> Decision:
        turns = Turns(groups, self.cluster, self.projects, self.now, self.policy, self._promised_share)
        misses = set(self.cluster.misses)
        try:
            while (line := turns.next()) is not None:
                if self._look(line, turns):
                    self._on(line, turns)
        finally:
            for placement in self.placements:
                self.cluster.end(_id(placement.run))
            if self.placements:
                self.cluster.misses = misses
        return Decision(self.placements, self.waits, list(self.reclaims.values()), self.more)

    def _on(self, line: Line, turns: Turns) -> None:
        """To the next head of the line."""
        line.at += 1
        if line.at < len(line.group.heads):
            turns.again(line)
        elif not line.blocked and line.group.waiting > line.at:
            self.more = True

    def _promised_share(self, project_id: int) -> float:
        found = self.promises.get(project_id)
        return 0.0 if found is None else self.cluster.part(found.cpus, found.memory_bytes, found.accelerators)

    def _look(self, line: Line, turns: Turns) -> bool:
        """Whether the next of the line has to be looked at, too."""
        run = line.run
        if len(self.placements) >= self.policy.placements:
            self.more = True
            return False
        if not line.blocked and self._known(line):
            return False
        if sentence := self._price_waits(run) or self._limit_waits(run, line.group.ask):
            if not line.blocked:
                self.waits[run.id] = sentence
            return False
        avoided = shunned(run, self.cluster)
        if not line.blocked and self._place(run, avoided):
            self._changed(run.project_id)
            turns.changed(run.project_id)
            return True
        if sentence := self._nodes_wait(run):
            if not line.blocked:
                self.waits[run.id] = sentence
            return False
        if self.reserved < self.policy.reservations and self._reserve(line, avoided):
            self._changed(run.project_id)
            turns.changed(run.project_id)
            line.blocked = True
            return True
        if not line.blocked:
            self.waits[run.id] = self._text(run, avoided)
        self.promised.pass_over(least_need(run), least_nodes(run), avoided)
        return False

    def _known(self, line: Line) -> bool:
        """Whether another run of the pass was found to wait for just the same; then so does this one.

        Once nothing more is kept, this is all that most lines cost.
        """
        run = line.run
        if self.reserved < self.policy.reservations or run.avoid:
            return False
        ask = line.group.ask
        ends = None if ask in self.cluster.misses else _ends(run, self.now)
        if ends is not None and (run.least or ends < self._refused.get((*ask, _NONE), math.inf)):
            return False
        text = self._texts.get((*ask, _NONE, ends))
        if text is None or self._price_waits(run) or self._limit_waits(run, ask):
            return False
        self.waits[run.id] = text
        return True

    # -- what keeps a run from any place

    def _price_waits(self, run: Run) -> str:
        if run.billing is not Billing.SPOT or (price := self.price(run)) is None:
            return ""
        cap = cap_of(run, self.on_demand(run))
        return sentences.for_price(cap, price) if cap is not None and price > cap else ""

    def _limit_waits(self, run: Run, ask: tuple[Need, int]) -> str:
        project = self.projects.get(run.project_id)
        if project is None or not project.limits:
            return ""
        # what was found holds until the project has more
        key = (project.id, *ask)
        found = self._limits.get(key)
        if found is None or found[0] != self._changes.get(project.id, 0):
            text = self._limit_text(run, project)
            found = self._limits[key] = (self._changes.get(project.id, 0), text)
        return found[1]

    def _limit_text(self, run: Run, project: Project) -> str:
        if bound := limits.bound(run, project, self.cluster):
            if not bound.never:
                self._hold_up(run, bound.name)
            return sentences.for_limit(project, bound)
        # what is left of a limit is for the first that it holds up
        for name, _ in limits.limited(project):
            first = self.limited.get((project.id, name))
            if first is not None and limits.asks(run, name):
                return sentences.for_limit_behind(first, project)
        promised = self.promises.get(project.id)
        if promised is not None and limits.bound(run, project, self.cluster, promised):
            return sentences.for_limit_behind(promised.runs_of[0], project)
        return ""

    def _hold_up(self, run: Run, name: str) -> None:
        if (run.project_id, name) not in self.limited:
            self.limited[run.project_id, name] = run
            self._changed(run.project_id)

    def _changed(self, project_id: int) -> None:
        self._changes[project_id] = self._changes.get(project_id, 0) + 1

    def _nodes_wait(self, run: Run) -> str:
        """For a run that may only share its project's nodes, which have no room."""
        project = self.projects.get(run.project_id)
        if project is None or limits.only_nodes(least_nodes(run), project, self.cluster) is None:
            return ""
        self._hold_up(run, "nodes")
        used = len(self.cluster.used[project.id].nodes)
        limit = limits.Bound("nodes", float(project.limits["nodes"]), used, least_nodes(run))
        return sentences.for_limit(project, limit)

    # -- placing

    def _place(self, run: Run, avoided: frozenset[str]) -> bool:
        project = self.projects.get(run.project_id)
        promised = self.promises.get(run.project_id)
        ends = _ends(run, self.now)
        key = (full_need(run), run.nodes, avoided)
        plain = not run.least and (project is None or not project.limits)
        if plain and key in self._refused and ends >= self._refused[key]:
            return False
        places = fitting.place(
            run,
            self.cluster,
            self.promised,
            ends=ends,
            allowed=lambda need: limits.allowed(need, project, self.cluster, promised),
            shunned=avoided,
            only=limits.only_nodes(least_nodes(run), project, self.cluster),
        )
        if places is None:
            if plain:
                self._refused[key] = ends
            return False
        for place in places:
            need = Need(place.cpus, place.memory_bytes, len(place.accelerators), run.accelerator_kind)
            self.promised.started(place.node.name, need, ends)
        self.placements.append(Placement(run, places))
        self.cluster.start(Held(run, stand_in(run, places, self.now)))
        return True

    # -- keeping room

    def _reserve(self, line: Line, avoided: frozenset[str]) -> bool:
        """Keeps room for a run that does not fit; False where the nodes could never hold it."""
        run = line.run
        need, nodes = least_need(run), least_nodes(run)
        able = self.cluster.earliest(need)
        if len(able) - sum(1 for name in avoided if name in able) < nodes:
            return False
        way = None if run.billing is Billing.SPOT else self._way(run, need, nodes, avoided)
        text = "" if line.blocked else self._kept_text(run, need, nodes, avoided)
        kept = (
            self.promised.reserve(run, need, nodes, avoided)
            if way is None
            else self.promised.promise(run, need, way.rooms, way.begins(self.now))
        )
        if kept is None:
            return False
        self.reserved += 1
        self.promises.setdefault(run.project_id, limits.Promised()).add(run, need, nodes)
        if not line.blocked:
            rooms = sorted(kept.rooms, key=lambda r: r.name)
            self.waits[run.id] = text or sentences.for_room(run, self.cluster, self.promised, rooms, self.clock)
        return True

    def _way(self, run: Run, need: Need, nodes: int, avoided: frozenset[str]) -> reclaims.Way | None:
        """Room that spot attempts leave, or are asked to leave now, for a run that is not one."""
        if self._movable is None:
            self._movable = reclaims.movable_now(self.cluster, self.now, self.policy.protection)
        if not self._movable:
            return None
        way = reclaims.way(
            self.cluster,
            self.promised,
            need,
            nodes,
            shunned=avoided,
            gone=self.reclaims,
            movable=self._movable,
            now=self.now,
            protection=self.policy.protection,
        )
        if way is not None:
            kind = "on demand" if run.billing is Billing.ON_DEMAND else "on a subscription"
            reason = f"{sentences.named(run)}, which is {kind}, needs its place"
            for victim in way.victims:
                self.reclaims[victim.attempt.id] = Reclaim(victim.attempt, victim.run, reason)
        return way

    def _text(self, run: Run, avoided: frozenset[str]) -> str:
        """Why a run waits for which nothing is kept."""
        need, nodes = least_need(run), least_nodes(run)
        # what does not fit anywhere waits for room; what does, for a run ahead, which depends on how long it stays
        key = (need, nodes, avoided, None if (need, nodes) in self.cluster.misses else _ends(run, self.now))
        if key not in self._texts:
            self._texts[key] = self._explained(run, need, nodes, avoided)
        return self._texts[key]

    def _explained(self, run: Run, need: Need, nodes: int, avoided: frozenset[str]) -> str:
        if text := self._kept_text(run, need, nodes, avoided):
            return text
        latest = self.cluster.earliest(need)
        names = [name for name in latest if name not in avoided] if avoided else list(latest)
        if len(names) < nodes:
            return sentences.for_no_node(run, self.cluster)
        free = {name: self.cluster.rooms[name].free.count(need.kind) for name in names}
        nearest = sorted(names, key=lambda name: (latest[name], -free[name], name))[:nodes]
        rooms = [self.cluster.rooms[name] for name in nearest]
        return sentences.for_room(run, self.cluster, self.promised, rooms, self.clock)

    def _kept_text(self, run: Run, need: Need, nodes: int, avoided: frozenset[str]) -> str:
        """For a run that would fit now, but delay one that is ahead; empty for others."""
        if (need, nodes) in self.cluster.misses:
            return ""
        ends = _ends(run, self.now)
        for alike in self.cluster.alike.values():
            if alike.stock.holds(need):
                for name, room in alike.rooms.items():
                    promise = None if name in avoided else self.promised.in_the_way(name, need, ends)
                    if promise is not None:
                        return sentences.kept_for(promise, room, self.clock)
        return ""


def _ends(run: Run, now: float) -> float:
    """When it has given its place back at the latest, placed now."""
    return math.inf if run.max_duration is None else now + run.max_duration + run.grace


def _id(run: Run) -> str:
    return f"{run.id}-{run.attempts + 1}"


def stand_in(run: Run, places: Sequence[Place], now: float) -> Attempt:
    """The attempt that a placement will be, as far as a decision needs it."""
    return Attempt(
        id=_id(run),
        run_id=run.id,
        number=run.attempts + 1,
        state=AttemptState.PLACED,
        engine=places[0].node.engine,
        placement=[
            {
                "node": place.node.name,
                "address": place.node.address,
                "accelerators": place.accelerators,
                "cpus": place.cpus,
                "memory_bytes": place.memory_bytes,
            }
            for place in places
        ],
        cursors=[0] * len(places),
        address=None,
        ready=False,
        secret=None,
        created_at=now,
        started_at=None,
        launched_at=None,
        ended_at=None,
        stopping_at=None,
        exit_code=None,
        signal=None,
        cause=None,
        message="",
    )
