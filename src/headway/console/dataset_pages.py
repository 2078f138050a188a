"""The addresses of a project's datasets: the list, a version, the upload, and what the browser asks for beside."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nicegui import app, ui
from starlette.requests import Request
from starlette.responses import Response

from headway.client.aio import AsyncClient
from headway.console import downloads, frame
from headway.console.dataset import VersionPage
from headway.console.datasets import Listing, address
from headway.console.frame import text
from headway.console.looking import Looking
from headway.console.parts.elements import Upload
from headway.console.session import Session
from headway.console.texts import Texts
from headway.console.uploads import Uploads
from headway.console.visitors import projects_of, to, visitor_of
from headway.rules.access import Role
from headway.rules.datasets import is_name
from headway.wire.people import Me

#: seconds between looks at the list
_EVERY = 10.0
#: seconds without a connection after which an upload's page has to be loaded anew, and its files chosen again
_KEPT_OPEN = 3600.0


def register(api_url: str, uploads: Path) -> None:
    """Adds the pages to NiceGUI's application; once in a process. uploads: folder for what browsers send."""

    @ui.page("/projects/{project}/datasets", title="headway")
    async def listing(request: Request, project: str) -> Response | None:
        visit = await _Visit.of(api_url, request, project)
        if isinstance(visit, Response):
            return visit
        with visit.body("datasets"):
            shown = Listing(visit.client, visit.t, project, may_push=visit.may_push)
            visit.follow(Looking(visit.client, visit.t, visit.seconds, visit.live, shown.show, every=_EVERY))
        return None

    @ui.page("/projects/{project}/datasets/{name}/{version}", title="headway")
    async def version(request: Request, project: str, name: str, version: int) -> Response | None:
        visit = await _Visit.of(api_url, request, project)
        if isinstance(visit, Response):
            return visit
        with visit.body("dataset"):
            _back(visit.t, project)
            page = VersionPage(visit.client, visit.t, project, name, version, may_push=visit.may_push)
            looking = Looking(visit.client, visit.t, visit.seconds, visit.live, page.show)
            page.asks(looking.try_to)
            visit.follow(looking)
        return None

    @ui.page("/projects/{project}/upload", title="headway", reconnect_timeout=_KEPT_OPEN)
    async def upload(request: Request, project: str, name: str = "") -> Response | None:
        visit = await _Visit.of(api_url, request, project)
        if isinstance(visit, Response):
            return visit
        with visit.body("upload"):
            _back(visit.t, project)
            known = name if is_name(name) else ""
            text("h1", visit.t("up_title_new", name=known) if known else visit.t("up_title"))
            Upload(visit.t, project=project, dataset=known)
            visit.follow(Looking(visit.client, visit.t, visit.seconds, visit.live, _nothing))
        return None

    _register_files(api_url)
    _register_uploads(Uploads(api_url, uploads))


async def _nothing() -> None:
    pass


def _back(t: Texts, project: str) -> None:
    text("a", f"← {t('ds_all')}", "hw-link hw-back").props["href"] = address(project)


class _Visit:
    """Somebody who is signed in, on a page about a project's datasets."""

    def __init__(self, api_url: str, session: Session, token: str, me: Me | None, project: str) -> None:
        self.t, self.seconds = Texts(session.language), session.seconds_left
        self.client = AsyncClient(api_url, token, project=quote(project, safe=""))
        may = (Role.OWNER.value, Role.MEMBER.value)
        #: also while the server is away: it says so itself when somebody tries
        self.may_push = me is None or me.is_admin or me.projects.get(project) in may
        self._session, self._me, self._project = session, me, project

    @classmethod
    async def of(cls, api_url: str, request: Request, project: str) -> _Visit | Response:
        """Or to the sign-in."""
        session = Session(request)
        visitor = await visitor_of(api_url, session)
        return visitor if isinstance(visitor, Response) else cls(api_url, session, *visitor, project)

    def body(self, skip: str) -> ui.element:
        """The page's main part; the header is drawn above it."""
        frame.dress(self._session, self.t)
        projects = projects_of(self._session, self._me)
        self.live = frame.header(self._session, self.t, projects, self._project, skip=skip, word="datasets")
        return ui.element("main").classes("hw-main hw-narrow").props(f'id="{skip}"')

    def follow(self, looking: Looking) -> None:
        page: Any = ui.context.client
        page.on_connect(looking.start)
        page.on_delete(looking.stop)


def _register_files(api_url: str) -> None:
    @app.get("/projects/{project}/datasets/{name}/{version}/file")
    async def file(request: Request, project: str, name: str, version: int, path: str) -> Response:
        token = Session(request).token
        if token is None:
            return to("/login?error=expired")
        client = AsyncClient(api_url, token, project=quote(project, safe=""))
        return await downloads.dataset_file(client, name, version, path)


def _register_uploads(uploads: Uploads) -> None:
    sweeping: set[asyncio.Task[None]] = set()

    async def close() -> None:
        for task in sweeping:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await uploads.close()

    app.on_startup(lambda: sweeping.add(asyncio.create_task(uploads.sweep())))
    app.on_shutdown(close)
    app.add_api_route("/upload", uploads.open, methods=["POST"])
    app.add_api_route("/upload/{upload}", uploads.state, methods=["GET"])
    app.add_api_route("/upload/{upload}", uploads.cancel, methods=["DELETE"])
    app.add_api_route("/upload/{upload}/held", uploads.held, methods=["POST"])
    app.add_api_route("/upload/{upload}/files", uploads.write, methods=["POST"])
    app.add_api_route("/upload/{upload}/publish", uploads.publish, methods=["POST"])
