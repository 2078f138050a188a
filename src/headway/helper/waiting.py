"""A full target is waited out: said once, looked at again and again, and left when there is room."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from headway.protocol import events
from headway.storage.full import TargetFullError

if TYPE_CHECKING:
    from headway.helper.__main__ import Voice

T = TypeVar("T")


class Patience:
    """Tries a thing until its target takes it. PAUSED is told on the first refusal, RESUMED when the thing was done."""

    def __init__(self, voice: Voice, seconds: float) -> None:
        self._voice = voice
        self._seconds = seconds

    def until_done(self, attempt: Callable[[], T]) -> T:
        said = ""
        while True:
            try:
                done = attempt()
            except TargetFullError as full:
                if full.cause != said:
                    said = full.cause
                    self._voice.event(
                        events.PAUSED,
                        cause=full.cause,
                        path=full.path,
                        message=full.message,
                        remedy=full.remedy,
                        figures=full.figures,
                    )
                    self._voice.log(f"paused: {full.message} {full.remedy}")
                time.sleep(self._seconds)
                continue
            if said:
                self._voice.event(events.RESUMED)
                self._voice.log("goes on: the target takes writes again")
            return done
