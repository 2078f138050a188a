"""The page of one evaluation: drawn by the report's part, kept up by the api's event stream."""

from __future__ import annotations

import asyncio
import hashlib

from nicegui import ui

from headway.client.aio import AsyncClient
from headway.console import show
from headway.console.frame import LiveSign, text
from headway.console.parts.elements import EvaluationView
from headway.console.texts import Texts
from headway.errors import HeadwayError, UnauthorizedError
from headway.report.page import ASSETS
from headway.wire import evaluations as wire


def assets_path() -> str:
    """Where the browser finds the part that draws; another one after each change, so that it may be kept for long."""
    digest = hashlib.sha256()
    for path in sorted(ASSETS.iterdir()):
        digest.update(path.read_bytes())
    return f"/drawing/{digest.hexdigest()[:12]}"


class EvaluationPage:
    """One open page. `start` when the browser has connected (again), `stop` when it is gone for good."""

    def __init__(
        self, client: AsyncClient, t: Texts, seconds: float, live: LiveSign, evaluation: int, assets: str
    ) -> None:
        """seconds: until the session ends; assets: of `assets_path`."""
        self._client, self._t, self._seconds, self._live = client, t, seconds, live
        self._evaluation = evaluation
        self._now: wire.EvaluationView | None = None
        self._page = ui.context.client
        self._tasks: list[asyncio.Task[None]] = []
        ui.add_head_html(f'<link rel="stylesheet" href="{assets}/viewer.css">')
        with ui.element("main").classes("hw-main").props('id="evaluation"'):
            text("a", f"← {t('all_runs')}", "hw-link hw-back", props='href="/"')
            address = f"/projects/{client.project}/evaluations/{evaluation}"
            self._view = EvaluationView(t, address=address, script=f"{assets}/viewer.js")

    def start(self) -> None:
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._expire())]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.aclose()

    async def _expire(self) -> None:
        """A page left open does not outlive its session."""
        await asyncio.sleep(self._seconds)
        self._leave()

    async def _follow(self) -> None:
        while not self._page.is_deleted:
            try:
                async for event in self._client.changes():
                    self._live.show("away" if event.event == "closed" else "live")
                    if event.event == "open":
                        self._changed()
                    elif event.event == "evaluation":
                        self._look(wire.EvaluationView.model_validate_json(event.data))
            except UnauthorizedError:
                self._leave()
                return
            except HeadwayError:
                self._live.show("away")
                await asyncio.sleep(1.0)

    def _look(self, now: wire.EvaluationView) -> None:
        before = self._now
        if now.id != self._evaluation or now == before:
            return
        self._now = now
        # the first only says how it was when the page was opened
        if before is not None or now.state not in show.ENDED:
            self._changed()

    def _changed(self) -> None:
        if not self._page.is_deleted:
            with self._page:
                self._view.changed()

    def _leave(self) -> None:
        """To the sign-in: `/` finds that the session is over, and says so."""
        if not self._page.is_deleted:
            with self._page:
                ui.navigate.to("/")
