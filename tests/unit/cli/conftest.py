"""A served api for the commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.services.context import Services
from headway.testing.api import serve


@pytest.fixture(scope="module")
def address(ctx: Services) -> Iterator[tuple[str, str]]:
    """(url, admin's token) of an api over the module's own `ctx`."""
    with serve(ctx) as api:
        yield api.url, (Path(ctx.root).parent / "admin.token").read_text().strip()
