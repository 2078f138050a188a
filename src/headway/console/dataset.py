"""The page of one version of a dataset: facts, statistics, files, versions, and what changed between them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import quote

from nicegui import ui

from headway.client.aio import AsyncClient
from headway.console import numbers, show
from headway.console.changes import Changes
from headway.console.datasets import address
from headway.console.filelist import FileList
from headway.console.frame import text
from headway.console.texts import Texts
from headway.errors import NotFoundError
from headway.wire.datasets import DatasetVersionView

#: versions that are listed, the newest first
_VERSIONS = 50


class VersionPage:
    """`show` reads and draws; what people ask for afterwards is done by what `asks` is given."""

    def __init__(self, client: AsyncClient, t: Texts, project: str, name: str, version: int, *, may_push: bool) -> None:
        self._client, self._t, self._project = client, t, project
        self._name, self._version, self._may_push = name, version, may_push
        self._seen: object = None
        self._body = ui.element("div").classes("hw-sections")
        with self._body:
            text("p", t("ds_reading"), "hw-quiet")

    def asks(self, try_to: Callable[[Callable[[], Awaitable[None]]], Awaitable[bool]]) -> None:
        self._try_to = try_to

    async def show(self) -> None:
        versions = await self._client.dataset_versions(self._name)
        view = next((v for v in versions if v.version == self._version), None)
        if view is None:
            self._body.clear()
            raise NotFoundError(f"There is no dataset {self._name}@{self._version}.", "It may have been removed.")
        if versions == self._seen:
            return
        self._seen = versions
        self._body.clear()
        with self._body:
            self._head(view, versions[-1].version)
            self._statistics(view)
            with self._section("ds_browse"):
                files = FileList(self._client, self._t, address(self._project, view.name, view.version), view)
                files.asks(self._try_to)
            self._versions(view, versions)
            if older := [v.version for v in versions if v.version < view.version]:
                with self._section("ds_changes"):
                    changes = Changes(self._client, self._t, view, older[::-1][:_VERSIONS])
                    changes.asks(self._try_to)
        await files.show()

    def _section(self, title: str) -> ui.element:
        with ui.element("section").classes("hw-strip") as section:
            section.props["aria-label"] = self._t(title)
            text("h2", self._t(title))
            return ui.element("div").classes("hw-section-body")

    def _head(self, view: DatasetVersionView, newest: int) -> None:
        t = self._t
        with ui.element("div"):
            with ui.element("div").classes("hw-title"):
                text("h1", f"{view.name}@{view.version}")
                if newest != view.version:
                    link = text("a", f"{t('ds_newest')}: {view.name}@{newest}", "hw-link")
                    link.props["href"] = address(self._project, view.name, newest)
                ui.element("span").classes("hw-space")
                if self._may_push:
                    link = text("a", t("ds_upload_new"), "hw-button")
                    link.props["href"] = f"/projects/{quote(self._project, safe='')}/upload?name={quote(view.name)}"
            facts = {
                "ds_files": f"{view.files:,}",
                "ds_size": show.size(view.bytes),
                "ds_pushed": show.when(view.created_at),
                "ds_by": view.created_by,
                "ds_sent": show.size(view.sent_bytes) if view.sent_bytes else "",
                "ds_parents": ", ".join(view.parents),
                "ds_source": view.source,
                "ds_digest": view.digest[:16],
                "ds_use": f"--data {view.name}@{view.version}",
            }
            if view.damaged:
                text("p", t("ds_damaged"), "hw-warnings")
            with ui.element("dl").classes("hw-facts"):
                for key, value in facts.items():
                    if value:
                        with ui.element("div"):
                            text("dt", t(key))
                            kind = "code" if key in ("ds_digest", "ds_use") else ""
                            text("dd", value, kind).props["title"] = value

    def _statistics(self, view: DatasetVersionView) -> None:
        with self._section("st_title"):
            numbers.draw(view, self._t)

    def _versions(self, view: DatasetVersionView, versions: list[DatasetVersionView]) -> None:
        t = self._t
        heads = [("ds_version", ""), ("ds_files", "num"), ("ds_size", "num"), ("ds_pushed", ""), ("ds_by", "c-by")]
        with self._section("ds_versions"), ui.element("table").classes("hw-list hw-versions"):
            with ui.element("thead"), ui.element("tr"):
                for head, kind in heads:
                    text("th", t(head), kind, props='scope="col"')
            with ui.element("tbody"):
                for one in list(reversed(versions))[:_VERSIONS]:
                    with ui.element("tr"):
                        with ui.element("td"):
                            if one.version == view.version:
                                text("strong", f"{one.name}@{one.version}")
                            else:
                                link = text("a", f"{one.name}@{one.version}", "hw-link")
                                link.props["href"] = address(self._project, one.name, one.version)
                        text("td", f"{one.files:,}", "num")
                        text("td", show.size(one.bytes), "num")
                        text("td", show.when(one.created_at))
                        text("td", one.created_by, "c-by")
