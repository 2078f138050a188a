from __future__ import annotations

import httpx
import pytest

from headway.cli.logs import moment
from headway.errors import UsageError
from headway.services.context import Services
from headway.testing.services import end_run, start_attempt, write_lines


@pytest.fixture
def run(ctx: Services, admin: httpx.Client) -> int:
    found = int(admin.post("/projects/default/jobs", json={"command": ["true"], "held": True}).json()["id"])
    node = start_attempt(ctx, found).node()
    write_lines(node.run_log, "one", "Two", "three")
    write_lines(node.run_log, "bad", stream="e")
    write_lines(node.diag_log, "set-up", stream="h")
    end_run(ctx, found)
    return found


def test_filters_of_pages_and_streams(admin: httpx.Client, run: int) -> None:
    for params, found in (({"grep": "t"}, ["Two", "three"]), ({"stream": "err"}, ["bad"]), ({"since": 2}, [])):
        page = admin.get(f"/runs/{run}/logs", params=params).json()
        assert [line["text"] for line in page["lines"]] == found
        assert (page["complete"], page["more"]) == (True, False)
        with admin.stream("GET", f"/runs/{run}/logs/stream", params=params) as response:
            assert response.read().count(b'"text"') == len(found)


def test_a_download(admin: httpx.Client, run: int) -> None:
    response = admin.get(f"/runs/{run}/logs/download", params={"raw": True, "kind": "run"})
    assert response.text == "one\nTwo\nthree\nbad\n"
    assert response.headers["content-type"].startswith("text/plain")
    assert response.headers["content-disposition"] == f'attachment; filename="run-{run}.run.log"'
    assert admin.get(f"/runs/{run}/logs/download", params={"kind": "diag"}).text.endswith("Z 0 headway set-up\n")


@pytest.mark.parametrize("params", [{"grep": "/(a+)+/"}, {"stream": "x"}, {"rank": -1}, {"grip": "x"}, {"kind": "x"}])
def test_what_is_wrong_is_said(admin: httpx.Client, run: int, params: dict[str, str]) -> None:
    for path in ("logs", "logs/stream", "logs/download"):
        assert admin.get(f"/runs/{run}/{path}", params=params).status_code == 422


@pytest.mark.parametrize(("text", "seconds"), [("1970-01-02T00:00:00Z", 86400.0), ("1700000000", 1.7e9)])
def test_moments(text: str, seconds: float) -> None:
    assert moment(text, "--since") == seconds


def test_moments_before_now_and_none_at_all() -> None:
    assert moment("20m", "--since") < moment("10m ago", "--since")
    with pytest.raises(UsageError, match="--since"):
        moment("yesterday", "--since")
