"""Every route of the application, walked as each kind of caller."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from headway.rules.access import Role
from headway.services.access import digest
from headway.services.context import Services
from headway.testing.api import Api

#: needs no token
OPEN = {("GET", "/health")}
#: about the caller itself: whoever has a token may ask
OWN = {("GET", "/me"), ("GET", "/projects")}
ADMIN = {
    *(("GET", "/users"), ("POST", "/users"), ("POST", "/projects"), ("GET", "/gateway/routes")),
    *(("POST", f"/nodes/{{node}}/{verb}") for verb in ("drain", "undrain", "reclaim")),
    ("PUT", "/projects/{project}/limits"),
    ("PUT", "/projects/{project}/storage"),
    ("GET", "/connections"),
    ("PUT", "/connections/{name}"),
    ("DELETE", "/connections/{name}"),
}
#: of another user
OTHERS = {
    ("GET", "/users/{name}/tokens"),
    ("POST", "/users/{name}/tokens"),
    ("DELETE", "/users/{name}/tokens/{token}"),
}
#: changes nothing, though it is a POST
LOOKING = {
    ("POST", "/projects/{project}/datasets/{name}/versions/{version}/verify"),
    ("POST", "/projects/{project}/evaluations/plan"),
}

HASH = "a" * 64
EVALUATION = {
    "name": "e", "job": 1, "cases": [{"id": "c"}], "worker": "evaluate.py:Digits",
    "outputs": [{"name": "score.json", "kind": "json"}], "snapshot": HASH,
}  # fmt: skip
BODIES: dict[str, Any] = {
    "/users": {"name": "newcomer"},
    "/users/{name}/tokens": {"name": "t"},
    "/projects": {"name": "other"},
    "/projects/{project}/quota": {"quota_files": 1},
    "/projects/{project}/members/{user}": {"role": "owner"},
    "/projects/{project}/limits": {"runs": 1},
    "/projects/{project}/jobs": {"command": ["true"]},
    "/runs/{run}": {"priority": 6},
    "/projects/{project}/templates/{reference}": {"job": {"command": ["true"]}},
    "/projects/{project}/templates/{reference}/jobs": {},
    "/runs/{run}/move": {"first": True},
    "/projects/{project}/datasets/{name}/versions/{version}/statistics": {"statistics": {}},
    "/connections/{name}": {"kind": "s3"},
    "/projects/{project}/storage": {"regions": ["berlin"]},
    "/projects/{project}/storage/check": {},
    "/projects/{project}/datasets/gc": {"dry_run": False},
    "/projects/{project}/caches/warm": {"dataset": "digits"},
    "/projects/{project}/pushes": {"name": "digits"},
    "/projects/{project}/pushes/{push}/known": {},
    "/projects/{project}/pushes/{push}/grants": {"objects": [{"kind": "part", "sha256": HASH, "bytes": 1}]},
    "/projects/{project}/pushes/{push}/sent": {"objects": [{"kind": "part", "sha256": HASH, "bytes": 1}]},
    "/projects/{project}/pushes/{push}/large": {"files": [{"sha256": HASH, "bytes": 1, "parts": [HASH]}]},
    "/projects/{project}/pushes/{push}/rows": {"start": 0, "rows": [["a", 1, HASH]]},
    "/projects/{project}/pushes/{push}/publish": {"files": 1, "bytes": 1, "digest": HASH},
    "/projects/{project}/evaluations": EVALUATION,
    "/projects/{project}/evaluations/plan": EVALUATION,
    "/projects/{project}/evaluations/{evaluation}/target": {"folder": "/tmp/outputs"},
    "/projects/{project}/evaluations/{evaluation}/verify": {},
    "/projects/{project}/evaluations/{evaluation}/adopt": {"folder": "/tmp/outputs"},
    "/projects/{project}/models/{name}/versions": {"job": 1, "predictor": "predictor.py:Digits", "snapshot": HASH},
    "/projects/{project}/endpoints": {"name": "e", "model": "digits"},
    "/projects/{project}/endpoints/{name}/tokens": {"name": "t"},
}  # fmt: skip


#: what a route must be asked with besides
QUERIES: dict[str, dict[str, Any]] = {
    "/projects/{project}/datasets/{name}/versions/{version}/content": {"path": "a"},
    "/projects/{project}/datasets/{name}/diff": {"older": 1, "newer": 1},
}


def routes(app: FastAPI) -> list[tuple[str, str]]:
    """(method, path below /api/v1) of everything that the application answers."""
    found = []
    for path, operations in app.openapi()["paths"].items():
        assert path.startswith("/api/v1/"), path
        found += [(method.upper(), path.removeprefix("/api/v1")) for method in operations]
    return found


@pytest.fixture(scope="module")
def run(admin: httpx.Client) -> int:
    found = admin.post("/projects/default/jobs", json={"command": ["true"], "held": True}).json()["id"]
    assert isinstance(found, int)
    return found


def ask(client: httpx.Client, method: str, path: str, run: int) -> httpx.Response:
    values = {
        "project": "default", "run": run, "job": run, "digest": HASH, "sha256": HASH, "name": "admin", "user": "admin",
        "token": 1, "evaluation": 1, "cell": 1, "version": 1, "node": "n", "push": 1,
        "reference": "mine",
    }  # fmt: skip
    filled = re.sub(r"\{(\w+)\}", lambda m: str(values[m[1]]), path)
    with client.stream(method, filled, params=QUERIES.get(path), json=BODIES.get(path)) as response:
        # a stream that was let in would never end
        if response.is_error:
            response.read()
        return response


def assert_refused(response: httpx.Response, statuses: set[int], what: object) -> None:
    assert response.status_code in statuses, (what, response.status_code)
    error = response.json()["error"]
    assert set(error) == {"code", "message", "remedy"}, what
    assert error["message"], what


def state(ctx: Services) -> list[object]:
    """What no refused request may have changed."""
    with ctx.store.read() as tx:
        project = tx.people.project("default")
        assert project is not None
        tokens = [t for u in tx.people.users() for t in tx.people.tokens(u.id)]
        return [
            tx.people.users(), tokens, tx.people.projects(), tx.people.members(project.id), tx.runs.listing(),
            tx.products.datasets(project.id), tx.products.models(project.id), tx.evaluations.listing(project.id),
            tx.endpoints.all(), sorted(p for p in ctx.root.rglob("*") if p.is_file()),
        ]  # fmt: skip


def test_the_walk_reaches_every_route(app: FastAPI) -> None:
    found = routes(app)
    assert len(found) > 45
    assert set(found) >= (OPEN | OWN | ADMIN | OTHERS | LOOKING)
    # what is no part of the document is the document itself and the page that shows it
    hidden = {r.path for r in app.routes if getattr(r, "path", None)}
    assert hidden == {"/api/openapi.json", "/api/docs"}


def test_without_a_token_or_with_a_wrong_one_nothing_is_answered(api: Api, app: FastAPI, run: int) -> None:
    before = state(api.ctx)
    for token, code in ((None, "token_missing"), ("hw_wrong", "token_wrong")):
        with api.client(token) as client:
            for method, path in routes(app):
                response = ask(client, method, path, run)
                if (method, path) in OPEN:
                    assert response.status_code == 200
                else:
                    assert_refused(response, {401}, (method, path))
                    assert response.json()["error"]["code"] == code
                    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert state(api.ctx) == before


def test_a_stranger_sees_only_itself(api: Api, app: FastAPI, run: int) -> None:
    token = api.token("sten")
    before = state(api.ctx)
    with api.client(token) as client:
        for method, path in routes(app):
            response = ask(client, method, path, run)
            if (method, path) in OPEN | OWN:
                assert response.status_code == 200
            else:
                assert_refused(response, {403, 404}, (method, path))
        assert client.get("/projects").json() == []
        assert client.get("/me").json()["projects"] == {}
    assert state(api.ctx) == before


def test_a_viewer_looks_and_changes_nothing(api: Api, app: FastAPI, run: int) -> None:
    token = api.token("vic", Role.VIEWER)
    before = state(api.ctx)
    with api.client(token) as client:
        for method, path in routes(app):
            response = ask(client, method, path, run)
            if (method, path) in ADMIN | OTHERS or (method != "GET" and (method, path) not in LOOKING):
                assert_refused(response, {403}, (method, path))
            else:
                # what there is is shown; what there is not is not found
                # (or, of an interval that nothing tells, refused)
                assert response.status_code in (200, 404, 409), (method, path, response.status_code)
    assert state(api.ctx) == before


def test_a_member_works_and_does_not_manage(api: Api, app: FastAPI, run: int) -> None:
    with api.client(api.token("mia", Role.MEMBER)) as client:
        for method, path in (
            ("PUT", "/projects/{project}/quota"),
            ("PUT", "/projects/{project}/members/{user}"),
            ("DELETE", "/projects/{project}/members/{user}"),
            *ADMIN,
            *OTHERS,
        ):
            assert_refused(ask(client, method, path, run), {403}, (method, path))
        assert client.post("/projects/default/jobs", json={"command": ["true"], "held": True}).status_code == 200


def test_the_gateway_reads_routes_and_nothing_else(api: Api, app: FastAPI, run: int) -> None:
    token = (Path(api.ctx.root).parent / "gateway.token").read_text().strip()
    with api.client(token) as client:
        for method, path in routes(app):
            response = ask(client, method, path, run)
            if (method, path) in OPEN | OWN | {("GET", "/gateway/routes")}:
                assert response.status_code == 200
            else:
                assert_refused(response, {403, 404}, (method, path))
        assert client.get("/projects").json() == []


def test_a_role_in_one_project_is_none_in_another(api: Api, admin: httpx.Client, run: int) -> None:
    assert admin.post("/projects", json={"name": "secret"}).status_code == 200
    other = admin.post("/projects/secret/jobs", json={"command": ["true"], "held": True}).json()["id"]
    with api.client(api.token("olga", Role.OWNER)) as client:
        assert client.get("/projects/secret").status_code == 404
        assert client.get(f"/runs/{other}").status_code == 404
        assert client.post(f"/runs/{other}/stop").status_code == 404
        # not through another project's address either
        assert client.get(f"/projects/default/jobs/{other}").status_code == 404
        assert client.put("/projects/default/quota", json={}).status_code == 200


@pytest.fixture
def token(api: Api) -> Iterator[str]:
    yield api.token("tom", Role.VIEWER)


def test_revoked_and_expired_tokens_say_so(api: Api, token: str) -> None:
    with api.client(token) as client:
        assert client.get("/me").status_code == 200
        with api.ctx.store.begin() as tx:
            found = tx.people.by_token(digest(token))
            assert found is not None
            tx.people.revoke_token(found[1].id, api.ctx.clock())
        assert client.get("/me").json()["error"]["code"] == "token_revoked"
    with api.client(api.token("tom")) as client:
        made = client.post("/users/tom/tokens", json={"name": "short", "lifetime": 5}).json()
    clock: Any = api.ctx.clock
    with api.client(made["token"]) as client:
        assert client.get("/me").status_code == 200
        clock.now += 6
        assert client.get("/me").json()["error"]["code"] == "token_expired"
