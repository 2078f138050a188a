"""What changed between two versions, read when somebody asks for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from nicegui import ui

from headway.client.aio import AsyncClient
from headway.console import show
from headway.console.frame import text
from headway.console.texts import Texts
from headway.wire.datasets import Change, DatasetVersionView, DiffView

#: changes that are listed
_MOST = 200


class Changes:
    """To be made where it is drawn. Begins with the version before."""

    def __init__(self, client: AsyncClient, t: Texts, view: DatasetVersionView, older: Sequence[int]) -> None:
        """older: versions to compare with, the newest first."""
        self._client, self._t, self._view = client, t, view
        self._older = older[0]
        self._is_asking = False
        with ui.element("div").classes("hw-tools"):
            with ui.element("label"):
                text("span", f"{t('ds_compare')} ", "hw-quiet")
                with ui.element("select").classes("hw-select") as select:
                    for version in older:
                        text("option", f"{view.name}@{version}").props["value"] = version
                select.on("change", lambda e: self._choose(str(e.args)), js_handler="(e) => emit(e.target.value)")
            self._button = text("button", t("ds_do_compare"), "hw-button", props='type="button" data-do="diff"')
            self._button.on("click", self._ask)
        self._body = ui.element("div").props('role="status"')

    def asks(self, try_to: Callable[[Callable[[], Awaitable[None]]], Awaitable[bool]]) -> None:
        self._try_to = try_to

    async def _choose(self, version: str) -> None:
        if version.isdecimal():
            self._older = int(version)
            await self._ask()

    async def _ask(self) -> None:
        """Once at a time: of a million files it takes the server a while."""
        if self._is_asking:
            return
        self._is_asking = True
        self._body.clear()
        with self._body:
            text("p", self._t("ds_reading"), "hw-quiet")
        try:
            if not await self._try_to(self._show) and not self._body.is_deleted:
                self._body.clear()
        finally:
            self._is_asking = False

    async def _show(self) -> None:
        """Raises HeadwayError."""
        older = None
        # another one may be chosen meanwhile
        while older != self._older:
            older = self._older
            found = await self._client.dataset_diff(self._view.name, older, self._view.version)
        if not self._body.is_deleted:
            self._body.clear()
            with self._body:
                self._draw(found)

    def _draw(self, found: DiffView) -> None:
        t = self._t
        counts = {key: getattr(found, key) for key in ("added", "removed", "changed", "moved", "same")}
        parts = [t(f"ds_{key}", n=f"{count:,}") for key, count in counts.items() if count]
        text("p", " · ".join([*parts, t("ds_new_bytes", size=show.size(found.new_bytes))]), "hw-strong")
        if not found.changes:
            return
        with (
            ui.element("div").classes("hw-wide"),
            ui.element("table").classes("hw-list hw-changes"),
            ui.element("tbody"),
        ):
            for change in found.changes[:_MOST]:
                self._row(change)
        more = sum(counts[key] for key in ("added", "removed", "changed", "moved")) - _MOST
        if more > 0:
            text("p", t("ds_more_changes", n=f"{more:,}"), "hw-quiet")

    def _row(self, change: Change) -> None:
        with ui.element("tr"):
            text("td", self._t(f"ds_what_{change.what}"), "c-what")
            with text("td", change.path, "c-path"):
                if change.before is not None:
                    text("div", self._t("ds_was", before=change.before), "hw-quiet")
            text("td", show.size(change.bytes), "num")
