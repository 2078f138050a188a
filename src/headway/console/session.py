"""Who is signed in: the token stays on the server, the browser has a signed cookie with a random number.

A session ends `LIFETIME` seconds after the sign-in, when its token stops being good, or by signing out.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
import uuid
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from nicegui import app
from starlette.requests import Request

from headway.client.aio import AsyncClient
from headway.console.texts import LANGUAGES, preferred
from headway.wire.people import Me

#: seconds
LIFETIME = 12 * 3600.0
#: seconds for which the browser keeps the cookie: preferences outlive a session
COOKIE_LIFETIME = 30 * 86400
#: the cookie's name tells two headways on one host apart only by port, so it says whose it is
COOKIE = "headway_session"
THEMES = ("auto", "light", "dark")
_MINE = ("token", "user", "expires")


def load_secret(folder: Path) -> str:
    """The key that signs cookies: made on the first start, readable by the owner alone. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    # sessions hold tokens: nobody else may look into this folder
    folder.chmod(0o700)
    file = folder / "secret"
    if not file.exists():
        new = folder / f"secret.{os.getpid()}"
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as out:
            out.write(secrets.token_urlsafe(48))
            out.flush()
            os.fsync(out.fileno())
        new.replace(file)
    _sweep(folder)
    return file.read_text().strip()


def _sweep(folder: Path) -> None:
    """Removes sessions that nobody has used for longer than one lasts: their tokens have no business there."""
    for file in folder.glob("storage-user-*.json*"):
        with contextlib.suppress(OSError):
            if file.stat().st_mtime < time.time() - LIFETIME:
                file.unlink()


class Session:
    """The session that a request belongs to; to be made within a request or page."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._store: MutableMapping[str, Any] = app.storage.user

    @property
    def token(self) -> str | None:
        """None when nobody is signed in, or no longer."""
        token = self._store.get("token")
        if not token or self._store.get("expires", 0) < time.time():
            return None
        return str(token)

    @property
    def seconds_left(self) -> float:
        return max(0.0, float(self._store.get("expires", 0)) - time.time())

    @property
    def user(self) -> str:
        return str(self._store.get("user", ""))

    @property
    def language(self) -> str:
        chosen = self._store.get("language")
        if chosen in LANGUAGES:
            return str(chosen)
        return preferred(self._request.headers.get("accept-language", ""))

    @property
    def theme(self) -> str:
        theme = self._store.get("theme")
        return str(theme) if theme in THEMES else "auto"

    @property
    def project(self) -> str:
        return str(self._store.get("project", ""))

    def prefer(self, key: str, value: str) -> None:
        """Keeps a preference (language, theme, project): for the signed-in user, also in later sessions."""
        self._store[key] = value
        if self.user:
            kept = app.storage.general.get("preferences", {})
            app.storage.general["preferences"] = {**kept, self.user: {**kept.get(self.user, {}), key: value}}

    async def sign_in(self, me: Me, token: str) -> None:
        """Begins a session under a new number, so that one known before the sign-in is worth nothing."""
        chosen = {k: v for k, v in self._store.items() if k not in _MINE}
        kept = app.storage.general.get("preferences", {}).get(me.name, {})
        await self._renew()
        self._store.update({**kept, **chosen, "user": me.name, "token": token, "expires": time.time() + LIFETIME})

    async def sign_out(self) -> None:
        """Ends the session on the server; what the browser still has is worth nothing."""
        self.forget()
        await self._renew()

    def forget(self) -> None:
        """Drops the token, e.g. one that the server no longer takes."""
        for key in _MINE:
            self._store.pop(key, None)

    async def _renew(self) -> None:
        self.forget()
        language = {k: self._store[k] for k in ("language", "theme") if k in self._store}
        self._store.clear()
        self._request.session["id"] = str(uuid.uuid4())
        await app.storage._create_user_storage(self._request.session["id"])
        self._store = app.storage.user
        self._store.update(language)


async def who(api_url: str, token: str) -> Me:
    """Whose token this is. Raises UnauthorizedError, UnreachableError."""
    client = AsyncClient(api_url, token, patience=3.0)
    try:
        return await client.me()
    finally:
        await client.aclose()
