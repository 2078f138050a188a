"""What the world outside says about places: prices above a bid, and machines about to be taken away.

Eligible: live attempts of spot runs, when their spec's price is above their bid, also within their protection, which
binds only our own scheduler; all live attempts on a node whose machine gave notice, whatever their billing: it will be
gone. The node takes nothing new while the notice stands.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from headway.controller.loop import Desk, Loop
from headway.controller.schedule import ask_back
from headway.rules import prices
from headway.rules.records import Attempt, Node, Run
from headway.rules.scheduling import Reclaim
from headway.rules.states import NodeState
from headway.store.base import Transaction

#: seconds that a machine's address may take to answer
WAIT_SECONDS = 1.0
#: addresses that are asked at once
_ASKED = 16
#: why a node is drained whose machine gave notice; people's own reasons are others
NOTICE = "Its machine gave notice that it will be taken away."


class Market(Loop):
    name = "market"
    topics = frozenset({"market"})
    interval = 2.0

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._pool: ThreadPoolExecutor | None = None

    def step(self) -> set[str]:
        history = self.desk.services.prices.history()
        with self.desk.services.store.read() as tx:
            nodes = tx.runs.nodes()
            live = [a for a in tx.runs.live_attempts() if a.reclaim_at is None]
            runs = {run.id: run for run in tx.runs.many([a.run_id for a in live])} if live else {}
            specs = {spec.name: spec for spec in tx.runs.specs()} if live else {}
        noticed = self._noticed([node for node in nodes if node.notice])
        now = self.desk.now()
        reclaims = _leaving(live, runs, noticed)
        told = {r.attempt.id for r in reclaims}
        for attempt in live:
            run = runs[attempt.run_id]
            reason = prices.outbid(run, specs.get(run.spec), history, now)
            if reason and attempt.id not in told:
                reclaims.append(Reclaim(attempt, run, reason))
        drains = _drains(nodes, noticed)
        if not reclaims and not drains:
            return set()
        with self.desk.apply() as tx:
            return self._apply(tx, reclaims, drains, now)

    def _apply(
        self, tx: Transaction, reclaims: list[Reclaim], drains: Mapping[str, tuple[NodeState, str]], now: float
    ) -> set[str]:
        for name, (state, reason) in drains.items():
            tx.runs.change_node(name, state=state, reason=reason)
        asked = [ask_back(tx, reclaim, now) for reclaim in reclaims]
        return {"states", "run"} | ({"reclaim"} if any(asked) else set())

    def _noticed(self, nodes: Collection[Node]) -> set[str]:
        """Names of the nodes whose machine gives notice now."""
        found = {node.name for node in nodes if not _is_url(node) and Path(node.notice or "").exists()}
        if urls := [node for node in nodes if _is_url(node)]:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_ASKED, thread_name_prefix="notice")
            answers = self._pool.map(lambda node: _answers(node.notice or ""), urls)
            found |= {node.name for node, answer in zip(urls, answers, strict=True) if answer}
        return found


def _is_url(node: Node) -> bool:
    return (node.notice or "").startswith(("http://", "https://"))


def _answers(url: str) -> bool:
    """Whether the address answers 200; one that does not answer gives no notice."""
    import httpx

    try:
        return httpx.get(url, timeout=WAIT_SECONDS).status_code == 200
    except (httpx.HTTPError, httpx.InvalidURL):
        return False


def _leaving(live: Collection[Attempt], runs: Mapping[int, Run], noticed: Collection[str]) -> list[Reclaim]:
    found = []
    for attempt in live:
        names = [str(place["node"]) for place in attempt.placement if place["node"] in noticed]
        if names:
            found.append(Reclaim(attempt, runs[attempt.run_id], f"the machine of {names[0]} will be taken away"))
    return found


def _drains(nodes: Collection[Node], noticed: Collection[str]) -> dict[str, tuple[NodeState, str]]:
    """Nodes that take nothing new as their machine goes, and those that do again as it stays after all."""
    found: dict[str, tuple[NodeState, str]] = {}
    for node in nodes:
        if node.name in noticed and node.state is NodeState.UP:
            found[node.name] = NodeState.DRAINED, NOTICE
        elif node.name not in noticed and node.state is NodeState.DRAINED and node.reason == NOTICE:
            found[node.name] = NodeState.UP, ""
    return found
