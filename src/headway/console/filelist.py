"""The files of a version, a page at a time, those below the folder that is typed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import quote

from nicegui import ui

from headway.client.aio import AsyncClient
from headway.console import show
from headway.console.frame import text
from headway.console.texts import Texts
from headway.wire.datasets import DatasetVersionView, FilesPage

#: files of a page
_PAGE = 50


class FileList:
    """To be made where it is drawn; `show` reads the first page."""

    def __init__(self, client: AsyncClient, t: Texts, base: str, view: DatasetVersionView) -> None:
        """base: of the addresses at which files are."""
        self._client, self._t, self._base, self._view = client, t, base, view
        self._prefix = ""
        #: `after` of each page up to this one
        self._pages: list[str | None] = [None]
        with ui.element("div").classes("hw-tools"):
            field = (
                ui.element("input").classes("hw-filter").props('type="search" autocomplete="off" spellcheck="false"')
            )
            field.props["placeholder"] = field.props["aria-label"] = t("ds_prefix")
            field.on(
                "input",
                lambda event: self._typed(str(event.args)),
                js_handler="(e) => emit(e.target.value)",
                throttle=0.3,
                leading_events=False,
            )
        self._body = ui.element("div").classes("hw-wide")
        with ui.element("div").classes("hw-pager"):
            self._back = text("button", t("ds_back"), "hw-button", props='type="button" data-do="back"')
            self._next = text("button", t("ds_next"), "hw-button", props='type="button" data-do="next"')
            self._said = text("span", "", "hw-quiet num", props='role="status"')
        self._back.on("click", self._previous_page)
        self._next.on("click", self._next_page)
        self._after: str | None = None
        self._state(0)

    def asks(self, try_to: Callable[[Callable[[], Awaitable[None]]], Awaitable[bool]]) -> None:
        self._try_to = try_to

    async def show(self) -> None:
        """Raises HeadwayError."""
        prefix = self._prefix
        found = await self._client.dataset_files(
            self._view.name, self._view.version, prefix=prefix, after=self._pages[-1], limit=_PAGE
        )
        if prefix == self._prefix and not self._body.is_deleted:
            self._draw(found)

    async def _typed(self, prefix: str) -> None:
        self._prefix, self._pages = prefix, [None]
        await self._try_to(self.show)

    async def _next_page(self) -> None:
        if self._after is not None:
            self._pages.append(self._after)
            await self._try_to(self.show)

    async def _previous_page(self) -> None:
        if len(self._pages) > 1:
            self._pages.pop()
            await self._try_to(self.show)

    def _draw(self, found: FilesPage) -> None:
        self._after = found.after
        self._state(len(found.files))
        self._body.clear()
        with self._body:
            if not found.files:
                text("p", self._t("ds_no_file"), "hw-quiet")
                return
            with ui.element("table").classes("hw-list hw-files"):
                with ui.element("thead"), ui.element("tr"):
                    text("th", self._t("ds_path"), props='scope="col"')
                    text("th", self._t("ds_size"), "num", props='scope="col"')
                    text("th", "SHA-256", "c-sha", props='scope="col"')
                with ui.element("tbody"):
                    for row in found.files:
                        self._row(*row)

    def _row(self, path: str, size: int, sha256: str) -> None:
        with ui.element("tr"):
            with ui.element("td").classes("c-path"):
                link = text("a", path, "hw-link")
                link.props["href"] = f"{self._base}/file?path={quote(path, safe='')}"
                link.props["download"] = path.rsplit("/", 1)[-1]
            text("td", show.size(size), "num")
            text("td", sha256[:12], "code c-sha").props["title"] = sha256

    def _state(self, shown: int) -> None:
        first = (len(self._pages) - 1) * _PAGE + 1
        said = self._t("ds_shown", first=f"{first:,}", last=f"{first + shown - 1:,}") if shown else ""
        self._said._text = said
        self._said.update()
        for button, useful in ((self._back, len(self._pages) > 1), (self._next, self._after is not None)):
            button.props.set_bool("disabled", not useful)
            button.update()
