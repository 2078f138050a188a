"""A page that reads what it shows: once it is open, again while the server is away, until its session ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from nicegui import ui

from headway.client.aio import AsyncClient
from headway.console.frame import LiveSign, text
from headway.console.texts import Texts
from headway.errors import HeadwayError, UnauthorizedError, UnreachableError

#: seconds between tries while the server is away
_AGAIN = 1.0


class Looking:
    """One open page. `start` when the browser has connected (again), `stop` when it is gone for good."""

    def __init__(
        self,
        client: AsyncClient,
        t: Texts,
        seconds: float,
        live: LiveSign,
        show: Callable[[], Awaitable[None]],
        *,
        every: float = 0,
    ) -> None:
        """seconds: until the session ends. show: reads and draws; may raise a HeadwayError.

        every: seconds after which it is done again; 0: once for each connection.
        """
        self._client, self._t, self._seconds, self._live = client, t, seconds, live
        self._show, self._every = show, every
        self._page = ui.context.client
        self._failed = text("p", "", "hw-error", props='role="alert"')
        self._failed.set_visibility(False)
        self._end: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._end is None:
            self._end = asyncio.get_running_loop().call_later(self._seconds, self._leave)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())

    async def stop(self) -> None:
        if self._end is not None:
            self._end.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._client.aclose()

    async def try_to(self, act: Callable[[], Awaitable[None]]) -> bool:
        """Does what somebody asked for on the page; what is wrong is said there. Whether it was done."""
        try:
            with self._page:
                await act()
        except UnauthorizedError:
            self._leave()
        except UnreachableError:
            self._live.show("away")
        except HeadwayError as error:
            self._say(str(error))
        else:
            self._live.show("live")
            self._say("")
            return True
        return False

    async def _look(self) -> None:
        while not self._page.is_deleted:
            done = await self.try_to(self._show)
            if done and not self._every:
                return
            await asyncio.sleep(self._every if done else _AGAIN)

    def _say(self, words: str) -> None:
        if not self._page.is_deleted:
            self._failed.set_visibility(bool(words))
            self._failed._text = words
            self._failed.update()

    def _leave(self) -> None:
        """To the sign-in: `/` finds that the session is over, and says so."""
        if not self._page.is_deleted:
            with self._page:
                ui.navigate.to("/")
