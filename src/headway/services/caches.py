"""The nodes' caches: what they hold, and filling them ahead of time."""

from __future__ import annotations

from headway.errors import NotFoundError, RefusedError
from headway.protocol import names
from headway.rules import capacity
from headway.rules.access import Action, Caller
from headway.rules.datasets import Mode, Reference, parse_reference
from headway.rules.nearest import advice
from headway.rules.records import Node, Project
from headway.rules.states import NodeState
from headway.services import access, datastores, requests, submissions, views
from headway.services.context import Services, moment
from headway.storage.cache.told import told
from headway.store.base import Transaction
from headway.wire.caches import CacheView, WarmRequest
from headway.wire.runs import JobRequest, RunView


def listing(ctx: Services, caller: Caller) -> list[CacheView]:
    """Of each node that has run something with data, by name."""
    with ctx.store.read() as tx:
        access.require_part(tx, caller)
    found = []
    for said in told(ctx.root):
        counts = said["counts"]
        asked = counts["hits"] + counts["misses"] + counts["refused"]
        found.append(
            CacheView(
                **{k: v for k, v in said.items() if k not in ("counts", "host", "at")},
                **counts,
                at=moment(said["at"]),
                hit_rate=counts["hits"] / asked if asked else None,
            )
        )
    return found


def warm(ctx: Services, caller: Caller, project: str, request: WarmRequest) -> list[RunView]:
    """Starts a run on each node that fetches the version and ends.

    Raises NotFoundError (dataset, node), RefusedError for a node that is not up or too small, UsageError.
    """
    with ctx.store.begin() as tx:
        home = access.project(tx, caller, project, Action.WORK)
        asked = parse_reference(request.dataset)
        dataset, version = requests.dataset(tx, home, request.dataset)
        pinned = Reference(dataset.name, version.version, asked.channel, Mode(request.mode))
        datastores.check_region(ctx, tx, home)
        requests.check_cache_region(ctx, home)
        nodes = tx.runs.nodes()
        runs = [
            tx.runs.add(**_run(ctx, tx, caller, home, str(pinned), request.spec, node, nodes))
            for node in _chosen(tx, request, nodes)
        ]
        found = views.runs(ctx, tx, runs)
    for view in found:
        ctx.hint("run", view.id)
    return found


def _chosen(tx: Transaction, request: WarmRequest, nodes: list[Node]) -> list[Node]:
    known = {node.name: node for node in nodes}
    for name in request.nodes:
        if name not in known:
            raise NotFoundError(f"There is no node {name!r}.", advice(name, known))
        if known[name].state is not NodeState.UP:
            raise RefusedError(f"Node {name} is {known[name].state.value}: {known[name].reason}", "Name another node.")
    chosen = [known[name] for name in dict.fromkeys(request.nodes)]
    chosen = chosen or [node for node in nodes if node.state is NodeState.UP]
    if not chosen:
        raise RefusedError("No node is up.", "`headway node ls` says why.")
    spec = requests.asked(tx, request.spec)
    for node in chosen:
        capacity.require_room(spec, [node])
    return chosen


def _run(
    ctx: Services, tx: Transaction, caller: Caller, home: Project, pinned: str, spec: str, node: Node, nodes: list[Node]
) -> dict[str, object]:
    job = JobRequest(
        command=["true"],
        name=f"warm {pinned} on {node.name}"[:100],
        environment={names.WARM: "1"},
        datasets=[pinned],
        spec=spec,
    )
    # kept from all the others
    avoid = [other.name for other in nodes if other.name != node.name]
    values, _ = submissions.values(ctx, tx, caller, home, job, avoid=avoid)
    requests.hold(tx, values["datasets"])
    return values
