from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from headway.api import docs
from headway.client import Client
from headway.errors import HeadwayError
from headway.rules.access import Role
from headway.testing.api import Api, serve
from headway.testing.services import open_services


@pytest.mark.parametrize(
    "value",
    [
        '"command": ["\\ud800"]',
        '"command": ["x"], "parameters": {"a": NaN}',
        '"command": ["x"], "parameters": {"a": [{"b": 1e999}]}',
        '"command": ["x"], "parameters": {"\\udfff": 1}',
        '"command": ["x"], "max_duration": 1e999',
        f'"command": ["x"], "parameters": {{"a": {"[" * 500}{"]" * 500}}}',
        '"command": ["x"], "grace": 1e999',
    ],
)
def test_what_no_listing_could_show_is_refused(admin: httpx.Client, value: str) -> None:
    """One such value in the record would make each listing of its project fail from then on."""
    answer = admin.post(
        "/projects/default/jobs", content=f'{{"held": true, {value}}}', headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"]["code"] == "usage"
    assert admin.get("/projects/default/runs").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code", "words"),
    [
        ("POST", "jobs", {"command": ["x"], "priorty": 3}, 422, "unknown_key", "priority"),
        ("POST", "jobs", {"command": ["x"], "zzzzzz": 3}, 422, "unknown_key", "command"),
        ("POST", "jobs", {"command": ["x"], "priority": 12}, 422, "usage", "12"),
        ("POST", "jobs", {}, 422, "usage", "command"),
        ("POST", "jobs", {"command": ["x"], "spec": "smal"}, 422, "unknown_spec", "small"),
        (
            "POST", "evaluations",
            {"name": "e", "job": 1, "cases": [{"id": "a", "tag": []}], "worker": "w.py:W", "outputs": [{"name": "s"}],
             "snapshot": "x"},
            422, "unknown_key", "tags",
        ),
        ("PUT", "quota", {"quota_file": 1}, 422, "unknown_key", "quota_files"),
        ("PUT", "quota", {"quota_files": -1}, 422, "usage", "-1"),
        ("GET", "runs?sate=live", None, 422, "unknown_parameter", "state"),
        ("GET", "runs?limit=0", None, 422, "usage", "limit"),
        ("GET", "runs?before=99999999999999999999", None, 422, "usage", "too large"),
        ("GET", "jobs/99999999999999999999", None, 422, "usage", "too large"),
        ("POST", "jobs", {"command": ["x"], "retries": 10**20}, 422, "usage", "too large"),
        ("POST", "jobs", {"command": ["x"], "name": "a\0"}, 422, "usage", "zero byte"),
        ("GET", "bill?since=2026-01-01T00:00:00", None, 422, "usage", "zone"),
        ("GET", "jobs/x", None, 422, "usage", "'x'"),
        ("GET", "nothing", None, 404, "not_found", "nothing"),
        ("DELETE", "jobs", None, 405, "wrong_method", "DELETE"),
        ("GET", "endpoints/none", None, 404, "not_found", "none"),
        ("PUT", "snapshots/abc", None, 422, "usage", "abc"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_sentence_with_what_to_do(
    admin: httpx.Client, method: str, path: str, body: Any, status: int, code: str, words: str
) -> None:
    response = admin.request(method, f"/projects/default/{path}", json=body)
    assert response.status_code == status
    error = response.json()["error"]
    assert error["code"] == code
    assert words in f"{error['message']} {error['remedy']}"


@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        (b"{not json", "json", "The body is not JSON: line 1, column 2: expecting property name"),
        (b'{"command":\n ["x"]\n  "name": 1}', "json", "line 3, column 3: expecting ',' delimiter"),
        (b"[1, 2", "json", "line 1, column 6: expecting ',' delimiter"),
        (b'{"a": "\xc3\xa9 \xff"}', "json", "line 1, column 10: byte 0xff is no UTF-8"),
        (b'{"a":\n"\xff"}', "merge-patch+json", "line 2, column 2: byte 0xff is no UTF-8"),
        (b"[" * 100_000, "json", "The body is nested too deep."),
        (b"9" * 5000, "json", "The body has a number that is too large."),
        (b'{"command": ["x"]}', "x-www-form-urlencoded", "The body was not sent as JSON."),
    ],
)
def test_a_body_that_is_no_json_is_told_where(admin: httpx.Client, body: bytes, kind: str, says: str) -> None:
    headers = {"Content-Type": f"application/{kind}"}
    response = admin.post("/projects/default/jobs", content=body, headers=headers)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (422, "usage")
    assert says in error["message"] and "\n" not in error["message"]
    assert error["remedy"]


def test_the_document_and_its_page_need_no_network(api: Api, app: FastAPI) -> None:
    with httpx.Client(base_url=api.url, trust_env=False) as client:
        document = client.get("/api/openapi.json").json()
        page = client.get("/api/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "http://" not in docs.PAGE
    assert "https://" not in docs.PAGE
    names = [op["operationId"] for path in document["paths"].values() for op in path.values()]
    assert len(names) == len(set(names))
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert operation["description"], path
    assert "JobRequest" in document["components"]["schemas"]


def test_a_fault_inside_is_not_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> float:
        raise ZeroDivisionError("a secret")

    ctx = open_services(tmp_path)
    clock: Any = ctx.clock
    with serve(ctx) as api, api.admin() as client:
        clock.__class__ = type("Broken", (), {"__call__": lambda self: broken()})
        response = client.post("/projects/default/jobs", json={"command": ["x"]})
    assert response.status_code == 500
    assert "secret" not in response.text
    assert response.json()["error"]["code"] == "internal"
    assert "a secret" in caplog.text
    ctx.store.close()


def test_a_record_that_is_away_is_said_to_be(tmp_path: Path) -> None:
    ctx = open_services(tmp_path)
    with serve(ctx) as api, api.admin() as client:
        ctx.store.close()
        os.rename(tmp_path / "headway.db", tmp_path / "gone")
        (tmp_path / "headway.db").mkdir()
        response = client.get("/me")
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "unreachable"
        assert response.headers["Retry-After"] == "1"


def tar_of(**files: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name.replace("_", "/"))
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def test_a_snapshot_goes_in_once_and_comes_out_the_same(admin: httpx.Client) -> None:
    content = tar_of(train=b"print(1)", deep_file=b"x" * 5_000_000)
    digest = hashlib.sha256(content).hexdigest()
    path = f"/projects/default/snapshots/{digest}"
    assert admin.get(path).status_code == 404
    for _ in range(2):
        response = admin.put(path, params={"commit": "abc", "dirty": "true"}, content=content)
        assert response.status_code == 200
        view = response.json()
        assert (view["digest"], view["files"], view["commit"], view["dirty"]) == (digest, 2, "abc", True)
    assert admin.get(path).content == content
    job = admin.post("/projects/default/jobs", json={"command": ["x"], "snapshot": digest, "held": True}).json()
    assert (job["snapshot"], job["commit"]) == (digest, "abc")


def test_a_snapshot_that_is_changed_or_leads_outside_is_refused(admin: httpx.Client) -> None:
    outside = io.BytesIO()
    with tarfile.open(fileobj=outside, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("../evil"))
    for content, digest in (
        (tar_of(a=b"1"), "0" * 64),
        (outside.getvalue(), hashlib.sha256(outside.getvalue()).hexdigest()),
        (b"no tar", hashlib.sha256(b"no tar").hexdigest()),
    ):
        response = admin.put(f"/projects/default/snapshots/{digest}", content=content)
        assert response.status_code == 422
        assert admin.get(f"/projects/default/snapshots/{digest}").status_code == 404


def test_a_job_is_given_the_version_that_is_newest_then(api: Api, admin: httpx.Client, tmp_path: Path) -> None:
    with Client(api.url, api.token("mia", Role.MEMBER)) as client:
        for text in ("first", "second"):
            (tmp_path / "data").mkdir(exist_ok=True)
            (tmp_path / "data" / "a.txt").write_text(text)
            client.datasets.push("digits", tmp_path / "data", statistics={"labels": {"a": 1}})
    job = admin.post("/projects/default/jobs", json={"command": ["x"], "datasets": ["digits"], "held": True}).json()
    assert job["datasets"] == ["digits@2"]
    missing = admin.post("/projects/default/jobs", json={"command": ["x"], "datasets": ["digit@1"]})
    assert (missing.status_code, missing.json()["error"]["remedy"]) == (404, "Did you mean digits?")


def test_requests_at_the_same_time_lose_nothing(api: Api, admin: httpx.Client) -> None:
    made: list[int] = []

    def submit() -> None:
        with api.admin() as client:
            for _ in range(10):
                made.append(client.post("/projects/default/jobs", json={"command": ["x"], "held": True}).json()["id"])

    threads = [threading.Thread(target=submit) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 60


def test_the_api_imports_no_more_than_it_needs() -> None:
    heavy = ("alembic", "PIL", "torch", "numpy", "obstore", "psycopg", "nicegui", "httpx", "headway.engines")
    code = f"import sys, headway.api.app, headway.store.sqlite; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_error_of_the_tree_has_a_status() -> None:
    def below(kind: type[HeadwayError]) -> list[type[HeadwayError]]:
        return [kind, *(k for sub in kind.__subclasses__() for k in below(sub))]

    assert all(400 <= kind.status < 600 for kind in below(HeadwayError))


def test_a_thousand_submits_from_32_threads_are_all_there(api: Api, admin: httpx.Client) -> None:
    """Over real HTTP; each is sent by the SDK, whose keys make sending again safe."""
    from headway.client import Client

    token = (Path(api.ctx.root).parent / "admin.token").read_text().strip()
    made, lock, numbers = list[int](), threading.Lock(), iter(range(1000))

    def body() -> None:
        with Client(api.url, token) as client:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                view = client.jobs.submit(["true"], name=f"many-{number}", held=True, tags={"many": "yes"})
                with lock:
                    made.append(view.id)

    threads = [threading.Thread(target=body) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 1000
    found = admin.get("/projects/default/jobs?tag=many&limit=1000").json()
    assert {j["id"] for j in found} == set(made)
    assert len({j["name"] for j in found}) == 1000


def test_a_dry_run_and_changes_over_http(admin: httpx.Client) -> None:
    request = {"command": ["true"], "parameters": {"lr": 0.1}, "held": True}
    dry = admin.post("/projects/default/jobs?dry_run=true", json=request).json()
    assert (dry["would"], dry["environment"]["LR"], dry["request"]["priority"]) == ("held", "0.1", 5)
    number = admin.post("/projects/default/jobs", json=request).json()["id"]
    assert admin.patch(f"/runs/{number}", json={"priority": 8}).json()["priority"] == 8
    clone = admin.post(f"/runs/{number}/clone", json={"job": {"parameters": {"lr": 0.2}}}).json()
    assert (clone["parameters"], clone["priority"]) == ({"lr": 0.2}, 8)
    assert admin.post(f"/runs/{number}/clone?dry_run=true").json()["request"]["priority"] == 8
    assert admin.get(f"/runs/{number}/attempts").json() == []
    assert admin.post(f"/runs/{number}/pause").json()["state"] == "held"
    answer = admin.patch(f"/runs/{number}", json={"priorty": 8})
    assert (answer.status_code, "priority?" in answer.json()["error"]["remedy"]) == (422, True)
