"""The console's addresses: the sign-in, the first page, and the two forms that begin and end a session."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import parse_qs, quote

from nicegui import app, ui
from starlette.requests import Request
from starlette.responses import Response

from headway.client.aio import AsyncClient
from headway.console import downloads, frame, outputs
from headway.console.board import Board
from headway.console.evaluation import EvaluationPage, assets_path
from headway.console.session import Session, who
from headway.console.texts import Texts
from headway.console.visitors import EXPIRED, projects_of, to, visitor_of
from headway.errors import HeadwayError, UnauthorizedError
from headway.report.page import ASSETS
from headway.wire.people import Me

_log = logging.getLogger("headway.console")
#: bytes of a sign-in form
_LARGEST_FORM = 4096
_ERRORS = ("token", "empty", "away", "expired")


def register(api_url: str) -> None:
    """Adds the pages to NiceGUI's application; once in a process."""
    assets = assets_path()
    app.add_static_files(assets, ASSETS, max_cache_age=86400)

    @ui.page("/login", title="headway")
    async def login(request: Request, error: str = "") -> Response | None:
        session = Session(request)
        if session.token and not error:
            return to("/")
        _login_page(session, error if error in _ERRORS else "")
        return None

    @app.post("/login")
    async def sign_in(request: Request) -> Response:
        token = await _form_value(request, "token")
        if not token:
            return to("/login?error=empty")
        try:
            me = await who(api_url, token)
        except UnauthorizedError:
            return to("/login?error=token")
        except HeadwayError as error:
            _log.warning("sign-in: %s", error)
            return to("/login?error=away")
        await Session(request).sign_in(me, token)
        return to("/")

    @app.post("/logout")
    async def sign_out(request: Request) -> Response:
        await Session(request).sign_out()
        return to("/login")

    _register_downloads(api_url)

    @ui.page("/", title="headway")
    async def first(request: Request, run: str = "") -> Response | None:
        session = Session(request)
        visitor = await visitor_of(api_url, session)
        if isinstance(visitor, Response):
            return visitor
        _board_page(api_url, session, *visitor, int(run) if run.isdecimal() and len(run) < 18 else 0)
        return None

    @ui.page("/projects/{project}/evaluations/{number}", title="headway")
    async def evaluation(request: Request, project: str, number: int) -> Response | None:
        session = Session(request)
        visitor = await visitor_of(api_url, session)
        if isinstance(visitor, Response):
            return visitor
        _evaluation_page(api_url, session, *visitor, project, number, assets)
        return None

    _register_outputs(api_url)


def _register_downloads(api_url: str) -> None:
    @app.get("/runs/{run}/log")
    async def log(request: Request, run: int) -> Response:
        return await downloads.log(api_url, Session(request).token, run, request.query_params)


def _register_outputs(api_url: str) -> None:
    """What an evaluation's page asks for."""
    clients, pictures = outputs.Clients(api_url), outputs.Pictures()
    app.on_shutdown(clients.close)
    app.on_shutdown(pictures.close)
    address = "/projects/{project}/evaluations/{number}"

    def client(request: Request, project: str) -> AsyncClient | None:
        token = Session(request).token
        return None if token is None else clients.get(token, quote(project, safe=""))

    @app.get(f"{address}/drawing")
    async def drawing(request: Request, project: str, number: int) -> Response:
        asking = client(request, project)
        return to(EXPIRED) if asking is None else await outputs.drawing(asking, request, number)

    @app.get(f"{address}/cells/{{cell}}/files/{{name:path}}")
    async def file(request: Request, project: str, number: int, cell: int, name: str) -> Response:
        asking = client(request, project)
        return to(EXPIRED) if asking is None else await outputs.file(asking, request, number, cell, name)

    @app.get(f"{address}/cells/{{cell}}/thumbs/{{name:path}}")
    async def thumb(request: Request, project: str, number: int, cell: int, name: str) -> Response:
        asking = client(request, project)
        return to(EXPIRED) if asking is None else await pictures.picture(asking, request, number, cell, name)


async def _form_value(request: Request, name: str) -> str:
    """A value of a posted form; empty when it is missing or the form is too large."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LARGEST_FORM:
            return ""
    return parse_qs(body.decode("utf-8", "replace")).get(name, [""])[0].strip()


def _login_page(session: Session, error: str) -> None:
    t = Texts(session.language)
    frame.dress(session, t)
    with ui.element("main").classes("hw-login"):
        with ui.element("form").props('method="post" action="/login"').classes("hw-card"):
            frame.mark()
            frame.text("h1", t("login_title"))
            frame.text("p", t("login_hint"), "hw-quiet")
            frame.text("label", t("token"), props='for="token"')
            ui.element("input").props(
                'id="token" name="token" type="password" autocomplete="current-password" required autofocus'
                + (' aria-invalid="true" aria-describedby="error"' if error else "")
            ).classes("hw-input")
            if error:
                frame.text("p", t(f"error_{error}"), "hw-error", props='id="error" role="alert"')
            frame.text("button", t("login"), "hw-button hw-primary", props='type="submit"')
        with ui.element("div").classes("hw-login-foot"):
            frame.language_button(session, t)
            frame.theme_button(session, t)


def _evaluation_page(
    api_url: str, session: Session, token: str, me: Me | None, project: str, evaluation: int, assets: str
) -> None:
    t = Texts(session.language)
    frame.dress(session, t)
    client = AsyncClient(api_url, token, project=quote(project, safe=""))
    live = frame.header(session, t, projects_of(session, me), project, skip="evaluation")
    shown = EvaluationPage(client, t, session.seconds_left, live, evaluation, assets)
    page: Any = ui.context.client
    page.on_connect(shown.start)
    page.on_delete(shown.stop)


def _board_page(api_url: str, session: Session, token: str, me: Me | None, run: int) -> None:
    t = Texts(session.language)
    frame.dress(session, t)
    projects = projects_of(session, me)
    if not projects:
        frame.header(session, t, [], "")
        with ui.element("main").classes("hw-main"):
            frame.text("p", t("no_project"), "hw-empty")
        return
    project = session.project if session.project in projects else ("default" if "default" in projects else projects[0])
    client = AsyncClient(api_url, token, project=project)
    live = frame.header(session, t, projects, project)
    board = Board(client, t, session.seconds_left, live, run)
    page: Any = ui.context.client
    page.on_connect(board.start)
    page.on_delete(board.stop)
