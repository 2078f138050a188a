"""What one open page knows of its project, kept up by the api's event stream.

The stream says what changed. What it does not carry (costs, endpoints, nodes, the queue) is asked anew when a run has
changed, not more often than every `REST` seconds, and now and then while something runs; nothing is asked while all is
at rest.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from headway.client.aio import AsyncClient
from headway.console.show import LIVE
from headway.errors import HeadwayError, UnauthorizedError, UnreachableError
from headway.wire.evaluations import EvaluationView
from headway.wire.people import ProjectView
from headway.wire.platform import NodeView, QueueView
from headway.wire.products import EndpointView
from headway.wire.runs import Bill, RunView

#: runs asked for at once
PAGE = 100
#: waiting runs shown in their order
QUEUE = 20
#: seconds for which changes are gathered before they are shown
GATHER = 0.15
#: seconds between two looks at costs, endpoints and nodes
REST = 2.0
#: seconds between looks at what grows without an event: costs while a run lives
SLOWLY = 15.0


class Feed:
    """on_change: called (on the event loop) when something shown has changed; on_end: with the error that ends it."""

    def __init__(
        self, client: AsyncClient, *, on_change: Callable[[], None], on_end: Callable[[HeadwayError], None]
    ) -> None:
        self._client = client
        self._on_change = on_change
        self._on_end = on_end
        self.runs: dict[int, RunView] = {}
        self.evaluations: dict[int, EvaluationView] = {}
        self.endpoints: list[EndpointView] = []
        self.nodes: list[NodeView] = []
        self.queue: QueueView | None = None
        self.bill: Bill | None = None
        self.project: ProjectView | None = None
        #: whether the first look is done
        self.loaded = False
        #: whether the event stream is open
        self.connected = False
        #: whether the server has runs older than those here
        self.more = False
        self._tasks: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()
        self._stale = asyncio.Event()

    def start(self) -> None:
        if not self._tasks:
            parts = (self._guard(self._follow), self._guard(self._look_aside), self._tell())
            self._tasks = [asyncio.create_task(part) for part in parts]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def older(self) -> None:
        """Adds the next older runs. Raises HeadwayError."""
        found = await self._client.runs(before=min(self.runs, default=None), limit=PAGE)
        self.runs.update((run.id, run) for run in found)
        self.more = len(found) == PAGE
        self._changed.set()

    async def _guard(self, work: Callable[[], Awaitable[None]]) -> None:
        """Repeats `work` while the server is away; another error ends the feed."""
        while True:
            try:
                await work()
            except UnreachableError:
                self._disconnected()
                await asyncio.sleep(1.0)
            except HeadwayError as error:
                self._on_end(error)
                return

    async def _follow(self) -> None:
        async for event in self._client.changes():
            if event.event == "open":
                await self._look()
            elif event.event == "run":
                run = RunView.model_validate_json(event.data)
                self.runs[run.id] = run
                self._stale.set()
            elif event.event == "evaluation":
                evaluation = EvaluationView.model_validate_json(event.data)
                self.evaluations[evaluation.id] = evaluation
            elif event.event == "closed":
                self._disconnected()
                continue
            self._changed.set()

    async def _look(self) -> None:
        runs, evaluations = await asyncio.gather(self._client.runs(limit=PAGE), self._client.evaluations())
        # older ones that were asked for stay; a first look says whether there are any
        if not self.loaded:
            self.more = len(runs) == PAGE
        self.runs.update((run.id, run) for run in runs)
        self.evaluations = {evaluation.id: evaluation for evaluation in evaluations}
        self.loaded = self.connected = True
        self._stale.set()

    async def _look_aside(self) -> None:
        while True:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stale.wait(), self._patience())
            self._stale.clear()
            if not self.loaded:
                continue
            self.bill, self.endpoints, self.nodes, projects = await asyncio.gather(
                self._client.bill(), self._client.endpoints(), self._client.nodes(), self._client.projects()
            )
            self.queue = await self._waiting()
            self.project = next((p for p in projects if p.name == self._client.project), None)
            self._changed.set()
            await asyncio.sleep(REST)

    async def _waiting(self) -> QueueView | None:
        if not any(run.state == "queued" for run in self.runs.values()):
            return None
        return await self._client.queue(limit=QUEUE)

    def _patience(self) -> float | None:
        """Seconds until a look is due without an event; None: never."""
        if any(endpoint.state == "starting" for endpoint in self.endpoints):
            return REST
        return SLOWLY if any(run.state in LIVE for run in self.runs.values()) else None

    async def _tell(self) -> None:
        while True:
            await self._changed.wait()
            await asyncio.sleep(GATHER)
            self._changed.clear()
            self._on_change()

    def _disconnected(self) -> None:
        self.connected = False
        self._changed.set()


def is_sign_out(error: HeadwayError) -> bool:
    return isinstance(error, UnauthorizedError)
