from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI

from headway.api.app import create_app
from headway.services.context import Services
from headway.testing.api import Api, serve
from headway.testing.services import open_services


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    opened = open_services(tmp_path_factory.mktemp("home"))
    yield opened
    opened.store.close()


@pytest.fixture(scope="module")
def app(ctx: Services) -> FastAPI:
    return create_app(ctx)


@pytest.fixture(scope="module")
def api(ctx: Services) -> Iterator[Api]:
    with serve(ctx) as served:
        yield served


@pytest.fixture(scope="module")
def admin(api: Api) -> Iterator[httpx.Client]:
    with api.admin() as client:
        yield client
