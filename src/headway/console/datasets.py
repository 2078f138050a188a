"""The page with a project's datasets, and where they are stored."""

from __future__ import annotations

from urllib.parse import quote

from nicegui import ui

from headway.client.aio import AsyncClient
from headway.console import show
from headway.console.frame import text
from headway.console.texts import Texts
from headway.errors import NotFoundError
from headway.wire.datasets import DatasetVersionView


def address(project: str, *parts: object) -> str:
    """Of a page about a project's datasets."""
    return "/projects/" + "/".join(quote(str(part), safe="") for part in (project, "datasets", *parts))


class Listing:
    """The newest version of each dataset; `show` reads and draws."""

    def __init__(self, client: AsyncClient, t: Texts, project: str, *, may_push: bool) -> None:
        self._client, self._t, self._project, self._may_push = client, t, project, may_push
        self._seen: object = None
        with ui.element("div").classes("hw-title"):
            text("h1", t("datasets"))
            ui.element("span").classes("hw-space")
            if may_push:
                link = text("a", t("ds_upload"), "hw-button hw-primary")
                link.props["href"] = f"/projects/{quote(project, safe='')}/upload"
        self._store = text("p", "", "hw-quiet")
        self._store.set_visibility(False)
        self._body = ui.element("section").classes("hw-strip")

    async def show(self) -> None:
        found, stored = await self._client.datasets(), await self._storage()
        if self._seen == (found, stored):
            return
        self._seen = (found, stored)
        self._store._text = stored
        self._store.set_visibility(bool(stored))
        self._store.update()
        self._body.clear()
        with self._body:
            self._table(sorted(found, key=lambda d: d.name)) if found else self._none()

    async def _storage(self) -> str:
        """Where the project's data lies; nothing where the server does not say."""
        try:
            found = await self._client.call("GET", f"/projects/{self._client.project}/storage")
        except NotFoundError:
            return ""
        t = self._t
        said = f"{t('ds_store')}: {found.get('url') or t('ds_store_own')}"
        if regions := found.get("regions"):
            said += f" · {t('ds_regions')}: {', '.join(regions)}"
        return said

    def _none(self) -> None:
        with ui.element("div").classes("hw-empty"):
            text("p", self._t("ds_none"), "hw-strong")
            text("p", self._t("ds_none_hint"))
            text("code", "headway dataset push FOLDER NAME")

    def _table(self, found: list[DatasetVersionView]) -> None:
        t = self._t
        heads = [
            ("ds_name", ""),
            ("ds_newest", "num"),
            ("ds_files", "num"),
            ("ds_size", "num"),
            ("ds_pushed", "c-when"),
        ]
        with ui.element("div").classes("hw-wide"), ui.element("table").classes("hw-list hw-datasets"):
            with ui.element("thead"), ui.element("tr"):
                for head, kind in [*heads, ("ds_by", "c-by")]:
                    text("th", t(head), kind, props='scope="col"')
            with ui.element("tbody"):
                for one in found:
                    with ui.element("tr").props(f'data-dataset="{one.name}"'):
                        with ui.element("td"):
                            link = text("a", one.name, "hw-link hw-strong")
                            link.props["href"] = address(self._project, one.name, one.version)
                        text("td", str(one.version), "num")
                        text("td", f"{one.files:,}", "num")
                        text("td", show.size(one.bytes), "num")
                        text("td", show.when(one.created_at), "c-when num-left")
                        text("td", one.created_by, "c-by")
