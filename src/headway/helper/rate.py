"""How far a fetch is, told every few seconds: files, bytes, rate, time left."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from headway.helper.voice import Voice
from headway.rules.units import render_duration, render_size

#: between two lines
SECONDS = 3.0


class Rate:
    """Counted by many threads."""

    def __init__(self, name: str, files: int, size: int) -> None:
        """files, size: all that is to come, in number and in bytes."""
        self._name, self._all_files, self._all_bytes = name, files, size
        self._files = self._bytes = self._fetched = 0
        self._lock = threading.Lock()
        self._began = time.monotonic()

    def add(self, size: int, fetched: bool) -> None:
        """One more file is there."""
        with self._lock:
            self._files += 1
            self._bytes += size
            self._fetched += size if fetched else 0

    @contextlib.contextmanager
    def told(self, voice: Voice) -> Iterator[None]:
        """While inside, a line now and then."""
        done = threading.Event()

        def tell() -> None:
            while not done.wait(SECONDS):
                voice.log(self.line())

        thread = threading.Thread(target=tell, name="rate", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def line(self) -> str:
        with self._lock:
            files, size, speed = self._files, self._bytes, self._speed()
        left = f", {render_duration((self._all_bytes - size) / speed)} left" if speed else ""
        return (
            f"data {self._name}: {files:,} of {self._all_files:,} files, {render_size(size)} of "
            f"{render_size(self._all_bytes)}, {render_size(int(speed))}/s{left}"
        )

    def whole(self) -> str:
        """What it took."""
        return f"{time.monotonic() - self._began:.2f} s, {render_size(int(self._speed()))}/s"

    def _speed(self) -> float:
        """Bytes fetched in a second."""
        return self._fetched / max(1e-6, time.monotonic() - self._began)
