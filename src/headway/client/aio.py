"""The part of the SDK that the console needs, for asyncio: look, follow, stop."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx
from pydantic import BaseModel

from headway.client.transport import EventReader, ServerEvent, error_of, options, unreachable
from headway.errors import UnreachableError
from headway.wire.datasets import DatasetVersionView, DiffView, FilesPage
from headway.wire.evaluations import EvaluationView
from headway.wire.metrics import MetricSeries, UsageSeries
from headway.wire.people import Health, Me, ProjectView
from headway.wire.platform import NodeView, QueueView
from headway.wire.products import EndpointView, ModelVersionView
from headway.wire.runs import AttemptView, Bill, CheckpointView, JobView, LogLineView, LogPage, RunView

#: seconds between tries of a stream that broke
_AGAIN = 0.5
#: seconds for an answer that takes the server long
_LONG = 600.0


class AsyncClient:
    """Every call returns wire models or raises a `headway.errors.HeadwayError`. Close it with `aclose`."""

    def __init__(self, url: str, token: str, *, project: str = "default", patience: float = 5.0) -> None:
        """url, token: of the server. patience: seconds for which an unreachable server is tried again."""
        self.url = url.rstrip("/")
        self.project = project
        self.patience = patience
        self._http = httpx.AsyncClient(**options(url, token))

    async def aclose(self) -> None:
        await self._http.aclose()

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: BaseModel | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """The answer's JSON; None when it is empty. Connection errors and 503 are retried for `patience` seconds.

        timeout: seconds for one read, where the usual ones do not do.
        """
        sent = body.model_dump(mode="json", exclude_unset=True) if isinstance(body, BaseModel) else body
        query = {k: v for k, v in (params or {}).items() if v is not None}
        limit = self._http.timeout if timeout is None else timeout
        deadline = time.monotonic() + self.patience
        while True:
            try:
                response = await self._http.request(method, path, json=sent, params=query, timeout=limit)
                if response.is_error:
                    raise error_of(response)
                return response.json() if response.content else None
            except (httpx.HTTPError, UnreachableError) as error:
                if time.monotonic() > deadline:
                    if isinstance(error, UnreachableError):
                        raise
                    raise unreachable(self.url, error) from error
            await asyncio.sleep(0.2)

    async def health(self) -> Health:
        return Health.model_validate(await self.call("GET", "/health"))

    async def me(self) -> Me:
        return Me.model_validate(await self.call("GET", "/me"))

    async def projects(self) -> list[ProjectView]:
        return [ProjectView.model_validate(p) for p in await self.call("GET", "/projects")]

    async def nodes(self) -> list[NodeView]:
        return [NodeView.model_validate(n) for n in await self.call("GET", "/nodes")]

    async def queue(self, limit: int | None = None) -> QueueView:
        """What waits in the project, next first."""
        return QueueView.model_validate(await self.call("GET", self._in("queue"), params={"limit": limit}))

    async def move_first(self, run: int) -> RunView:
        """Puts a run that waits before all others of its project and priority."""
        return RunView.model_validate(await self.call("POST", f"/runs/{run}/move", body={"first": True}))

    async def runs(
        self,
        *,
        state: str | None = None,
        owner: str | None = None,
        before: int | None = None,
        limit: int | None = None,
    ) -> list[RunView]:
        """Newest first; before: only ids smaller than this."""
        params = {"state": state, "owner": owner, "before": before, "limit": limit}
        return [RunView.model_validate(r) for r in await self.call("GET", self._in("runs"), params=params)]

    async def run(self, run: int) -> RunView:
        return RunView.model_validate(await self.call("GET", f"/runs/{run}"))

    async def stop(self, run: int, *, reason: str = "", grace: float | None = None) -> RunView:
        """grace: seconds; None: the run's own. Asked again, it may only become shorter."""
        body = {"reason": reason} if grace is None else {"reason": reason, "grace": grace}
        return RunView.model_validate(await self.call("POST", f"/runs/{run}/stop", body=body))

    async def hold(self, run: int) -> RunView:
        """Keeps one that waits from being placed."""
        return RunView.model_validate(await self.call("POST", f"/runs/{run}/hold"))

    async def retry(self, run: int) -> RunView:
        return RunView.model_validate(await self.call("POST", f"/runs/{run}/retry"))

    async def pause(self, run: int) -> RunView:
        return RunView.model_validate(await self.call("POST", f"/runs/{run}/pause"))

    async def release(self, run: int) -> RunView:
        """Lets a held or paused run be placed."""
        return RunView.model_validate(await self.call("POST", f"/runs/{run}/release"))

    async def change(self, run: int, **changes: Any) -> RunView:
        """changes: fields of `wire.runs.ChangeRequest`."""
        return RunView.model_validate(await self.call("PATCH", f"/runs/{run}", body=changes))

    async def clone(self, run: int, *, key: str | None = None, **changes: Any) -> RunView:
        """A new job with the request of another; give a key to have it sent again safely."""
        body = {"job": changes, "key": key or f"once-{uuid.uuid4().hex}"}
        return RunView.model_validate(await self.call("POST", f"/runs/{run}/clone", body=body))

    async def attempts(self, run: int) -> list[AttemptView]:
        return [AttemptView.model_validate(a) for a in await self.call("GET", f"/runs/{run}/attempts")]

    async def logs(
        self,
        run: int,
        *,
        kind: str = "run",
        after: str | None = None,
        limit: int | None = None,
        tail: int | None = None,
        **filters: Any,
    ) -> LogPage:
        """One page. kind: "run" or "diag"; after: a cursor; tail: only the last lines; filters as in `client.logs`."""
        params = {"kind": kind, "after": after, "limit": limit, "tail": tail, **filters}
        return LogPage.model_validate(await self.call("GET", f"/runs/{run}/logs", params=params))

    async def download(self, run: int, *, kind: str = "run", **filters: Any) -> AsyncIterator[bytes]:
        """The log up to now as text, in pieces; filters as in `client.logs`."""
        query = {"kind": kind, **{k: v for k, v in filters.items() if v is not None}}
        try:
            async with self._http.stream("GET", f"/runs/{run}/logs/download", params=query) as response:
                if response.is_error:
                    await response.aread()
                    raise error_of(response)
                async for piece in response.aiter_bytes():
                    yield piece
        except httpx.HTTPError as error:
            raise unreachable(self.url, error) from error

    async def metrics(self, run: int, points: int = 1000) -> list[MetricSeries]:
        """points: most of each metric; of more the lowest and the highest of each stretch are given."""
        found = await self.call("GET", f"/runs/{run}/metrics", params={"points": points})
        return [MetricSeries.model_validate(m) for m in found]

    async def usage(self, run: int, points: int = 500) -> list[UsageSeries]:
        """What each attempt and node used; points: most samples of each."""
        found = await self.call("GET", f"/runs/{run}/usage", params={"points": points})
        return [UsageSeries.model_validate(m) for m in found]

    async def checkpoints(self, run: int) -> list[CheckpointView]:
        return [CheckpointView.model_validate(c) for c in await self.call("GET", f"/runs/{run}/checkpoints")]

    async def jobs(self) -> list[JobView]:
        return [JobView.model_validate(j) for j in await self.call("GET", self._in("jobs"))]

    async def evaluations(self) -> list[EvaluationView]:
        return [EvaluationView.model_validate(e) for e in await self.call("GET", self._in("evaluations"))]

    async def evaluation_report(self, evaluation: int) -> dict[str, Any]:
        """All of an evaluation, as `wire.evaluations.EvaluationReport` is on the wire: cells may be very many."""
        found: dict[str, Any] = await self.call("GET", self._in(f"evaluations/{evaluation}/report"))
        return found

    def cell_file(
        self, evaluation: int, cell: int, name: str, *, range: str | None = None
    ) -> AbstractAsyncContextManager[httpx.Response]:
        """An output file's answer, open to be read. range: the Range header to ask with."""
        path = self._in(f"evaluations/{evaluation}/cells/{cell}/files/{quote(name)}")
        return self._open(path, {}, {} if range is None else {"Range": range})

    @asynccontextmanager
    async def _open(
        self, path: str, params: Mapping[str, str], headers: Mapping[str, str]
    ) -> AsyncIterator[httpx.Response]:
        try:
            async with self._http.stream("GET", path, params=params, headers=headers) as response:
                if response.is_error:
                    await response.aread()
                    raise error_of(response)
                yield response
        except httpx.HTTPError as error:
            raise unreachable(self.url, error) from error

    async def datasets(self) -> list[DatasetVersionView]:
        return [DatasetVersionView.model_validate(d) for d in await self.call("GET", self._in("datasets"))]

    async def dataset_versions(self, name: str) -> list[DatasetVersionView]:
        """Oldest first."""
        found = await self.call("GET", self._in(f"datasets/{quote(name)}/versions"))
        return [DatasetVersionView.model_validate(d) for d in found]

    async def dataset_files(
        self, name: str, version: int, *, prefix: str = "", after: str | None = None, limit: int = 100
    ) -> FilesPage:
        """The files whose paths begin with `prefix`, in order. after: of the page before."""
        params = {"prefix": prefix or None, "after": after, "limit": limit}
        path = self._in(f"datasets/{quote(name)}/versions/{version}/files")
        return FilesPage.model_validate(await self.call("GET", path, params=params))

    async def dataset_diff(self, name: str, older: int, newer: int) -> DiffView:
        path = self._in(f"datasets/{quote(name)}/diff")
        found = await self.call("GET", path, params={"older": older, "newer": newer}, timeout=_LONG)
        return DiffView.model_validate(found)

    def dataset_file(self, name: str, version: int, path: str) -> AbstractAsyncContextManager[httpx.Response]:
        """A file's answer, open to be read."""
        return self._open(self._in(f"datasets/{quote(name)}/versions/{version}/content"), {"path": path}, {})

    async def models(self) -> list[ModelVersionView]:
        return [ModelVersionView.model_validate(m) for m in await self.call("GET", self._in("models"))]

    async def endpoints(self) -> list[EndpointView]:
        return [EndpointView.model_validate(e) for e in await self.call("GET", self._in("endpoints"))]

    async def bill(self) -> Bill:
        return Bill.model_validate(await self.call("GET", self._in("bill")))

    async def follow(
        self, run: int, *, kind: str = "run", after: str | None = None, **filters: Any
    ) -> AsyncIterator[LogLineView]:
        """Every line, live, until the run has ended; survives restarts of the server."""
        cursor = after
        while True:
            path = f"/runs/{run}/logs/stream"
            async for event in self._events(path, {"kind": kind, "after": cursor, **filters}):
                if event.event == "end":
                    return
                if event.data:
                    line = LogLineView.model_validate_json(event.data)
                    cursor = line.cursor or event.id
                    yield line
            await asyncio.sleep(_AGAIN)

    async def changes(self) -> AsyncIterator[ServerEvent]:
        """What changes in the project, for ever: events `run` (data: RunView) and `evaluation` (EvaluationView).

        Events of our own: `open` whenever it is (re)opened: look at everything anew then; `closed` when it broke.
        """
        while True:
            async for event in self._events(self._in("stream"), {}):
                yield event
            yield ServerEvent("closed", "", "")
            await asyncio.sleep(_AGAIN)

    def _in(self, path: str) -> str:
        return f"/projects/{self.project}/{path}"

    async def _events(self, path: str, params: Mapping[str, Any]) -> AsyncIterator[ServerEvent]:
        """The events of one connection; an event `open` without data first. Ends when the connection does."""
        query = {k: v for k, v in params.items() if v is not None}
        try:
            async with self._http.stream(
                "GET",
                path,
                params=query,
                headers={"Accept": "text/event-stream"},
                timeout=httpx.Timeout(60, connect=5),
            ) as response:
                if response.is_error:
                    await response.aread()
                    raise error_of(response)
                yield ServerEvent("open", "", "")
                reader = EventReader()
                async for line in response.aiter_lines():
                    if (event := reader.feed(line)) is not None:
                        yield event
        except (httpx.HTTPError, UnreachableError):
            return
