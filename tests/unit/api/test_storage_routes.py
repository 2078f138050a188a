"""The routes of connections and storage: a request that is wrong never has its secret said back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from headway.api import problems
from headway.api.routers import storage
from headway.testing.services import open_services

SECRET = "not-to-be-told"
GIVEN = {"access_key_id": "k", "secret_access_key": SECRET}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[TestClient]:
    app = FastAPI()
    app.state.services = open_services(tmp_path)
    problems.install(app)
    app.include_router(storage.router)
    token = (tmp_path / "admin.token").read_text().strip()
    with TestClient(app, headers={"Authorization": f"Bearer {token}"}) as client:
        yield client


def test_a_connection_is_made_used_shown_and_removed(api: TestClient) -> None:
    made = api.put("/connections/lab", json={"kind": "s3", "endpoint": "http://x:1", "region": "r", "secret": GIVEN})
    assert made.status_code == 200
    used = api.put("/projects/default/storage", json={"url": "s3://b/x", "connection": "lab", "regions": ["r"]})
    assert used.json()["refused"] == ""
    shown = api.get("/projects/default/storage")
    assert (shown.json()["url"], shown.json()["connection"], shown.json()["region"]) == ("s3://b/x", "lab", "r")
    listed = api.get("/connections")
    assert listed.json()[0]["projects"] == ["default"]
    assert api.delete("/connections/lab").json()["error"]["code"] == "in_use"
    api.put("/projects/default/storage", json={"url": "", "regions": []})
    assert api.delete("/connections/lab").status_code == 200
    assert SECRET not in made.text + used.text + shown.text + listed.text


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "s4", "secret": GIVEN},
        {"kind": "s3", "secret": {**GIVEN, "secret_access_key": {"a": SECRET}}},
        {"kind": "s3", "secret": [SECRET]},
        {"kind": "s3", "secret": {**GIVEN, "sectet": SECRET}},
        [{"kind": "s3", "secret": GIVEN}],
    ],
)
def test_a_wrong_request_is_refused_without_its_secret(api: TestClient, body: Any) -> None:
    answer = api.put("/connections/lab", json=body)
    assert answer.status_code == 422
    assert SECRET not in answer.text


def test_a_check_tells_each_line(api: TestClient, tmp_path: Path) -> None:
    answer = api.post("/projects/default/storage/check", json={"url": f"file://{tmp_path}/data"}).json()
    assert "write" in [line["what"] for line in answer["lines"]]
