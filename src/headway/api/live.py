"""Event streams: a run's log as it grows, and what changes in a project.

Streams sleep until a hint comes, and look by themselves now and then in case one was lost. While nobody listens, no
socket is bound and nothing runs. Reading goes through the thread pool: a slow file system holds up nobody else.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from starlette.concurrency import run_in_threadpool

from headway.protocol import hints
from headway.rules.access import Caller
from headway.services import changes, logs
from headway.services.context import Services

_log = logging.getLogger("headway.api")
#: seconds between looks at a log file that may grow (its lines send no hints): short after a line, longer in silence
QUICK, SLOW = 0.02, 0.5
#: seconds between looks without a hint
FALLBACK = 3.0
#: seconds that hints are gathered before the record is asked
GATHER = 0.05
#: seconds of silence after which a comment keeps the connection open
KEEP_ALIVE = 15.0
#: topics of hints that states changed
_STATES = frozenset({"states"})
_BATCH = 500
_Seen = TypeVar("_Seen")
_number = itertools.count()


class Live:
    """The api's ear for hints; one for each application, used from its event loop alone."""

    def __init__(self, ctx: Services) -> None:
        self.ctx = ctx
        #: event -> topics of the hints that set it; None: all
        self._waiting: dict[asyncio.Event, frozenset[str] | None] = {}
        self._listener: hints.Listener | None = None
        self._closed = False

    def close(self) -> None:
        """Ends every stream: their readers come back with a cursor."""
        self._closed = True
        for event in self._waiting:
            event.set()

    @contextmanager
    def listening(self, topics: frozenset[str] | None = None) -> Iterator[asyncio.Event]:
        """An event that is set at each hint, or at each of these topics, for as long as the block lasts."""
        event = asyncio.Event()
        self._waiting[event] = topics
        self._bind()
        try:
            yield event
        finally:
            del self._waiting[event]
            if not self._waiting:
                self._unbind()

    def _bind(self) -> None:
        if self._listener is None and self.ctx.hints is not None:
            try:
                self._listener = hints.Listener(self.ctx.hints, f"api-{next(_number)}")
            except OSError as error:
                _log.warning("No hints come (%s); streams look every %g s.", error, FALLBACK)
                return
            asyncio.get_running_loop().add_reader(self._listener.fileno(), self._hinted)

    def _unbind(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None

    def _hinted(self) -> None:
        if self._listener is None:
            return
        found = {topic for topic, _ in self._listener.receive()}
        for event, topics in self._waiting.items():
            if found if topics is None else found & topics:
                event.set()

    async def _pause(self, event: asyncio.Event, seconds: float, gather: float = GATHER) -> bool:
        """Until a hint or for `seconds`; whether a hint came. Hints that follow closely are taken together."""
        try:
            await asyncio.wait_for(event.wait(), seconds)
        except asyncio.TimeoutError:
            return False
        await asyncio.sleep(gather)
        if not self._closed:
            event.clear()
        return True

    async def held(self, look: Callable[[], _Seen], so: Callable[[_Seen], bool], seconds: float) -> _Seen:
        """What `look` gives as soon as that is not `so` any more, or after `seconds` (0: at once)."""
        if seconds <= 0:
            return await run_in_threadpool(look)
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        with self.listening(_STATES) as event:
            while True:
                found = await run_in_threadpool(look)
                left = until - loop.time()
                if left <= 0 or self._closed or not so(found):
                    return found
                await self._pause(event, min(left, FALLBACK), 0.0)

    async def log(
        self, caller: Caller, run_id: int, kind: str, after: str, want: logs.Filter = logs.ALL
    ) -> AsyncIterator[bytes]:
        """Events: `data: LogLineView` with the cursor as id, and `event: end` once the run's log is complete."""
        quiet = 0.0
        with self.listening() as event:
            known: logs.Log | None = None
            while not self._closed:
                if known is None:
                    known = await run_in_threadpool(logs.open_log, self.ctx, caller, run_id, kind)
                page = await run_in_threadpool(logs.read, known, after, _BATCH, want)
                after = page.cursor
                if page.lines:
                    quiet = 0.0
                    yield b"".join(_event(line.model_dump_json(), identity=line.cursor) for line in page.lines)
                if page.more:
                    if not page.lines:
                        yield b": still looking\n\n"
                    continue
                if page.complete:
                    yield _event("{}", "end")
                    return
                known, waited = await self._await_growth(event, known, after)
                quiet += waited
                if quiet >= KEEP_ALIVE:
                    quiet = 0.0
                    yield b": still here\n\n"

    async def _await_growth(self, event: asyncio.Event, log: logs.Log, after: str) -> tuple[logs.Log | None, float]:
        """Until the log has grown (the same log) or the record may say more (None), and the seconds waited."""
        waited = 0.0
        step = QUICK if log.attempts else FALLBACK
        while not self._closed:
            if await self._pause(event, step):
                return None, waited
            waited += step
            step = min(step * 1.5, SLOW)
            if await run_in_threadpool(logs.grown, log, after):
                return log, waited
            if waited >= FALLBACK:
                return None, waited
        return None, waited

    async def project(self, caller: Caller, project: str) -> AsyncIterator[bytes]:
        """Events `run` (RunView) and `evaluation` (EvaluationView), first as all are now, then at each change."""
        watch = changes.Watch(self.ctx, caller, project)
        quiet = 0.0
        with self.listening() as event:
            while not self._closed:
                found = await run_in_threadpool(watch.look)
                if found:
                    quiet = 0.0
                    yield b"".join(_event(data, name) for name, data in found)
                if not await self._pause(event, FALLBACK):
                    quiet += FALLBACK
                    if quiet >= KEEP_ALIVE:
                        quiet = 0.0
                        yield b": still here\n\n"


def _event(data: str, name: str = "", identity: str = "") -> bytes:
    head = (f"event: {name}\n" if name else "") + (f"id: {identity}\n" if identity else "")
    return f"{head}data: {data}\n\n".encode()
