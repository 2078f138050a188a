"""The log of the chosen run: read, searched, followed, taken home."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from headway.client.aio import AsyncClient
from headway.console import facts, show
from headway.console.frame import text
from headway.console.parts.elements import LogView
from headway.console.texts import Texts
from headway.errors import HeadwayError, UnauthorizedError, UnreachableError
from headway.wire.runs import LogLineView, RunView

#: lines of the past that are shown at first
TAIL = 1000
#: seconds for which new lines are gathered before they are sent to the browser
GATHER = 0.1
KINDS = ("run", "diag")


class LogReader:
    """`choose` a log; it is followed until its end, another choice or `stop`. on_end: the token is no longer good."""

    def __init__(self, client: AsyncClient, t: Texts, *, on_end: Callable[[HeadwayError], None]) -> None:
        self._client, self._t, self._on_end = client, t, on_end
        self._run: RunView | None = None
        self._kind = KINDS[0]
        self._grep = ""
        self._rank: int | None = None
        self._task: asyncio.Task[None] | None = None
        with ui.element("div").classes("hw-reader").props('role="tabpanel"') as self._panel:
            with ui.element("div").classes("hw-tools"):
                self._search = self._input("search", "log_search", self._searched)
                self._search.props["title"] = t("log_search_hint")
                self._ranks = self._input("number", "log_rank", self._ranked)
                self._ranks.classes("hw-rank").props("min=0 step=1")
                self._link = text("a", t("log_download"), "hw-button hw-download", props="download")
            self._log = LogView(t)
        self._log.describe(label=t("log_run"))

    def _input(self, kind: str, words: str, act: Callable[[str], None]) -> ui.element:
        box = ui.element("input").classes("hw-filter").props(f'type="{kind}"')
        box.props["placeholder"] = box.props["aria-label"] = self._t(words)
        # `search` comes from the little cross
        for event in ("input", "search"):
            box.on(event, lambda e: act(str(e.args)), throttle=0.4, leading_events=False, js_handler=_VALUE)
        return box

    def set_visibility(self, visible: bool) -> None:
        self._panel.set_visibility(visible)

    def choose(self, run: RunView, kind: str) -> None:
        """Reads this log from its last lines on. The search stays; a rank that this run does not have is dropped."""
        self._run, self._kind = run, kind
        count = facts.ranks(run)
        self._ranks.set_visibility(count > 1)
        self._ranks.props["max"] = count - 1
        self._ranks.update()
        if self._rank is not None and self._rank >= count:
            self._rank = None
            ui.run_javascript(f"document.getElementById('{self._ranks.html_id}').value = ''")
        self._read()

    def update(self, run: RunView) -> None:
        """The same run as it is now."""
        self._run = run

    def pause(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _searched(self, words: str) -> None:
        if words != self._grep and len(words) <= 1000:
            self._grep = words
            self._read()

    def _ranked(self, words: str) -> None:
        rank = int(words) if words.isdecimal() and len(words) < 9 else None
        if rank != self._rank:
            self._rank = rank
            self._read()

    @property
    def _filters(self) -> dict[str, Any]:
        chosen = {"grep": self._grep or None, "rank": self._rank}
        return {k: v for k, v in chosen.items() if v is not None}

    def _read(self) -> None:
        self.pause()
        run = self._run
        if run is None:
            return
        self._link.props["href"] = f"/runs/{run.id}/log?{urlencode({'kind': self._kind, **self._filters})}"
        self._link.props["title"] = self._t("log_download_found" if self._filters else "log_download_hint")
        self._link.update()
        label = f"{self._t('run')} {run.id}: {self._t(f'log_{self._kind}')}"
        self._log.clear_lines()
        self._log.describe(label=label, note=self._t("connecting"), cut="", ranks=facts.ranks(run) > 1)
        self._task = asyncio.create_task(self._follow(run.id, self._kind, self._filters))

    async def _follow(self, run: int, kind: str, filters: dict[str, Any]) -> None:
        t = self._t
        while True:
            try:
                self._log.clear_lines()
                page = await self._client.logs(run, kind=kind, tail=TAIL, **filters)
                self._log.describe(cut=t("log_earlier") if len(page.lines) == TAIL else "")
                self._log.push([show.line(line) for line in page.lines])
                seen = bool(page.lines)
                if not page.complete:
                    self._log.describe(note=self._waiting_note(seen))
                    seen = await self._stream(run, kind, page.cursor, filters) or seen
                nothing = "log_no_match" if filters else "log_empty_ended"
                self._log.describe(note=t("log_end") if seen else t(nothing))
                return
            except UnreachableError:
                self._log.describe(note=t("away"))
                await asyncio.sleep(1.0)
            except UnauthorizedError as error:
                self._on_end(error)
                return
            except HeadwayError as error:
                self._log.describe(note=t("log_failed", why=error.message))
                return

    def _waiting_note(self, seen: bool) -> str:
        if seen:
            return ""
        if self._filters:
            return self._t("log_no_match_yet")
        waiting = self._run is not None and self._run.state in show.WAITING
        return self._t("log_empty_waiting" if waiting else "log_empty")

    async def _stream(self, run: int, kind: str, after: str, filters: dict[str, Any]) -> bool:
        """Shows lines as they come until the log is complete; whether there were any."""
        lines: asyncio.Queue[LogLineView | None] = asyncio.Queue(10_000)
        seen = False

        async def fill() -> None:
            try:
                async for line in self._client.follow(run, kind=kind, after=after or None, **filters):
                    await lines.put(line)
            finally:
                await lines.put(None)

        filler = asyncio.create_task(fill())
        try:
            while True:
                batch = [await lines.get()]
                await asyncio.sleep(GATHER)
                while not lines.empty():
                    batch.append(lines.get_nowait())
                found = [show.line(line) for line in batch if line is not None]
                if found:
                    if not seen:
                        self._log.describe(note="")
                    seen = True
                    self._log.push(found)
                if None in batch:
                    await filler
                    return seen
        finally:
            filler.cancel()


_VALUE = "(e) => emit(e.target.value)"
