"""Looking into a dataset version over HTTP."""

from __future__ import annotations

import hashlib
from typing import Any

import httpx
import pytest

from headway.client import Client
from headway.rules.access import Role
from headway.testing.api import Api

FILES = {"a/1.txt": b"one", "a-b/2.txt": b"two two", "a/图\n.txt": b"", "top": bytes(range(256)) * 100}
ORDER = ["a/1.txt", "a/图\n.txt", "a-b/2.txt", "top"]
VERSION = "/projects/default/datasets/mixed/versions/1"


@pytest.fixture(scope="module")
def mixed(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Api:
    """`mixed@1` holds FILES."""
    folder = tmp_path_factory.mktemp("mixed")
    for path, content in FILES.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(content)
    with Client(api.url, token=api.token("pusher", Role.MEMBER)) as client:
        client.datasets.push("mixed", folder)
    return api


def get(admin: httpx.Client, url: str, /, headers: dict[str, str] | None = None, **params: Any) -> httpx.Response:
    return admin.get(url, params=params, headers=headers)


def test_files_come_in_order_page_by_page(mixed: Api, admin: httpx.Client) -> None:
    found: list[list[Any]] = []
    after: dict[str, str] = {}
    for _ in range(len(FILES)):
        page = get(admin, f"{VERSION}/files", limit=2, **after).json()
        assert len(page["files"]) <= 2
        found += page["files"]
        if page["after"] is None:
            break
        after = {"after": page["after"]}
    assert found == [[p, len(FILES[p]), hashlib.sha256(FILES[p]).hexdigest()] for p in ORDER]


@pytest.mark.parametrize(
    ("prefix", "found"), [("a", ORDER[:2]), ("a/", ORDER[:2]), ("a/1.txt", ORDER[:1]), ("to", []), ("b", [])]
)
def test_files_below_a_folder(mixed: Api, admin: httpx.Client, prefix: str, found: list[str]) -> None:
    assert [f[0] for f in get(admin, f"{VERSION}/files", prefix=prefix).json()["files"]] == found


def test_places_lead_to_the_contents(mixed: Api, admin: httpx.Client) -> None:
    answer = get(admin, f"{VERSION}/places").json()
    assert answer["pages"] == 1 and [row["path"] for row in answer["rows"]] == ORDER
    for row in answer["rows"]:
        pack = get(admin, f"/projects/default/packs/{row['pack']}")
        assert hashlib.sha256(pack.content).hexdigest() == row["pack"]
        assert pack.content[row["offset"] : row["offset"] + row["bytes"]] == FILES[row["path"]]
        if row["bytes"]:
            header = {"Range": f"bytes={row['offset']}-{row['offset'] + row['bytes'] - 1}"}
            part = get(admin, f"/projects/default/packs/{row['pack']}", header)
            assert (part.status_code, part.content) == (206, FILES[row["path"]])


@pytest.mark.parametrize(
    ("header", "status", "first", "last"),
    [
        (None, 200, 0, 25_600),
        ("bytes=0-0", 206, 0, 1),
        ("bytes=25599-", 206, 25_599, 25_600),
        ("bytes=-100", 206, 25_500, 25_600),
        ("bytes=10-99999999", 206, 10, 25_600),
        ("bytes=0-1,5-6", 200, 0, 25_600),
        ("lines=0-1", 200, 0, 25_600),
    ],
)
def test_a_file_or_a_range_of_it(
    mixed: Api, admin: httpx.Client, header: str | None, status: int, first: int, last: int
) -> None:
    answer = get(admin, f"{VERSION}/content", {"Range": header} if header else None, path="top")
    assert (answer.status_code, answer.content) == (status, FILES["top"][first:last])
    assert answer.headers["content-length"] == str(last - first)
    if status == 206:
        assert answer.headers["content-range"] == f"bytes {first}-{last - 1}/25600"


def test_an_empty_file_is_there(mixed: Api, admin: httpx.Client) -> None:
    answer = get(admin, f"{VERSION}/content", path="a/图\n.txt")
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize(
    ("path", "params", "headers", "status", "words"),
    [
        (f"{VERSION}/content", {"path": "none"}, {}, 404, "'none'"),
        (f"{VERSION}/content", {"path": "top"}, {"Range": "bytes=25600-"}, 416, "25600"),
        (f"{VERSION}/places", {"page": 1}, {}, 404, "no page 1"),
        (f"{VERSION}/files", {"limit": 0}, {}, 422, "limit"),
        ("/projects/default/datasets/mixed/versions/9/files", {}, {}, 404, "no version 9"),
        (f"/projects/default/packs/{'0' * 64}", {}, {}, 404, "no pack"),
        ("/projects/default/packs/xyz", {}, {}, 422, "xyz"),
    ],
)
def test_what_is_not_there(
    mixed: Api, admin: httpx.Client, path: str, params: dict[str, Any], headers: dict[str, str], status: int, words: str
) -> None:
    answer = get(admin, path, headers, **params)
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]


def test_only_who_works_in_a_project_changes_statistics(mixed: Api, admin: httpx.Client) -> None:
    body = {"statistics": {"splits": {"train": {"cat": 3}}}}
    with mixed.client(mixed.token("viewer", Role.VIEWER)) as viewer:
        assert viewer.put(f"{VERSION}/statistics", json=body).status_code == 403
        assert admin.put(f"{VERSION}/statistics", json=body).json()["statistics"] == body["statistics"]
        assert viewer.get("/projects/default/datasets").json()[0]["statistics"] == body["statistics"]
