"""Where spot prices come from, behind one small interface: a file, a feed, or nowhere."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from headway.errors import UsageError
from headway.rules.prices import History, parse

_log = logging.getLogger(__name__)

#: a feed is asked this often, and may take so long
ASK_SECONDS, WAIT_SECONDS = 60.0, 10.0
#: the same trouble is logged this often
QUIET_SECONDS = 600.0


class Prices(ABC):
    """A source of spot prices. `history` is quick, never raises, and may be called from any thread.

    A source that fails keeps the last prices that it knew, and says so in the log now and then.
    """

    @abstractmethod
    def history(self) -> History:
        """All prices that are known now."""


class NoPrices(Prices):
    def history(self) -> History:
        return History()


class _Kept(Prices):
    """The last history that could be understood."""

    def __init__(self, where: str, clock: Callable[[], float]) -> None:
        self.where, self._clock = where, clock
        self._known = History()
        self._said: dict[str, float] = {}
        self._lock = threading.Lock()

    def _take(self, text: str, *, keep: bool) -> None:
        """keep: prices known before stay, for a source that tells the present ones alone."""
        found = parse(text, self.where, self._clock())
        with self._lock:
            self._known = self._known.with_(found) if keep else found

    def _trouble(self, error: object) -> None:
        text = str(error)
        if time.monotonic() - self._said.get(text, float("-inf")) >= QUIET_SECONDS:
            self._said = {text: time.monotonic()}
            _log.warning("spot prices of %s cannot be had, the last ones hold: %s", self.where, text)


class FilePrices(_Kept):
    """A CSV or JSON file, read again when it changes."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        super().__init__(str(path), clock)
        self._path = path
        self._seen: tuple[int, int, int] | None = None

    def history(self) -> History:
        try:
            found = self._path.stat()
            seen = (found.st_mtime_ns, found.st_size, found.st_ino)
            if seen != self._seen:
                self._seen = seen
                self._take(self._path.read_text(encoding="utf-8"), keep=False)
        except (OSError, UsageError, UnicodeDecodeError) as error:
            self._trouble(error)
        return self._known


class FeedPrices(_Kept):
    """A URL that answers CSV or JSON, asked every `ASK_SECONDS` by a thread of its own from the first question on."""

    def __init__(
        self, url: str, clock: Callable[[], float] = time.time, *, every: float = ASK_SECONDS, first: float = 2.0
    ) -> None:
        """every: seconds between questions. first: seconds that the first `history` waits for an answer at most."""
        super().__init__(url, clock)
        self._every, self._first = every, first
        self._thread: threading.Thread | None = None
        self._answered = threading.Event()
        self._closed = threading.Event()

    def history(self) -> History:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._poll, name="prices", daemon=True)
                self._thread.start()
        if self._first > 0:
            self._answered.wait(self._first)
            self._first = 0.0
        return self._known

    def close(self) -> None:
        self._closed.set()

    def _poll(self) -> None:
        import httpx

        with httpx.Client(timeout=WAIT_SECONDS, follow_redirects=True) as client:
            while not self._closed.is_set():
                try:
                    answer = client.get(self.where)
                    answer.raise_for_status()
                    self._take(answer.text, keep=True)
                except (httpx.HTTPError, httpx.InvalidURL, UsageError, ValueError) as error:
                    self._trouble(error)
                self._answered.set()
                self._closed.wait(self._every)


def open_prices(setting: str | None, clock: Callable[[], float] = time.time) -> Prices:
    """The source that a setting names: a URL, a path, or None for none."""
    if not setting:
        return NoPrices()
    if setting.startswith(("http://", "https://")):
        return FeedPrices(setting, clock)
    return FilePrices(Path(setting), clock)
