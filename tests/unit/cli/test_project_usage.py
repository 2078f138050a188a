"""What a project stores, as it is shown, and a push that it has no room for."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headway.cli.app import app
from headway.client import Client
from headway.client.pushing.push import push
from headway.errors import NotFoundError, RefusedError
from headway.services.context import Services
from headway.testing.services import open_services

Headway = Callable[..., Any]


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    opened = open_services(tmp_path_factory.mktemp("home"))
    yield opened
    opened.store.close()


@pytest.fixture
def headway(address: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> Headway:
    monkeypatch.setenv("HEADWAY_URL", address[0])
    monkeypatch.setenv("HEADWAY_TOKEN", address[1])
    return lambda *words: CliRunner().invoke(app, ["project", *words])


def test_a_push_over_the_quota_goes_on_once_there_is_room(
    headway: Headway, address: tuple[str, str], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for number in range(20):
        (data / f"{number}.bin").write_bytes(random.Random(number).randbytes(10_000))
    headway("quota", "default", "--bytes", "100KiB")
    with Client(*address) as client:

        def pushed() -> int:
            return push(client.transport, "default", "large", data, cache=tmp_path / "cache").version

        with pytest.raises(RefusedError, match=r"may have 100\.0 KiB: 0 B are used \(0 B by datasets\)") as refused:
            pushed()
        assert (refused.value.code, refused.value.exit_code) == ("over_quota", 3)
        with pytest.raises(NotFoundError):
            client.datasets.find("large")
        headway("quota", "default", "--bytes", "1MiB")
        assert pushed() == 1
        view = client.projects.get("default")
        # the newest version holds these files: nothing is needed
        headway("quota", "default", "--bytes", "100KiB")
        assert pushed() == 1
    head, line = headway("ls").stdout.splitlines()
    assert head.split() == ["PROJECT", "OUTPUTS", "DATASETS", "QUOTA", "FILES", "FILES", "QUOTA"]
    assert line.split() == ["default", "0", "B", f"{view.data.bytes / 1024:.1f}", "KiB", "100.0", "KiB", "3", "-"]
    size, files = headway("quota", "default").stdout.splitlines()
    said = f"{view.data.bytes / 1024:.1f} KiB"
    assert size == f"bytes: {said} used (0 B by outputs, {said} by datasets), 100.0 KiB"
    assert files == "files: 3 used (0 by outputs, 3 by datasets), no limit"
    assert json.loads(headway("quota", "default", "--json").stdout)["data"] == view.data.model_dump()
