from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from headway.protocol import hints
from headway.rules.states import RunState
from headway.services.context import Services
from headway.testing.api import Api
from headway.testing.services import end_run, start_attempt, write_lines


@pytest.fixture
def run(admin: httpx.Client) -> int:
    found = admin.post("/projects/default/jobs", json={"command": ["true"], "held": True}).json()["id"]
    assert isinstance(found, int)
    return found


def events(response: httpx.Response) -> Iterator[tuple[str, str, Any]]:
    """(event, id, data) one after another."""
    event, identity, data = "message", "", ""
    for line in response.iter_lines():
        name, _, value = line.partition(": ")
        if name == "event":
            event = value
        elif name == "id":
            identity = value
        elif name == "data":
            data = value
        elif not line and data:
            yield event, identity, json.loads(data)
            event, identity, data = "message", "", ""


def test_a_log_is_followed_to_its_end(api: Api, admin: httpx.Client, ctx: Services, run: int) -> None:
    with admin.stream("GET", f"/runs/{run}/logs/stream") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        found = events(response)
        first = start_attempt(ctx, run)
        write_lines(first.node().run_log, "one")
        hints.send(ctx.hints, "attempt", first.path.name)
        assert next(found)[2]["text"] == "one"
        # lines that come without a hint are seen too
        write_lines(first.node().run_log, "two", "three")
        assert [next(found)[2]["text"] for _ in range(2)] == ["two", "three"]
        second = start_attempt(ctx, run)
        write_lines(second.node().run_log, "four")
        end_run(ctx, run)
        hints.send(ctx.hints, "states", str(run))
        event, identity, line = next(found)
        assert (event, line["text"], identity) == ("message", "four", line["cursor"])
        assert next(found)[0] == "end"
        assert list(found) == []


def test_a_log_goes_on_from_where_a_reader_was(admin: httpx.Client, ctx: Services, run: int) -> None:
    write_lines(start_attempt(ctx, run).node().run_log, *(f"{n}" for n in range(1200)))
    end_run(ctx, run)
    with admin.stream("GET", f"/runs/{run}/logs/stream") as response:
        whole = list(events(response))
    assert [e[2]["text"] for e in whole[:-1]] == [f"{n}" for n in range(1200)]
    at = whole[700]
    ways: list[Callable[[], Any]] = [
        lambda: admin.stream("GET", f"/runs/{run}/logs/stream", params={"after": at[1]}),
        lambda: admin.stream("GET", f"/runs/{run}/logs/stream", headers={"Last-Event-ID": at[1]}),
    ]
    for way in ways:
        with way() as response:
            assert list(events(response)) == whole[701:]


def test_what_is_wrong_with_a_stream_is_answered_before_it_begins(admin: httpx.Client, run: int) -> None:
    for path, status in (
        (f"/runs/{run}/logs/stream?kind=x", 422),
        (f"/runs/{run}/logs/stream?after=7", 422),
        (f"/runs/{run + 1000}/logs/stream", 404),
        ("/projects/nothing/stream", 404),
    ):
        response = admin.get(path)
        assert (response.status_code, set(response.json())) == (status, {"error"})


def test_a_project_tells_its_changes(admin: httpx.Client, ctx: Services, run: int) -> None:
    with admin.stream("GET", "/projects/default/stream") as response:
        found = events(response)

        def until(wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
            return next(data for event, _, data in found if event == "run" and wanted(data))

        assert until(lambda r: r["id"] == run)["state"] == "held"
        assert admin.post(f"/runs/{run}/release").json()["state"] == "queued"
        assert until(lambda r: r["id"] == run)["state"] == "queued"
        start_attempt(ctx, run)
        hints.send(ctx.hints, "states")
        assert until(lambda r: r["id"] == run)["attempt"] == f"{run}-1"
        end_run(ctx, run, RunState.FAILED)
        hints.send(ctx.hints, "states")
        assert until(lambda r: r["id"] == run)["state"] == "failed"
        new = admin.post("/projects/default/jobs", json={"command": ["x"], "held": True}).json()
        assert until(lambda r: r["id"] == new["id"]) == new


def test_many_readers_hear_the_same_and_nothing_is_left_of_them(
    api: Api, ctx: Services, admin: httpx.Client, run: int
) -> None:
    heard: list[int] = []
    ready = threading.Barrier(4)

    def read() -> None:
        with api.admin() as client, client.stream("GET", "/projects/default/stream") as response:
            found = events(response)
            next(e for e in found if e[2]["id"] == run)
            ready.wait(20)
            heard.append(next(e for e in found if e[2]["id"] == run)[2]["id"])

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    ready.wait(20)
    admin.post(f"/runs/{run}/stop")
    for thread in threads:
        thread.join(20)
    assert heard == [run] * 3
    assert ctx.hints is not None
    # the socket is gone once the last reader is: the server notices a closed connection by itself
    deadline = threading.Event()
    for _ in range(200):
        if not list(ctx.hints.glob("api-*.sock")):
            break
        deadline.wait(0.05)
    assert not list(ctx.hints.glob("api-*.sock"))
