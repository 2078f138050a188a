"""Attempts that run on real runners, without any server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.engines.local import LocalEngine
from headway.testing.engines import Attempt


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Attempt]]:
    """`make(command, **launch fields)` gives an attempt that is not started yet."""
    engine = LocalEngine(tmp_path)
    made: list[Attempt] = []

    def one(command: list[str], **changes: Any) -> Attempt:
        made.append(Attempt(engine, tmp_path, command, **changes))
        return made[-1]

    yield one
    for attempt in made:
        attempt.clean()
