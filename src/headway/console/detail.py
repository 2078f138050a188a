"""The chosen run: what it is, and its two logs, live."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable

from nicegui import ui

from headway.client.aio import AsyncClient
from headway.console import show
from headway.console.frame import text
from headway.console.made import Made
from headway.console.parts.elements import LogView
from headway.console.texts import Texts
from headway.errors import HeadwayError, UnauthorizedError, UnreachableError
from headway.wire.runs import LogLineView, RunView

#: lines of the past that are shown at first
TAIL = 1000
#: seconds for which new lines are gathered before they are sent to the browser
GATHER = 0.1
KINDS = ("run", "diag")


class Detail:
    def __init__(self, client: AsyncClient, t: Texts, *, on_end: Callable[[HeadwayError], None]) -> None:
        """on_end: called when the token is no longer good."""
        self._client = client
        self._t = t
        self._on_end = on_end
        self._run: RunView | None = None
        self._kind = "run"
        self._shown: tuple[str, str] | None = None
        self._reader: asyncio.Task[None] | None = None
        self._page = ui.context.client
        with ui.element("section").classes("hw-detail"):
            self._head = ui.element("div").classes("hw-detail-head")
            with ui.element("div").classes("hw-tabs").props('role="tablist"'):
                self._tabs = {kind: self._tab(kind) for kind in (*KINDS, *Made.KINDS)}
            self._log = LogView(t)
            self._made = Made(client, t)
        with self._head:
            text("p", t("pick"), "hw-quiet")
        self._log.describe(label=t("log_run"))

    def _tab(self, kind: str) -> ui.element:
        words = self._t(f"log_{kind}" if kind in KINDS else f"tab_{kind}")
        tab = text("button", words, props=f'type="button" role="tab" data-log="{kind}"')
        tab.props["aria-selected"] = "true" if kind == self._kind else "false"
        tab.on("click", lambda: self._choose(kind))
        return tab

    def _choose(self, kind: str) -> None:
        self._kind = kind
        for name, tab in self._tabs.items():
            tab.props["aria-selected"] = "true" if name == kind else "false"
            tab.update()
        if self._run is not None:
            self._open(self._run)

    def _open(self, run: RunView) -> None:
        """The chosen tab of this run."""
        made = self._kind if self._kind in Made.KINDS else None
        self._log.set_visibility(made is None)
        self._made.choose(made, run)
        if made is None:
            self._read(run)
        elif self._reader is not None:
            self._reader.cancel()

    def show(self, run: RunView, currency: str) -> None:
        """Shows this run; its log is read anew when it is another run than before."""
        before = self._run
        self._run = run
        looks = (run.model_dump_json(), currency)
        if self._shown != looks:
            self._shown = looks
            self._head.clear()
            with self._head:
                self._describe(run, currency)
        if before is None or before.id != run.id:
            self._open(run)

    async def stop(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        await self._made.stop()

    def _describe(self, run: RunView, currency: str) -> None:
        t = self._t
        with ui.element("div").classes("hw-title"):
            text("h2", f"{run.id}  {run.name or t('unnamed')}")
            text("span", t.known("state", run.state), f"hw-state s-{run.state}")
        if run.reason:
            text("p", run.reason, "hw-reason-full")
        facts = [
            (t("command"), shlex.join(run.command), True),
            (t("spec"), f"{run.spec} · {show.number(run.cpus)} CPU · {show.size(run.memory_bytes)}", False),
            (t("processes"), str(run.processes) if run.processes > 1 else "", False),
            (t("node_column"), show.node(run), False),
            (t("cost"), show.money(run.cost, currency) if run.cost else "", False),
            (t("attempts"), str(run.attempts) if run.attempts > 1 else "", False),
            (t("exit_code"), "" if run.exit_code is None else str(run.exit_code), False),
            (t("submitted_by"), run.submitted_by, False),
            (t("datasets"), ", ".join(run.datasets), False),
            (t("commit"), self._commit(run), False),
            (t("outputs"), run.output_path if run.started_at else "", True),
        ]
        with ui.element("dl").classes("hw-facts"):
            for name, value, code in facts:
                if value:
                    with ui.element("div").classes("wide" if code else ""):
                        text("dt", name)
                        text("dd", value, "code" if code else "").props["title"] = value

    def _commit(self, run: RunView) -> str:
        if not run.commit:
            return ""
        return f"{run.commit[:8]} {self._t('dirty')}" if run.dirty else run.commit[:8]

    # -- the log

    def _read(self, run: RunView) -> None:
        if self._reader is not None:
            self._reader.cancel()
        self._log.clear_lines()
        label = f"{self._t('run')} {run.id}: {self._t(f'log_{self._kind}')}"
        self._log.describe(label=label, note=self._t("connecting"), cut="", ranks=run.processes > 1)
        self._reader = asyncio.create_task(self._follow(run.id, self._kind))

    async def _follow(self, run: int, kind: str) -> None:
        t = self._t
        while True:
            try:
                self._log.clear_lines()
                page = await self._client.logs(run, kind=kind, tail=TAIL)
                self._log.describe(cut=t("log_earlier", run=run) if len(page.lines) == TAIL else "")
                self._log.push([show.line(line) for line in page.lines])
                seen = bool(page.lines)
                if not page.complete:
                    self._log.describe(note=self._waiting_note(seen))
                    seen = await self._stream(run, kind, page.cursor) or seen
                self._log.describe(note=t("log_end") if seen else t("log_empty_ended"))
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
        waiting = self._run is not None and self._run.state in show.WAITING
        return self._t("log_empty_waiting" if waiting else "log_empty")

    async def _stream(self, run: int, kind: str, after: str) -> bool:
        """Shows lines as they come until the log is complete; whether there were any."""
        lines: asyncio.Queue[LogLineView | None] = asyncio.Queue(10_000)
        seen = False

        async def fill() -> None:
            try:
                async for line in self._client.follow(run, kind=kind, after=after or None):
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
