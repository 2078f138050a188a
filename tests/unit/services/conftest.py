from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.rules.access import Caller, Role
from headway.services.context import Services
from headway.testing.s3servers import rclone
from headway.testing.services import Clock, caller, open_services

__all__ = ["rclone"]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ctx(tmp_path: Path, clock: Clock) -> Iterator[Services]:
    opened = open_services(tmp_path, clock=clock)
    yield opened
    opened.store.close()


@pytest.fixture
def member(ctx: Services) -> Caller:
    return caller(ctx, "mia", Role.MEMBER)


@pytest.fixture
def viewer(ctx: Services) -> Caller:
    return caller(ctx, "vic", Role.VIEWER)


@pytest.fixture
def owner(ctx: Services) -> Caller:
    return caller(ctx, "olga", Role.OWNER)


@pytest.fixture
def stranger(ctx: Services) -> Caller:
    return caller(ctx, "sten")
