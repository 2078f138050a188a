"""The gate: every pause that is told has its end told, and none that it does not have."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headway.helper.gate import ClosedError, Gate
from headway.helper.voice import Voice
from headway.storage.full import TargetFullError


class Heard:
    """A gate whose voice goes into a file."""

    def __init__(self, place: Path) -> None:
        self._file = place.open("w+b")
        self.gate = Gate(Voice(self._file.fileno()), seconds=0.01)

    @property
    def events(self) -> list[str]:
        self._file.seek(0)
        words = map(json.loads, self._file.read().splitlines())
        return [word["event"]["event"] for word in words if "event" in word]

    def close(self) -> None:
        self._file.close()


@pytest.fixture
def heard(tmp_path: Path) -> Iterator[Heard]:
    made = Heard(tmp_path / "heard")
    yield made
    made.close()


def after_pause(heard: Heard, then: Callable[[], str]) -> Callable[[], str]:
    """Something that is refused until the pause is told."""

    def attempt() -> str:
        if "paused" not in heard.events:
            raise TargetFullError("no_space", "/target", "It is full.")
        return then()

    return attempt


def test_a_gate_that_is_closed_while_something_goes_through_tells_the_end_of_the_pause(heard: Heard) -> None:
    """The helper is told to end as soon as its last cell is told, which is before the gate knows that it is through."""

    def publish() -> str:
        heard.gate.close()
        return "published"

    assert heard.gate.through(after_pause(heard, publish)) == "published"
    assert heard.events == ["paused", "resumed"]


def test_what_is_given_up_tells_no_end_and_nor_does_who_never_waited(heard: Heard) -> None:
    def refused() -> str:
        if "paused" in heard.events:
            heard.gate.close()
        raise TargetFullError("no_space", "/target", "It is full.")

    with pytest.raises(ClosedError):
        heard.gate.through(refused)
    assert heard.gate.through(lambda: "looked") == "looked"
    assert heard.events == ["paused"]
