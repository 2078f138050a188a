"""A URL's file, fetched to a temporary one: resumed where the connection breaks, its length checked."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

import httpx

from headway.client.transport import is_loopback
from headway.errors import FailedError, UsageError
from headway.rules.datasets import path_fault

#: tries in a row that brought nothing
_TRIES = 5
#: bytes of the temporary disk that are left free
_SPARE = 256 << 20


def label(url: str) -> str:
    """The URL without what may be secret: user, password and query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, (parts.netloc or "").rpartition("@")[2], parts.path, "", ""))


def file_name(url: str) -> str:
    name = unquote(urlsplit(url).path).rpartition("/")[2]
    return name if name and "/" not in name and path_fault(name) is None else "data"


def fetch(url: str, into: Path, told: Callable[[int, int], None], *, pause: float = 1.0) -> Path:
    """The file with what the URL gives. told: (bytes so far, bytes in all or 0).

    Raises UsageError for a URL that gives none, FailedError when it breaks off again and again.
    """
    target = into / file_name(url)
    fetching = _Fetching(url, target, told)
    failed, why = 0, ""
    with httpx.Client(
        follow_redirects=True,
        timeout=httpx.Timeout(60, connect=10),
        headers={"Accept-Encoding": "identity"},
        trust_env=not is_loopback(url),
    ) as http:
        while failed < _TRIES:
            before = fetching.done
            try:
                if fetching.more(http):
                    return target
                why = "it broke off"
            except (httpx.TransportError, _PassingError) as error:
                why = str(error) or type(error).__name__
            except httpx.HTTPError as error:
                raise UsageError(f"{label(url)} cannot be fetched: {error}.", "Check the URL.") from None
            failed = 0 if fetching.done > before else failed + 1
            time.sleep(pause * failed)
    raise FailedError(
        f"{label(url)} could not be fetched ({why}; {fetching.done} bytes came).", "Try again, or push a local copy."
    )


class _PassingError(Exception):
    pass


class _Fetching:
    def __init__(self, url: str, target: Path, told: Callable[[int, int], None]) -> None:
        self.done = 0
        self._url, self._target, self._told = url, target, told
        self._all = 0
        self._tag: str | None = None

    def more(self, http: httpx.Client) -> bool:
        """One request for what is missing; whether all is there."""
        headers = {}
        if self.done and self._tag:
            headers = {"Range": f"bytes={self.done}-", "If-Range": self._tag}
        with http.stream("GET", self._url, headers=headers) as response:
            self._check(response)
            whole = self._begin(response)
            with open(self._target, "ab") as out:
                if out.tell() > self.done:
                    out.truncate(self.done)
                for block in response.iter_raw(1 << 20):
                    out.write(block)
                    self.done += len(block)
                    self._told(self.done, self._all)
            return self.done == whole if whole is not None else True

    def _check(self, response: httpx.Response) -> None:
        code = response.status_code
        if code >= 500 or code in (408, 429):
            raise _PassingError(f"it answered {code}")
        if code not in (200, 206):
            raise UsageError(
                f"{label(self._url)} answers {code} {response.reason_phrase}.",
                "Check the URL, and whether it is public.",
            )

    def _begin(self, response: httpx.Response) -> int | None:
        """Where the answer begins and ends; bytes in all, None where the server does not say."""
        # some servers answer with the range that was asked for, and say 200
        if response.status_code == 206 or "Content-Range" in response.headers:
            start, _, whole = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("/")
            if start.partition("-")[0] != str(self.done):
                self.done, self._tag = 0, None
                raise _PassingError("it answered another range than asked for")
            return int(whole) if whole.isdigit() else None
        self.done = 0
        strong = response.headers.get("ETag", "")
        self._tag = strong if strong and not strong.startswith("W/") else response.headers.get("Last-Modified")
        length = response.headers.get("Content-Length", "")
        self._all = int(length) if length.isdigit() else 0
        free = shutil.disk_usage(self._target.parent).free
        if self._all > free - _SPARE:
            raise UsageError(
                f"{label(self._url)} has {self._all} bytes, and the disk of {os.path.dirname(self._target.parent)} has"
                f" {free} free.",
                "Set TMPDIR to a folder with more space.",
                code="no_space",
            )
        return self._all if length.isdigit() else None
