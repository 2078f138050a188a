"""Which replica gets a request: the least busy one, and none that refused a connection a moment ago."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator

from headway.gateway.routes import Replica, Route

#: seconds that a replica is left alone after it refused a connection
_REST = 1.0


class Balance:
    """Counts requests in flight by replica."""

    def __init__(self) -> None:
        self._busy: Counter[str] = Counter()
        self._refused: dict[str, float] = {}
        self._turn = 0

    def order(self, route: Route) -> list[Replica]:
        """The replicas of a route, the one to try first in front; ties go round."""
        replicas = route.replicas
        if len(replicas) < 2:
            return list(replicas)
        self._turn += 1
        start = self._turn % len(replicas)
        now = time.monotonic()
        turned = replicas[start:] + replicas[:start]
        return sorted(turned, key=lambda r: (self._refused.get(r.address, 0.0) > now, self._busy[r.address]))

    @property
    def busy(self) -> dict[str, int]:
        """Requests under way by the replica's address; an idle one is not in it."""
        return dict(self._busy)

    def refused(self, replica: Replica) -> None:
        self._refused[replica.address] = time.monotonic() + _REST

    def keep(self, routes: dict[str, Route]) -> None:
        """Forgets replicas that are in no route any more."""
        known = {r.address for route in routes.values() for r in route.replicas}
        self._refused = {a: t for a, t in self._refused.items() if a in known}

    @contextlib.contextmanager
    def using(self, replica: Replica) -> Iterator[None]:
        self._busy[replica.address] += 1
        try:
            yield
        finally:
            self._busy[replica.address] -= 1
            if not self._busy[replica.address]:
                del self._busy[replica.address]
