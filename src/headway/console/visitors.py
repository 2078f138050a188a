"""Who visits a page, and where those go who may not."""

from __future__ import annotations

from starlette.responses import RedirectResponse, Response

from headway.console.session import Session, who
from headway.errors import HeadwayError, UnauthorizedError
from headway.wire.people import Me

#: the sign-in, saying that the session is over
EXPIRED = "/login?error=expired"


def to(path: str) -> RedirectResponse:
    return RedirectResponse(path, status_code=303, headers={"Cache-Control": "no-store"})


async def visitor_of(api_url: str, session: Session) -> tuple[str, Me | None] | Response:
    """The session's token and whose it is (None while the api is away); to the sign-in when nobody is signed in."""
    token = session.token
    if token is None:
        had = bool(session.user)
        session.forget()
        return to(EXPIRED if had else "/login")
    try:
        return token, await who(api_url, token)
    except UnauthorizedError:
        session.forget()
        return to(EXPIRED)
    except HeadwayError:
        return token, None


def projects_of(session: Session, me: Me | None) -> list[str]:
    """The projects that the visitor may choose from."""
    projects = sorted(me.projects) if me else [session.project or "default"]
    if me and me.is_admin and "default" not in projects:
        projects.insert(0, "default")
    return projects
