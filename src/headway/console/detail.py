"""The chosen run: what it is, what can be done to it, its logs and what it makes, live."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui

from headway.client.aio import AsyncClient
from headway.console import facts, reader
from headway.console.actions import Actions
from headway.console.frame import text, typed
from headway.console.made import Made
from headway.console.reader import LogReader
from headway.console.texts import Texts
from headway.errors import HeadwayError
from headway.wire.runs import RunView


class Detail:
    """on_end: called when the token is no longer good; on_made: with the number of a run that was made here."""

    def __init__(
        self,
        client: AsyncClient,
        t: Texts,
        *,
        on_end: Callable[[HeadwayError], None],
        on_made: Callable[[int], Awaitable[None]],
    ) -> None:
        self._t = t
        self._run: RunView | None = None
        self._kind = reader.KINDS[0]
        self._shown: tuple[str, str] | None = None
        with ui.element("section").classes("hw-detail"):
            with ui.element("div").classes("hw-detail-head"):
                self._head = ui.element("div")
                self._actions = Actions(client, t, on_end=on_end, on_made=on_made)
                self._facts = ui.element("dl").classes("hw-facts")
            with ui.element("div").classes("hw-tabs").props('role="tablist"') as tabs:
                tabs.on("keydown", lambda e: self._step(str(e.args)), js_handler=_ARROWS)
                self._tabs = {kind: self._tab(kind) for kind in (*reader.KINDS, *Made.KINDS)}
            self._log = LogReader(client, t, on_end=on_end)
            self._made = Made(client, t)
        with self._head:
            text("p", t("pick"), "hw-quiet")

    def _tab(self, kind: str) -> ui.element:
        words = self._t(f"log_{kind}" if kind in reader.KINDS else f"tab_{kind}")
        tab = text("button", words, props=f'type="button" role="tab" data-log="{kind}"')
        self._mark(tab, kind == self._kind)
        tab.on("click", lambda: self._choose(kind))
        return tab

    def _mark(self, tab: ui.element, chosen: bool) -> None:
        tab.props["aria-selected"] = "true" if chosen else "false"
        # one stop for the tabulator; arrows go on from there
        tab.props["tabindex"] = "0" if chosen else "-1"

    def _step(self, to: str) -> None:
        kinds = list(self._tabs)
        if to in ("-1", "1"):
            kind = kinds[(kinds.index(self._kind) + int(to)) % len(kinds)]
            self._choose(kind)
            ui.run_javascript(f"document.getElementById('{self._tabs[kind].html_id}')?.focus()")

    def _choose(self, kind: str) -> None:
        self._kind = kind
        for name, tab in self._tabs.items():
            self._mark(tab, name == kind)
            tab.update()
        if self._run is not None:
            self._open(self._run)

    def _open(self, run: RunView) -> None:
        """The chosen tab of this run."""
        made = self._kind if self._kind in Made.KINDS else None
        self._log.set_visibility(made is None)
        self._made.choose(made, run)
        if made is None:
            self._log.choose(run, self._kind)
        else:
            self._log.pause()

    def show(self, run: RunView, currency: str) -> None:
        """Shows this run; its tab is read anew when it is another run than before, or lives again."""
        before = self._run
        self._run, self._made.currency = run, currency
        looks = (run.model_dump_json(), currency)
        if self._shown != looks:
            self._shown = looks
            self._describe(run, currency)
        if before is None or before.id != run.id or (before.ended_at is not None and run.ended_at is None):
            self._open(run)
        else:
            self._log.update(run)

    async def stop(self) -> None:
        await self._log.stop()
        await self._made.stop()

    def _describe(self, run: RunView, currency: str) -> None:
        t = self._t
        self._head.clear()
        with self._head:
            with ui.element("div").classes("hw-title"):
                text("h2", f"{run.id}  {run.name or t('unnamed')}")
                text("span", t.known("state", run.state), f"hw-state s-{run.state}")
            for sentence in facts.sentences(run, t):
                text("p", sentence, "hw-reason-full")
            if remedy := facts.remedy(run, t):
                typed("p", t("what_to_do") + remedy, "hw-reason-full hw-remedy")
        self._actions.show(run)
        self._facts.clear()
        with self._facts:
            for fact in facts.of(run, t, currency):
                with ui.element("div").classes("wide" if fact.code else ""):
                    text("dt", fact.name)
                    if fact.runs:
                        self._links(fact.runs)
                    else:
                        text("dd", fact.value, "code" if fact.code else "").props["title"] = fact.value

    def _links(self, runs: tuple[int, ...]) -> None:
        with ui.element("dd"):
            for run in runs:
                text("a", str(run), "hw-link", props=f'href="/?run={run}"')


#: the arrows' direction
_ARROWS = "(e) => { const to = { ArrowRight: 1, ArrowLeft: -1 }[e.key]; if (to) { e.preventDefault(); emit(to); } }"
