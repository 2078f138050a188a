"""Where the server is and with which token: flags, variables, then what `headway up` left in the home."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from headway import config
from headway.errors import UnauthorizedError, UnreachableError


@dataclass(frozen=True)
class Address:
    url: str
    token: str


def locate(url: str | None = None, token: str | None = None, *, home: Path | None = None) -> Address:
    """The server's address and a token for it.

    Without a URL: HEADWAY_URL, else the URL in HOME/up.json. Without a token: HEADWAY_TOKEN, else HOME/admin.token.
    Raises UnreachableError when no headway runs for the home (its token is never sent to whatever else listens on the
    usual port), UnauthorizedError when there is no token anywhere.
    """
    settings = config.load({"home": home}).settings
    url = url or os.environ.get("HEADWAY_URL") or url_of(settings)
    if not url:
        raise UnreachableError(
            f"No headway runs for the home {settings.home}.",
            "Start one with `headway up`, or set HEADWAY_URL and HEADWAY_TOKEN.",
            code="not_running",
        )
    token = token or os.environ.get("HEADWAY_TOKEN") or _read(settings.admin_token_file)
    if not token:
        raise UnauthorizedError(f"There is no token for {url}.", "Set HEADWAY_TOKEN.", code="no_token")
    return Address(url.rstrip("/"), token)


def url_of(settings: config.Settings) -> str | None:
    """The URL in HOME/up.json; None when there is none."""
    try:
        return str(json.loads(_read(settings.up_file))["url"])
    except (ValueError, KeyError, TypeError):
        return None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
